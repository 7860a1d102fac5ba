"""One look at a cluster: all that may be read of it at a moment, and what its nodes give to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lancegpu_sql.placement.kubernetes.device_views import ClaimView, DeviceClassView, DeviceKey, PublishedDevice
from lancegpu_sql.placement.kubernetes.queue_views import ClusterQueueView, FlavorView, LocalQueueView, WorkloadView
from lancegpu_sql.placement.kubernetes.views import EventView, NodeView, PodView, QuotaView

RIGHTS = {
    "nodes": "list nodes (in the whole cluster)",
    "pods": "list pods (in all namespaces)",
    "events": "list events (in the workers' namespace)",
    "resourcequotas": "list resourcequotas (in the workers' namespace)",
    "resourceclaims": "list resourceclaims.resource.k8s.io (in all namespaces)",
    "resourceslices": "list resourceslices.resource.k8s.io (in the whole cluster)",
    "deviceclasses": "list deviceclasses.resource.k8s.io (in the whole cluster)",
    "workloads": "list workloads.kueue.x-k8s.io (in the workers' namespace)",
    "localqueues": "list localqueues.kueue.x-k8s.io (in the workers' namespace)",
    "clusterqueues": "list clusterqueues.kueue.x-k8s.io (in the whole cluster)",
    "resourceflavors": "list resourceflavors.kueue.x-k8s.io (in the whole cluster)",
}
"""What a diagnosis reads, and the RBAC verb without which it says less."""

_AUTOSCALERS = ("cluster-autoscaler", "karpenter")
_STATIC_OWNERS = ("DaemonSet", "Node")


@dataclass
class NodeUse:
    """What the pods of one node take of it; `fixed` is the part that never goes away (daemons, static pods)."""

    taken: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    pods: list[PodView] = field(default_factory=list)


_NO_USE = NodeUse()


@dataclass(frozen=True)
class ClusterView:
    """All that may be read of a cluster at one moment.

    Make one for all pods that are looked at together: what nodes give away is added up once.

    Parameters
    ----------
    nodes, pods
        All nodes, and the pods of all namespaces; where only our own namespace may be read, its pods.
    events
        Those about the pods of the workers' namespace, and what autoscalers say of nodes; none is needed.
    quotas, claims, devices, device_classes, workloads, local_queues, cluster_queues, flavors
        The ResourceQuotas of the workers' namespace; what Dynamic Resource Allocation and Kueue keep, where they are used.
    unreadable
        The resources (keys of `RIGHTS`) that may not be read.
    """

    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    events: tuple[EventView, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    devices: tuple[PublishedDevice, ...] = ()
    device_classes: tuple[DeviceClassView, ...] = ()
    workloads: tuple[WorkloadView, ...] = ()
    local_queues: tuple[LocalQueueView, ...] = ()
    cluster_queues: tuple[ClusterQueueView, ...] = ()
    flavors: tuple[FlavorView, ...] = ()
    unreadable: frozenset[str] = frozenset()

    def use_of(self, node: str) -> NodeUse:
        """Return what the pods of a node take of it."""
        return self._uses.get(node, _NO_USE)

    def node(self, name: str) -> NodeView | None:
        """Return the node of that name."""
        return self._nodes_by_name.get(name)

    def events_of(self, pod: PodView) -> tuple[EventView, ...]:
        """Return what was said of a pod, newest first."""
        return tuple(
            event for event in self._events_by_pod.get((pod.namespace, pod.name), ()) if event.uid in ("", pod.uid)
        )

    @cached_property
    def remembered(self) -> dict[Hashable, Any]:
        """What was worked out from this look and holds for the next pod that is alike."""
        return {}

    @cached_property
    def has_autoscaler(self) -> bool:
        """Whether something here adds nodes, as far as events and nodes show."""
        return any(event.source.startswith(_AUTOSCALERS) for event in self.events) or any(
            label.startswith("karpenter.sh/") for node in self.nodes for label in node.labels
        )

    @cached_property
    def device_holders(self) -> Mapping[DeviceKey, tuple[PodView, ...]]:
        """Who holds each allocated device, as far as the pods may be read."""
        pods = {(pod.namespace, pod.name): pod for pod in self.pods}
        return {
            device: tuple(pods[claim.namespace, name] for name in claim.reserved_for if (claim.namespace, name) in pods)
            for claim in self.claims
            for device in claim.devices
        }

    @cached_property
    def pods_by_uid(self) -> Mapping[str, PodView]:
        """The pods by what tells them apart."""
        return {pod.uid: pod for pod in self.pods}

    @cached_property
    def workloads_by_owner(self) -> Mapping[str, WorkloadView]:
        """The workloads by the pods that they stand for."""
        return {uid: one for one in self.workloads for uid in one.owner_uids if uid}

    @cached_property
    def claims_by_name(self) -> Mapping[tuple[str, str], ClaimView]:
        """The resource claims by namespace and name."""
        return {(one.namespace, one.name): one for one in self.claims}

    def claims_of(self, pod: PodView) -> tuple[ClaimView, ...]:
        """Return the claims of a pod that have been made."""
        names = ((pod.namespace, claim.claim_name or "") for claim in pod.claims)
        return tuple(self.claims_by_name[name] for name in names if name in self.claims_by_name)

    @cached_property
    def devices_by_node(self) -> Mapping[str, tuple[PublishedDevice, ...]]:
        """The published devices of each node."""
        found: dict[str, list[PublishedDevice]] = {}
        for device in self.devices:
            found.setdefault(device.node, []).append(device)
        return {node: tuple(devices) for node, devices in found.items()}

    @cached_property
    def _uses(self) -> Mapping[str, NodeUse]:
        uses: dict[str, NodeUse] = {}
        for pod in self.pods:
            if not pod.node or pod.ended:
                continue
            use = uses.setdefault(pod.node, NodeUse())
            use.taken.update(pod.requests)
            use.pods.append(pod)
            if pod.owner_kind in _STATIC_OWNERS:
                use.fixed.update(pod.requests)
        return uses

    @cached_property
    def _nodes_by_name(self) -> Mapping[str, NodeView]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _events_by_pod(self) -> Mapping[tuple[str, str], list[EventView]]:
        found: dict[tuple[str, str], list[EventView]] = {}
        for event in sorted(self.events, key=lambda event: event.at.timestamp() if event.at else 0.0, reverse=True):
            if event.kind == "Pod":
                found.setdefault((event.namespace, event.name), []).append(event)
        return found
