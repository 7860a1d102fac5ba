"""What is seen of the cluster while a request waits, for its diagnosis; while none does, nothing is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancegpu_sql.errors import PlacementError
from lancegpu_sql.placement.kubernetes.client import KINDS, Cluster, JsonObject
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.queue_views import cluster_queue_view, local_queue_view, workload_view
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

    def close(self) -> None:
        """Look no more."""
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()

    def view(self, own_pods: tuple[PodView, ...]) -> ClusterView:
        """Return what is seen now; where pods of other namespaces are out of sight, `own_pods` stand for all."""
        unreadable = frozenset(KINDS[kind].plural for kind, watch in self._watches.items() if watch.forbidden)
        return ClusterView(
            nodes=self._seen("Node"),
            pods=own_pods if "pods" in unreadable else self._seen("Pod"),
            events=self._seen("Event"),
            quotas=self._seen("ResourceQuota"),
            claims=self._seen("ResourceClaim"),
            devices=tuple(device for slice_ in self._seen("ResourceSlice") for device in slice_),
            device_classes=self._seen("DeviceClass"),
            workloads=self._seen("Workload"),
            local_queues=self._seen("LocalQueue"),
            cluster_queues=self._seen("ClusterQueue"),
            unreadable=unreadable,
        )

    def _seen(self, kind: str) -> tuple[Any, ...]:
        watch = self._watches.get(kind)
        return watch.objects if watch is not None else ()


class _Listener:
    def __init__(self, on_change: Callable[[], object]) -> None:
        self._on_change = on_change

    def changed(self, uid: str, obj: JsonObject | None) -> None:
        """An object is new, has changed or is gone."""
        del uid, obj
        self._on_change()

    def listed(self) -> None:
        """All objects have been told once."""
        self._on_change()

    def troubled(self, problem: PlacementError | None) -> None:
        """The server cannot be watched at present."""
        if problem is not None:
            self._on_change()
