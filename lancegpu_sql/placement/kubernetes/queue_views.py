"""What the thinking reads of Kueue: workloads, the queues they stand in, and how much these may ever admit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancegpu_sql.placement.kubernetes.fields import entries, mapping, text
from lancegpu_sql.placement.kubernetes.quantities import parse_quantity
from lancegpu_sql.placement.kubernetes.views import Condition, conditions_of

KUEUE_GATE_PREFIX = "kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One Workload: what Kueue knows of a pod. `owner_uids` are the pods (or jobs) that it stands for."""

    name: str
    namespace: str
    queue: str
    owner_uids: tuple[str, ...] = ()
    active: bool = True
    conditions: Mapping[str, Condition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalQueueView:
    """One LocalQueue and the ClusterQueue that it feeds."""

    name: str
    namespace: str
    cluster_queue: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class ClusterQueueView:
    """One ClusterQueue.

    `inactive` is why it is not active (``FlavorNotFound``), empty where it is. `most` is the most of a resource that one
    pod may ever get, None where that has no bound.
    """

    name: str
    stopped: bool = False
    inactive: str = ""
    most: Mapping[str, int | None] = field(default_factory=dict)


def workload_view(obj: object) -> WorkloadView:
    """Read a Workload."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return WorkloadView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        queue=text(spec.get("queueName")),
        owner_uids=tuple(text(one.get("uid")) for one in entries(metadata.get("ownerReferences"))),
        active=spec.get("active") is not False,
        conditions=conditions_of(mapping(obj, "status")),
    )


def local_queue_view(obj: object) -> LocalQueueView:
    """Read a LocalQueue."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return LocalQueueView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        cluster_queue=text(spec.get("clusterQueue")),
        stopped=text(spec.get("stopPolicy")) in ("Hold", "HoldAndDrain"),
    )


def cluster_queue_view(obj: object) -> ClusterQueueView:
    """Read a ClusterQueue; a queue of a cohort may borrow without bound where it sets no limit."""
    spec = mapping(obj, "spec")
    active = conditions_of(mapping(obj, "status")).get("Active")
    borrows = bool(text(spec.get("cohortName")) or text(spec.get("cohort")))
    most: dict[str, int | None] = {}
    for group in entries(spec.get("resourceGroups")):
        for flavor in entries(group.get("flavors")):
            for resource in entries(flavor.get("resources")):
                name, limit = text(resource.get("name")), parse_quantity(resource.get("borrowingLimit"))
                own = parse_quantity(resource.get("nominalQuota")) or 0
                here = own if not borrows else None if limit is None else own + limit
                so_far = most.get(name, 0)
                most[name] = None if here is None or so_far is None else max(here, so_far)
    return ClusterQueueView(
        name=text(mapping(obj, "metadata").get("name")),
        stopped=text(spec.get("stopPolicy")) in ("Hold", "HoldAndDrain"),
        inactive=active.reason if active is not None and active.status == "False" else "",
        most=most,
    )
