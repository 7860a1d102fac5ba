"""What this room asks of an API server: the kinds of objects, and the calls, which a fake offers the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lancegpu_sql.placement.kubernetes.upgrade import Upgraded

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of objects and where the API server has them, or has had them in older releases."""

    name: str
    plural: str
    prefix: str = "/api/v1"
    namespaced: bool = True
    older_prefix: str | None = None


_KUEUE, _OLDER_KUEUE = "/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1"


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("ConfigMap", "configmaps"),
        Kind("Secret", "secrets"),
        Kind("Pod", "pods"),
        Kind("Event", "events"),
        Kind("ResourceQuota", "resourcequotas"),
        Kind("ServiceAccount", "serviceaccounts"),
        Kind("Node", "nodes", namespaced=False),
        Kind("Namespace", "namespaces", namespaced=False),
        Kind("PriorityClass", "priorityclasses", "/apis/scheduling.k8s.io/v1", namespaced=False),
        Kind("RuntimeClass", "runtimeclasses", "/apis/node.k8s.io/v1", namespaced=False),
        Kind("ResourceSlice", "resourceslices", "/apis/resource.k8s.io/v1", namespaced=False),
        Kind("DeviceClass", "deviceclasses", "/apis/resource.k8s.io/v1", namespaced=False),
        Kind("ResourceClaim", "resourceclaims", "/apis/resource.k8s.io/v1"),
        Kind("ResourceClaimTemplate", "resourceclaimtemplates", "/apis/resource.k8s.io/v1"),
        Kind("Workload", "workloads", _KUEUE, older_prefix=_OLDER_KUEUE),
        Kind("LocalQueue", "localqueues", _KUEUE, older_prefix=_OLDER_KUEUE),
        Kind("ClusterQueue", "clusterqueues", _KUEUE, namespaced=False, older_prefix=_OLDER_KUEUE),
        Kind("ResourceFlavor", "resourceflavors", _KUEUE, namespaced=False, older_prefix=_OLDER_KUEUE),
        Kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1", namespaced=False),
    )
}


GROUPS = {kind.plural: kind.prefix.split("/")[2] for kind in KINDS.values() if kind.prefix.startswith("/apis/")}
"""The API group of each kind that has one, by its plural."""


class Watching(Protocol):
    """What one watch hands out, until the server ends it."""

    def __iter__(self) -> Iterator[JsonObject]:
        """Yield the server's events: `type` and `object`."""

    def close(self) -> None:
        """End it, from any thread."""


class Cluster(Protocol):
    """What the rest of this room asks of an API server; a fake offers the same."""

    def create(self, kind: str, body: Mapping[str, Any], *, dry_run: bool = False) -> JsonObject:
        """Create an object and return it as it stands."""

    @property
    def inside(self) -> bool:
        """Whether this process runs in a pod of the cluster itself."""

    def get(self, kind: str, name: str) -> JsonObject | None:
        """Return an object, or None where there is none."""

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> JsonObject | None:
        """Merge `body` into an object; None where there is none."""

    def delete(self, kind: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None) -> bool:
        """Delete an object; False where it, or that one of its name, is gone."""

    def delete_all(self, kind: str, labels: str) -> None:
        """Delete all objects that carry the labels, in one call and without reading them."""

    def pages(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Iterator[tuple[list[JsonObject], str]]:
        """Yield the objects some at a time, as there may be many; the last version is the one to watch on from."""

    def list(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> tuple[list[JsonObject], str]:
        """Return the objects, and the version to watch on from."""

    def watch(
        self, kind: str, resource_version: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Watching:
        """Watch from a version on, for as long as the server lets it."""

    def can_i(self, verb: str, resource: str, *, everywhere: bool = False) -> bool:
        """Tell whether one may do that, here or in all namespaces; on ``pods/portforward``, too, and its like."""

    def log(self, pod: str, lines: int) -> str:
        """Return the last lines that a pod's worker has printed."""

    def forward(self, pod: str, port: int) -> Upgraded:
        """Open a connection to a port of a pod, by way of the API server; what it carries is in `frames`."""
