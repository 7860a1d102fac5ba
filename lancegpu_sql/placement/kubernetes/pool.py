"""What keeps one pod from each node of its pool: the facts from which a diagnosis is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.device_views import PublishedDevice, is_of
from lancegpu_sql.placement.kubernetes.fit import selects, untolerated
from lancegpu_sql.placement.kubernetes.holders import Holders, holders_of
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS
from lancegpu_sql.placement.kubernetes.views import NodeView, PodView, Taint

YOUNG = timedelta(minutes=10)
"""Installing a GPU driver on a new node takes operators' tools up to about this long."""

_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_REMOVAL_TAINTS = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")
_CONDITION_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
)
_START_UP_TAINTS = (
    "node.cloudprovider.kubernetes.io/uninitialized",
    "karpenter.sh/unregistered",
    "node.kubernetes.io/uninitialized",
)
_START_UP_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
_START_UP_SUFFIX = "agent-not-ready"
"""How network and storage agents name the taint that they take away once they run (Cilium, AWS's CSI drivers)."""


class Obstacle(StrEnum):
    """What keeps a pod from a node, the soonest to go first."""

    NONE = "none"
    STARTING = "node_starting"
    OTHER_RESOURCE = "other_resource"
    IN_USE = "in_use"
    CLAIM = "claim"
    DEVICE_FAILED = "device_failed"
    CORDONED = "cordoned"
    NOT_READY = "not_ready"
    TAINT = "untolerated_taint"
    NOT_ADVERTISED = "resource_not_advertised"
    TOO_LARGE = "too_large"


@dataclass(frozen=True)
class NodeFinding:
    """One node of the pool, as one pod sees it.

    `total`, `taken` and `failed` count devices (thousandths) of the resource that the pod needs; `lacking` are the
    resources for which the node is too small or too full; `holders` the pods that hold its devices.
    """

    node: NodeView
    obstacle: Obstacle
    total: int = 0
    taken: int = 0
    failed: int = 0
    lacking: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    holders: tuple[tuple[PodView, int], ...] = ()

    @property
    def free(self) -> int:
        """Devices that nobody holds."""
        return max(self.total - self.taken, 0)


@dataclass(frozen=True)
class Stock:
    """The devices of one node, whoever counts them: a device plugin, or a driver's ResourceSlices."""

    total: int
    failed: int
    taken: int
    holders: tuple[tuple[PodView, int], ...]


@dataclass(frozen=True)
class Pool:
    """The nodes that carry what a pod selects, fit or not."""

    findings: tuple[NodeFinding, ...]

    @cached_property
    def groups(self) -> Mapping[Obstacle, tuple[NodeFinding, ...]]:
        """The nodes by what they have against the pod, the soonest to go first."""
        found: dict[Obstacle, list[NodeFinding]] = {}
        for finding in self.findings:
            found.setdefault(finding.obstacle, []).append(finding)
        return {obstacle: tuple(found[obstacle]) for obstacle in Obstacle if obstacle in found}

    @cached_property
    def holders(self) -> Mapping[Obstacle, Holders]:
        """Who holds the devices of each group."""
        return {
            obstacle: holders_of(holder for finding in found for holder in finding.holders)
            for obstacle, found in self.groups.items()
        }


def look_at_pool(pod: PodView, resource: str | None, cluster: ClusterView, now: datetime) -> Pool:
    """Look at each node of the pool; pods that are alike see it alike, and it is looked at once for all of them.

    Parameters
    ----------
    resource
        That of the devices; None where the pod asks for none in this way.
    """
    alike = (
        tuple(sorted(pod.node_selector.items())),
        repr(pod.required_terms),
        pod.tolerations,
        tuple(sorted(pod.requests.items())),
        tuple((claim.template or claim.claim_name, claim.claim_name is None) for claim in pod.claims),
        resource,
        now,
    )
    pool: Pool | None = cluster.remembered.get(alike)
    if pool is None:
        nodes = (node for node in cluster.nodes if selects(pod, node))
        pool = Pool(tuple(find_obstacle(pod, node, resource, cluster, now) for node in nodes))
        cluster.remembered[alike] = pool
    return pool


def find_obstacle(
    pod: PodView, node: NodeView, resource: str | None, cluster: ClusterView, now: datetime
) -> NodeFinding:
    """Look at one node of the pool."""
    stock = _claimed_stock(pod, node, cluster) if pod.claims else stock_of(node, resource, cluster)
    obstacle, lacking, taints = _obstacle(pod, node, resource, stock, cluster, now)
    return NodeFinding(node, obstacle, stock.total, stock.taken, stock.failed, lacking, taints, stock.holders)


def stock_of(node: NodeView, resource: str | None, cluster: ClusterView) -> Stock:
    """Count the devices of a node."""
    if resource is None:
        return Stock(0, 0, 0, ())
    listed, healthy = node.capacity.get(resource, 0), node.allocatable.get(resource, 0)
    if not listed and not healthy:
        return _published_stock(node, resource, cluster)
    holders = _holders(node, resource, cluster)
    return Stock(healthy, max(listed - healthy, 0), sum(count for _, count in holders), holders)


def is_being_removed(finding: NodeFinding) -> bool:
    """Tell whether an autoscaler has said that it takes the node away."""
    return any(taint.key in _REMOVAL_TAINTS for taint in finding.taints)


