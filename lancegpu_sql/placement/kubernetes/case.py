"""One pod that waits, with all that a diagnosis looks at, and the verdict that comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.cluster import RIGHTS, ClusterView
from lancegpu_sql.placement.kubernetes.names import JOB_LABEL
from lancegpu_sql.placement.kubernetes.pool import NodeFinding, Pool, look_at_pool
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.request import WorkerRequest

REASONS = (
    "in_use",
    "no_matching_node",
    "untolerated_taint",
    "resource_not_advertised",
    "too_large",
    "other_resource",
    "cordoned",
    "not_ready",
    "quota",
    "node_starting",
    "claim",
    "device_failed",
    "image",
    "starting",
)
"""Every reason that a diagnosis may give."""


@dataclass(frozen=True)
class Verdict:
    """Why a pod waits. `lacks` are the resources that, could they be read, would make it say more."""

    reason: str
    message: str
    can_be_met: bool | None = None
    lacks: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The message, with the rights that would make it say more."""
        if not self.lacks:
            return self.message
        return (
            f"{self.message}; more could be said with the right to {' and to '.join(RIGHTS[one] for one in self.lacks)}"
        )


@dataclass(frozen=True)
class Case:
    """One pod, at one moment, in the cluster that it waits for."""

    pod: PodView
    cluster: ClusterView
    gpu_class: GpuClass | None
    request: WorkerRequest
    now: datetime

    @property
    def resource(self) -> str | None:
        """The resource by which the pod asks for devices; None where it asks by claims, or for none."""
        name = self.gpu_class.resource_name if self.gpu_class is not None else None
        return name if name is not None and self.pod.requests.get(name, 0) > 0 else None

    @property
    def need(self) -> int:
        """How much of the resource it asks for, in thousandths."""
        return self.pod.requests.get(self.resource, 0) if self.resource is not None else 0

    @property
    def pool_words(self) -> str:
        """The pool, as people call it."""
        return f"GPU class {self.gpu_class.name!r}" if self.gpu_class is not None else "the pool of CPU workers"

    @property
    def job(self) -> str | None:
        """The job that waits, as its pod's label has it."""
        return self.pod.labels.get(JOB_LABEL)

    @cached_property
    def pool(self) -> Pool:
        """The nodes that carry what the pod selects, and what keeps it from each."""
        return look_at_pool(self.pod, self.resource, self.cluster, self.now)

    @property
    def findings(self) -> tuple[NodeFinding, ...]:
        """What keeps the pod from each node of its pool."""
        return self.pool.findings

    def can_read(self, *resources: str) -> bool:
        """Tell whether all of these may be read."""
        return self.cluster.unreadable.isdisjoint(resources)

    def unreadable(self, *resources: str) -> tuple[str, ...]:
        """Return those that may not be read."""
        return tuple(one for one in resources if one in self.cluster.unreadable)
