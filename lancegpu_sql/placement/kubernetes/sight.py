"""What is seen of the cluster while a request waits, for its diagnosis; while none does, nothing is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, PlacementError
from lancegpu_sql.placement.kubernetes.api import KINDS, Cluster, JsonObject
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.queue_views import (
    cluster_queue_view,
    flavor_view,
    local_queue_view,
    workload_view,
)
from lancegpu_sql.placement.kubernetes.views import PodView, event_view, node_view, pod_view, quota_view
from lancegpu_sql.placement.kubernetes.watch import Watch

_VIEWS: dict[str, Callable[[JsonObject], Any]] = {
    "Node": node_view,
    "Pod": pod_view,
    "Event": event_view,
    "ResourceQuota": quota_view,
    "ResourceClaim": claim_view,
    "ResourceSlice": published_devices,
    "DeviceClass": device_class_view,
}
_QUEUE_VIEWS: dict[str, Callable[[JsonObject], Any]] = {
    "Workload": workload_view,
    "LocalQueue": local_queue_view,
    "ClusterQueue": cluster_queue_view,
    "ResourceFlavor": flavor_view,
}
_EVERYWHERE = ("Pod", "ResourceClaim")


class Sight:
    """Watches what a diagnosis reads, between `open` and `close`; used from one thread.

    Parameters
    ----------
    cluster
        What is looked at.
    on_change
        Called, from threads of its own, when something there has changed.
    """

    def __init__(self, cluster: Cluster, on_change: Callable[[], object]) -> None:
        self._cluster = cluster
        self._on_change = on_change
        self._watches: dict[str, Watch[Any]] = {}

    @property
    def is_open(self) -> bool:
        """Whether anything is looked at."""
        return bool(self._watches)

    @property
    def is_clear(self) -> bool:
        """Whether all of it has been seen once, or is known to be out of sight."""
        return self.is_open and all(watch.synced for watch in self._watches.values())

    def open(self, *, queues: bool) -> None:
        """Begin to look; with `queues`, at Kueue's as well."""
        for kind, view in {**_VIEWS, **(_QUEUE_VIEWS if queues else {})}.items():
            if kind not in self._watches:
                self._watches[kind] = Watch(
                    self._cluster, kind, view, _Listener(self._on_change), everywhere=kind in _EVERYWHERE
                )
                self._watches[kind].start()

    def close(self) -> None:
        """Look no more."""
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()

    def view(self, own_pods: tuple[PodView, ...]) -> ClusterView:
        """Return what is seen now; where pods of other namespaces are out of sight, `own_pods` stand for all."""
        unreadable = frozenset(KINDS[kind].plural for kind, watch in self._watches.items() if watch.forbidden)
        return _assembled(self._seen, own_pods, unreadable)

    def _seen(self, kind: str) -> tuple[Any, ...]:
        watch = self._watches.get(kind)
        return watch.objects if watch is not None else ()


def look_once(cluster: Cluster, *, queues: bool) -> ClusterView:
    """Return what there is at this moment, with `queues` of Kueue's as well; it is not watched."""
    found: dict[str, tuple[Any, ...]] = {}
    unreadable: set[str] = set()
    for kind, view in {**_VIEWS, **(_QUEUE_VIEWS if queues else {})}.items():
        try:
            found[kind] = _listed(cluster, kind, view, everywhere=kind in _EVERYWHERE)
        except ClusterForbidden:
            unreadable.add(KINDS[kind].plural)
        except ClusterRefused as exc:
            if exc.facts["status"] != 404:  # a cluster without this kind of objects
                raise
    own_pods = _listed(cluster, "Pod", pod_view) if "pods" in unreadable else ()
    return _assembled(lambda kind: found.get(kind, ()), own_pods, frozenset(unreadable))


def _listed(
    cluster: Cluster, kind: str, view: Callable[[JsonObject], Any], *, everywhere: bool = False
) -> tuple[Any, ...]:
    return tuple(view(one) for one in cluster.list(kind, everywhere=everywhere)[0])


def _assembled(
    seen: Callable[[str], tuple[Any, ...]], own_pods: tuple[PodView, ...], unreadable: frozenset[str]
) -> ClusterView:
    return ClusterView(
        nodes=seen("Node"),
        pods=own_pods if "pods" in unreadable else seen("Pod"),
        events=seen("Event"),
        quotas=seen("ResourceQuota"),
        claims=seen("ResourceClaim"),
        devices=tuple(device for slice_ in seen("ResourceSlice") for device in slice_),
        device_classes=seen("DeviceClass"),
        workloads=seen("Workload"),
        local_queues=seen("LocalQueue"),
        cluster_queues=seen("ClusterQueue"),
        flavors=seen("ResourceFlavor"),
        unreadable=unreadable,
    )


class _Listener:
    def __init__(self, on_change: Callable[[], object]) -> None:
        self._on_change = on_change

    def changed(self, uid: str, picture: object) -> None:
        """An object is new, has changed or is gone."""
        del uid, picture
        self._on_change()

    def listed(self) -> None:
        """All objects have been told once."""
        self._on_change()

    def troubled(self, problem: PlacementError | None) -> None:
        """The server cannot be watched at present."""
        if problem is not None:
            self._on_change()
