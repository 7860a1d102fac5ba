"""A small client of the API server: objects are plain JSON, one request is one connection."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cluster import kubeconfig

Object = dict[str, Any]

# A safety net for one answer; a watch has no end of its own.
REQUEST_SECONDS = 30.0
WAIT_SECONDS = 60.0

# Kind: where its objects stand, and whether in a namespace.
KINDS = {
    "ConfigMap": ("api/v1", "configmaps", True),
    "Event": ("api/v1", "events", True),
    "LimitRange": ("api/v1", "limitranges", True),
    "Namespace": ("api/v1", "namespaces", False),
    "Node": ("api/v1", "nodes", False),
    "Pod": ("api/v1", "pods", True),
    "ResourceQuota": ("api/v1", "resourcequotas", True),
    "Secret": ("api/v1", "secrets", True),
    "Service": ("api/v1", "services", True),
    "ServiceAccount": ("api/v1", "serviceaccounts", True),
    "Deployment": ("apis/apps/v1", "deployments", True),
    "ReplicaSet": ("apis/apps/v1", "replicasets", True),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies", True),
    "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses", False),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets", True),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceClaim": ("apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "resourceslices", False),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "ClusterQueue": ("apis/kueue.x-k8s.io/v1beta2", "clusterqueues", False),
    "LocalQueue": ("apis/kueue.x-k8s.io/v1beta2", "localqueues", True),
    "ResourceFlavor": ("apis/kueue.x-k8s.io/v1beta2", "resourceflavors", False),
    "Workload": ("apis/kueue.x-k8s.io/v1beta2", "workloads", True),
    "MutatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        False,
    ),
    "ValidatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
}


class ApiError(Exception):
    """The API server refused; its status, reason and message are attributes."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Api:
    """The API server, as the user of one kubeconfig."""

    def __init__(self, path: Path) -> None:
        access = kubeconfig.read(path)
        self.server = access.server
        self._headers = {"Accept": "application/json"}
        if access.token is not None:
            self._headers["Authorization"] = f"Bearer {access.token}"
        # No proxy of the environment: the server is this machine, or one that the kubeconfig names.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=access.tls)
        )

    def raw(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """One request by path, such as ``api/v1/nodes``; the answer as it came."""
        with self._open(method, path, body, content_type, query, REQUEST_SECONDS) as response:
            return bytes(response.read())

    def create(self, document: Object, namespace: str | None = None) -> Object:
        """Create an object; its own metadata names the namespace where the call does not."""
        metadata = document["metadata"]
        path = path_of(document["kind"], namespace or metadata.get("namespace"))
        body = {"apiVersion": api_version_of(document["kind"]), **document}
        return dict(self._json("POST", path, body))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """An object, or None where there is none."""
        try:
            return dict(self._json("GET", path_of(kind, namespace, name)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, **query: str) -> list[Object]:
        """All objects of a kind, in one namespace or in all; ``labelSelector`` and its like are passed on."""
        items = self._json("GET", path_of(kind, namespace), query=query)["items"]
        return list(items)

    def patch(self, kind: str, name: str, change: Object, namespace: str | None = None, *, part: str = "") -> Object:
        """Change an object by a strategic merge patch; `part` may be ``status``."""
        content_type = "application/strategic-merge-patch+json"
        return dict(self._json("PATCH", path_of(kind, namespace, name, part), change, content_type=content_type))

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Ask for an object's end; one that is gone, or another by the same name, is no error."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        while True:
            try:
                self._json("DELETE", path_of(kind, namespace, name), options)
                return
            except ApiError as error:
                if error.status == 404:
                    return
                if error.status != 409:
                    raise
            # Somebody changed it in the same moment, or it is another object.
            found = self.get(kind, name, namespace)
            if found is None or uid not in {None, found["metadata"]["uid"]}:
                return

    def delete_all(self, kind: str, namespace: str | None = None, **query: str) -> None:
        """Take away all objects of a kind at once, with no grace."""
        for found in self.list(kind, namespace, **query):
            metadata = found["metadata"]
            self.delete(kind, metadata["name"], metadata.get("namespace"), grace_seconds=0)

    def logs(self, pod: str, namespace: str, **query: str) -> str:
        """What a pod has printed."""
        return self.raw("GET", path_of("Pod", namespace, pod, "log"), query=query).decode()

    def until_printed(self, pod: str, words: str, namespace: str) -> None:
        """Wait until a pod has printed these words."""
        deadline = time.monotonic() + WAIT_SECONDS
        while words not in (printed := self.logs(pod, namespace)):
            assert time.monotonic() < deadline, printed
            time.sleep(0.05)  # a log that is followed is buffered on its way

    def watch(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        timeout_seconds: float | None = None,
        on_listed: Callable[[], object] = lambda: None,
        **query: str,
    ) -> Iterator[tuple[str, Object]]:
        """The present objects as ``ADDED``, then each change as it comes, until the server ends it.

        `on_listed` is called between the two; a TimeoutError comes when nothing has come for so many seconds.
        """
        path = path_of(kind, namespace)
        listed = self._json("GET", path, query=query)
        for found in listed["items"]:
            yield "ADDED", found
        on_listed()
        query |= {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        with self._open("GET", path, None, "application/json", query, timeout_seconds) as response:
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    def until(
        self,
        kind: str,
        name: str,
        condition: Callable[[Object | None], Any],
        namespace: str | None = None,
        *,
        seconds: float = WAIT_SECONDS,
    ) -> Object:
        """Wait until the object (None where there is none) is as wanted, and give it (empty where there is none)."""
        deadline = time.monotonic() + seconds
        last: Object | None = None
        while (left := deadline - time.monotonic()) > 0:
            last = self.get(kind, name, namespace)
            if condition(last):
                return last or {}
            try:
                for happened, found in self.watch(
                    kind, namespace, timeout_seconds=left, fieldSelector=f"metadata.name={name}"
                ):
                    last = None if happened == "DELETED" else found
                    if condition(last):
                        return last or {}
                    if time.monotonic() > deadline:
                        break
            except TimeoutError:
                break
        shown = json.dumps((last or {}).get("status"), indent=1)
        raise AssertionError(
            f"{kind} {name} did not become what was waited for within {seconds} s; its status: {shown}"
        )

    def _json(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        return json.loads(self.raw(method, path, body, content_type=content_type, query=query))

    def _open(
        self,
        method: str,
        path: str,
        body: Object | None,
        content_type: str,
        query: Mapping[str, str] | None,
        timeout_seconds: float | None,
    ) -> Any:
        url = f"{self.server}/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {**self._headers, "Content-Type": content_type}, method=method)
        try:
            return self._opener.open(request, timeout=timeout_seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read()) from None


def path_of(kind: str, namespace: str | None = None, name: str | None = None, part: str = "") -> str:
    """The path of a kind's objects, or of one of them, or of a part of it."""
    group, plural, namespaced = KINDS[kind]
    where = f"namespaces/{namespace}/" if namespaced and namespace else ""
    return "/".join(filter(None, [f"{group}/{where}{plural}", name, part]))


def api_version_of(kind: str) -> str:
    """A kind's ``apiVersion``."""
    return KINDS[kind][0].split("/", 1)[1]


def _refusal(status: int, body: bytes) -> ApiError:
    try:
        said = json.loads(body)
        return ApiError(status, said.get("reason", ""), said.get("message", ""))
    except ValueError:
        return ApiError(status, "", body.decode(errors="replace").strip())
