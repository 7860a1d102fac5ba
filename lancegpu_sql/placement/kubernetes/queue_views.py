"""What the thinking reads of Kueue: workloads, the queues they stand in, their flavors, and how much these may ever admit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lancegpu_sql.placement.kubernetes.fields import entries, mapping, text, texts
from lancegpu_sql.placement.kubernetes.quantities import parse_quantity
from lancegpu_sql.placement.kubernetes.views import Condition, Taint, conditions_of

KUEUE_GATE_PREFIX = "kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One Workload: what Kueue knows of a pod.

    `owner_uids` are the pods (or jobs) that it stands for, `reserved_in` the ClusterQueue whose quota it has, and
    `requests` what is asked of the quota, in thousandths: Kueue may leave resources out, or count devices of claims in.
    """

    name: str
    namespace: str
    queue: str
    owner_uids: tuple[str, ...] = ()
    active: bool = True
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    reserved_in: str = ""
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalQueueView:
    """One LocalQueue and the ClusterQueue that it feeds."""

    name: str
    namespace: str
    cluster_queue: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class FlavorView:
    """One ResourceFlavor: the nodes that it stands for."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class FlavorQuota:
    """What a ClusterQueue has of one flavor, by resource, in thousandths.

    `nominal` is its own quota, `most` what it may ever have, None where that has no bound; `reserved` is given away.
    """

    flavor: str
    nominal: Mapping[str, int]
    most: Mapping[str, int | None]
    reserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterQueueView:
    """One ClusterQueue.

    `inactive` is why it is not active (``FlavorNotFound``), empty where it is. A pod gets what it needs of each of the
    `groups` from one flavor of it.
    """

    name: str
    stopped: bool = False
    inactive: str = ""
    groups: tuple[tuple[FlavorQuota, ...], ...] = ()


def workload_view(obj: object) -> WorkloadView:
    """Read a Workload."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    requests: Counter[str] = Counter()
    for one in entries(mapping(obj, "status").get("resourceRequests")):
        for name, value in mapping(one, "resources").items():
            requests[str(name)] += parse_quantity(value) or 0
    return WorkloadView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        queue=text(spec.get("queueName")),
        owner_uids=tuple(text(one.get("uid")) for one in entries(metadata.get("ownerReferences"))),
        active=spec.get("active") is not False,
        conditions=conditions_of(mapping(obj, "status")),
        reserved_in=text(mapping(obj, "status", "admission").get("clusterQueue")),
        requests=dict(requests),
    )


def local_queue_view(obj: object) -> LocalQueueView:
    """Read a LocalQueue."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return LocalQueueView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        cluster_queue=text(spec.get("clusterQueue")),
        stopped=_is_stopped(spec),
    )


def flavor_view(obj: object) -> FlavorView:
    """Read a ResourceFlavor; a taint that it tolerates for its pods is none."""
    spec = mapping(obj, "spec")
    tolerated = {text(one.get("key")) for one in entries(spec.get("tolerations"))}
    return FlavorView(
        name=text(mapping(obj, "metadata").get("name")),
        node_labels=texts(spec.get("nodeLabels")),
        taints=tuple(
            Taint(text(one.get("key")), text(one.get("value")), text(one.get("effect")))
            for one in entries(spec.get("nodeTaints"))
            if text(one.get("key")) not in tolerated
        ),
    )


def cluster_queue_view(obj: object) -> ClusterQueueView:
    """Read a ClusterQueue; a queue of a cohort may borrow without bound where it sets no limit."""
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    active = conditions_of(status).get("Active")
    borrows = bool(text(spec.get("cohortName")) or text(spec.get("cohort")))
    reserved = {
        text(one.get("name")): _amounts(one.get("resources"), "total")
        for one in entries(status.get("flavorsReservation"))
    }
    return ClusterQueueView(
        name=text(mapping(obj, "metadata").get("name")),
        stopped=_is_stopped(spec),
        inactive=active.reason if active is not None and active.status == "False" else "",
        groups=tuple(
            tuple(_quota(flavor, borrows, reserved) for flavor in entries(group.get("flavors")))
            for group in entries(spec.get("resourceGroups"))
        ),
    )


def _quota(flavor: Mapping[str, object], borrows: bool, reserved: Mapping[str, Mapping[str, int]]) -> FlavorQuota:
    name, resources = text(flavor.get("name")), flavor.get("resources")
    nominal, limits = _amounts(resources, "nominalQuota"), _amounts(resources, "borrowingLimit")
    most = {
        resource: own if not borrows else own + limits[resource] if resource in limits else None
        for resource, own in nominal.items()
    }
    return FlavorQuota(name, nominal, most, reserved.get(name, {}))


def _amounts(resources: object, key: str) -> dict[str, int]:
    amounts = {text(one.get("name")): parse_quantity(one.get(key)) for one in entries(resources)}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _is_stopped(spec: Mapping[str, object]) -> bool:
    return text(spec.get("stopPolicy")) in ("Hold", "HoldAndDrain")
