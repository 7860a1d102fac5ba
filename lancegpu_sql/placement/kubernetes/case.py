"""One pod that waits, with all that a diagnosis looks at, and the verdict that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.pool import NodeFinding, find_obstacle, pool_of
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

    @cached_property
    def findings(self) -> Sequence[NodeFinding]:
        """What keeps the pod from each node of its pool."""
        return [
            find_obstacle(self.pod, node, self.resource, self.cluster, self.now)
            for node in pool_of(self.pod, self.cluster)
        ]

    def can_read(self, *resources: str) -> bool:
        """Tell whether all of these may be read."""
        return self.cluster.unreadable.isdisjoint(resources)

    def unreadable(self, *resources: str) -> tuple[str, ...]:
        """Return those that may not be read."""
        return tuple(one for one in resources if one in self.cluster.unreadable)


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def quoted(message: str) -> str:
    """Return a foreign message as a quotation of bearable length."""
    flat = " ".join(message.split())
    return f"“{flat[:300]}{'…' if len(flat) > 300 else ''}”"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names one after another, the first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