def is_young(node: NodeView, now: datetime) -> bool:
    """Tell whether a node may still be on its way up."""
    return node.created_at is not None and now - node.created_at < YOUNG


def _holders(node: NodeView, resource: str, cluster: ClusterView) -> tuple[tuple[PodView, int], ...]:
    return tuple(
        (pod, pod.requests[resource]) for pod in cluster.use_of(node.name).pods if pod.requests.get(resource, 0) > 0
    )


def _published_stock(node: NodeView, resource: str, cluster: ClusterView) -> Stock:
    """Count devices behind a device class that stands in for the resource (its extendedResourceName)."""
    return _stock_of_classes(
        node, {one.name for one in cluster.device_classes if one.extended_resource == resource}, cluster
    )


def _claimed_stock(pod: PodView, node: NodeView, cluster: ClusterView) -> Stock:
    """Count devices of the classes that the pod's claims name; which of them will do is for the claims to say."""
    requests = (request for claim in cluster.claims_of(pod) for request in claim.requests)
    return _stock_of_classes(node, {request.device_class for request in requests}, cluster)


def _stock_of_classes(node: NodeView, names: Collection[str], cluster: ClusterView) -> Stock:
    classes = [one for one in cluster.device_classes if one.name in names]
    if not classes:
        return Stock(0, 0, 0, ())
    published: tuple[PublishedDevice, ...] = cluster.devices_by_node.get(node.name, ())
    devices = [one for one in published if any(is_of(one, device_class) for device_class in classes)]
    healthy = [one for one in devices if not one.taints]
    held = [one for one in healthy if one.key in cluster.device_holders]
    holders: dict[str, tuple[PodView, int]] = {}
    for device in held:
        for pod in cluster.device_holders[device.key]:
            before = holders.get(pod.uid, (pod, 0))[1]
            holders[pod.uid] = (pod, before + THOUSANDTHS)
    return Stock(
        total=len(healthy) * THOUSANDTHS,
        failed=(len(devices) - len(healthy)) * THOUSANDTHS,
        taken=len(held) * THOUSANDTHS,
        holders=tuple(holders.values()),
    )


_Found = tuple[Obstacle, tuple[str, ...], tuple[Taint, ...]]


def _obstacle(
    pod: PodView, node: NodeView, resource: str | None, stock: Stock, cluster: ClusterView, now: datetime
) -> _Found:
    """Return the obstacle that is left when all others are gone: what no waiting removes comes first."""
    need = pod.requests.get(resource, 0) if resource else 0
    others = {name: amount for name, amount in pod.requests.items() if name != resource and amount > 0}
    use = cluster.use_of(node.name)
    listed = stock.total + stock.failed
    if 0 < listed < need:
        return Obstacle.TOO_LARGE, (str(resource),), ()
    small = _short(others, node.allocatable, use.fixed) if node.allocatable else ()
    if small:
        absent = [name for name in small if "/" in name and not node.capacity.get(name)]
        return (Obstacle.NOT_ADVERTISED if absent else Obstacle.TOO_LARGE), small, ()
    blocked = _state_of_node(pod, node, is_young(node, now))
    if blocked is not None:
        return blocked
    if need and not listed:
        return (Obstacle.STARTING if is_young(node, now) else Obstacle.NOT_ADVERTISED), (str(resource),), ()
    if stock.total < need:
        return Obstacle.DEVICE_FAILED, (str(resource),), ()
    if stock.total - stock.taken < need:
        return Obstacle.IN_USE, (str(resource),), ()
    full = _short(others, node.allocatable, use.taken)
    if full:
        return Obstacle.OTHER_RESOURCE, full, ()
    return (Obstacle.CLAIM if pod.claims else Obstacle.NONE), (), ()


def _short(needs: Mapping[str, int], there: Mapping[str, int], taken: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, amount in needs.items() if there.get(name, 0) - taken.get(name, 0) < amount)


def _state_of_node(pod: PodView, node: NodeView, young: bool) -> _Found | None:
    """Return what the node's own state has against the pod."""
    taints = untolerated(pod, node)
    lasting = tuple(one for one in taints if not _passing(one))
    if lasting:
        return Obstacle.TAINT, (), lasting
    cordon = any(one.key == _CORDON_TAINT for one in taints) or (
        node.unschedulable and not _tolerates_cordon(pod, node)
    )
    if cordon or node.being_deleted or any(one.key in _REMOVAL_TAINTS for one in taints):
        return Obstacle.CORDONED, (), taints
    if node.ready != "True":
        return (Obstacle.STARTING if young else Obstacle.NOT_READY), (), taints
    if any(_of_start_up(one) for one in taints):
        return Obstacle.STARTING, (), taints
    if taints:
        return (Obstacle.STARTING if young else Obstacle.NOT_READY), (), taints
    return None


def _passing(taint: Taint) -> bool:
    known = taint.key in (_CORDON_TAINT, *_REMOVAL_TAINTS, *_CONDITION_TAINTS)
    return known or _of_start_up(taint)


def _of_start_up(taint: Taint) -> bool:
    key = taint.key
    return key in _START_UP_TAINTS or key.startswith(_START_UP_PREFIXES) or key.endswith(_START_UP_SUFFIX)


def _tolerates_cordon(pod: PodView, node: NodeView) -> bool:
    cordoned = NodeView(name=node.name, taints=(Taint(_CORDON_TAINT, "", "NoSchedule"),))
    return not untolerated(pod, cordoned)
