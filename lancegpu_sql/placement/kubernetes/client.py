"""Speaks to one cluster's API server: JSON in, JSON out, and every fault as one of this program's errors.

Sole importer of the cluster's client library, which costs a second: it is imported when the first call is made. Of the
library only what finds and renews credentials, and its connections, are used; its model classes refuse what they do not
know, and a newer server says such things.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable, InvalidPlacement
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.frames import is_accepted, request_headers
from lancegpu_sql.placement.kubernetes.upgrade import Upgraded
from lancegpu_sql.placement.pod_security import WORKER_CONTAINER

JsonObject = dict[str, Any]

_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet puts, and renews, the credentials of a pod's service account."""

_CONNECT_SECONDS = 5.0
_PAGE_ITEMS = 100
_CALLS_AT_ONCE = 16
"""When hundreds of workers end at once, each from a thread of its own, as many connections would cost more than waiting."""

# A server that is gone without a word is noticed: a watch may have nothing to say for minutes.
_KEEPALIVE_IDLE_SECONDS, _KEEPALIVE_EVERY_SECONDS, _KEEPALIVE_TRIES = 15, 5, 3


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


_GROUPS = {kind.plural: kind.prefix.split("/")[2] for kind in KINDS.values() if kind.prefix.startswith("/apis/")}


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


class ClusterClient:
    """Calls to the API server, no faster than the configuration allows. Safe for use by many threads.

    Every method raises `ClusterUnreachable` when there is no answer, or one that says to come back later;
    `ClusterForbidden` when the answer is 403; `ClusterRefused` for any other refusal.

    Parameters
    ----------
    config
        Where the API server is, and how fast it may be called.
    account_folder
        Where a pod finds its credentials: `token` and `ca.crt`.
    """

    def __init__(self, config: KubernetesConfig, account_folder: Path = _ACCOUNT_FOLDER) -> None:
        self._config = config
        self._account_folder = account_folder
        self._room = threading.BoundedSemaphore(_CALLS_AT_ONCE)
        self._pace = _Pace(config.queries_per_second, config.query_burst)
        self._lock = threading.Lock()
        self._connection: Any = None
        self._older: set[str] = set()

    @property
    def inside(self) -> bool:
        """Whether this process runs in a pod and uses the pod's own credentials."""
        config = self._config
        if config.in_cluster == "auto":
            named = config.kubeconfig is not None or config.context is not None
            return not named and "KUBERNETES_SERVICE_HOST" in os.environ and self._token_file.exists()
        return config.in_cluster

    def create(self, kind: str, body: Mapping[str, Any], *, dry_run: bool = False) -> JsonObject:
        """Create an object and return it as it stands."""
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return self._call("POST", "create", kind, query=query, body=body)

    def get(self, kind: str, name: str) -> JsonObject | None:
        """Return an object, or None where there is none."""
        return self._or_none("GET", "get", kind, name)

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> JsonObject | None:
        """Merge `body` into an object; None where there is none."""
        return self._or_none("PATCH", "patch", kind, name, body=body)

    def delete(self, kind: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None) -> bool:
        """Delete an object; False where it, or that one of its name, is gone."""
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self._call("DELETE", "delete", kind, name, body=body)
        except ClusterRefused as exc:
            if exc.facts["status"] in (404, 409):
                return False
            raise
        return True

    def delete_all(self, kind: str, labels: str) -> None:
        """Delete all objects that carry the labels, in one call and without reading them."""
        self._call("DELETE", "deletecollection", kind, query={"labelSelector": labels})

    def pages(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Iterator[tuple[list[JsonObject], str]]:
        """Yield the objects some at a time, as there may be many; the last version is the one to watch on from."""
        query = _selection(labels, fields) | {"limit": str(_PAGE_ITEMS)}
        try:
            page = self._call("GET", "list", kind, query=query, everywhere=everywhere)
        except ClusterRefused as exc:
            if exc.facts["status"] != 404 or KINDS[kind].older_prefix is None:
                raise
            self._older ^= {kind}  # the other way, for the calls to come as well
            page = self._call("GET", "list", kind, query=query, everywhere=everywhere)
        while True:
            metadata = page.get("metadata") or {}
            yield list(page.get("items") or ()), metadata.get("resourceVersion", "")
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]
            page = self._call("GET", "list", kind, query=query, everywhere=everywhere)

    def list(
        self, kind: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> tuple[list[JsonObject], str]:
        """Return the objects, and the version to watch on from."""
        items: list[JsonObject] = []
        version = ""
        for page, at in self.pages(kind, labels=labels, fields=fields, everywhere=everywhere):
            items.extend(page)
            version = at
        return items, version

    def watch(
        self, kind: str, resource_version: str, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> Watching:
        """Watch from a version on, for as long as the server lets it."""
        query = _selection(labels, fields) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        where = f"watch {KINDS[kind].plural}"
        response = self._send("GET", "watch", kind, query=query, everywhere=everywhere, streamed=True)
        if response.status >= 400:
            raise _refusal(response.status, self._read(response, where), "watch", KINDS[kind].plural, response)
        return _Stream(response.response, where)

    def can_i(self, verb: str, resource: str, *, everywhere: bool = False) -> bool:
        """Tell whether one may do that, here or in all namespaces; on ``pods/portforward``, too, and its like."""
        name, _, part = resource.partition("/")
        asked = {"verb": verb, "group": _GROUPS.get(name, ""), "resource": name} | (
            {"subresource": part} if part else {}
        )
        asked |= {} if everywhere else {"namespace": self._config.namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = self._call("POST", "create", "SelfSubjectAccessReview", body=body)
        return bool((answer.get("status") or {}).get("allowed"))

    def log(self, pod: str, lines: int) -> str:
        """Return the last lines that a pod's worker has printed."""
        where, query = "get pods/log", {"container": WORKER_CONTAINER, "tailLines": str(lines)}
        response = self._send("GET", "get", "Pod", pod, part="/log", query=query)
        if response.status >= 400:
            raise _refusal(response.status, self._read(response, where), "get", "pods/log", response)
        return self._read_bytes(response, where).decode(errors="replace")

    def forward(self, pod: str, port: int) -> Upgraded:
        """Open a connection to a port of a pod, by way of the API server; what it carries is in `frames`."""
        where, headers = "create pods/portforward", request_headers()
        query = {"ports": str(port)}
        response = self._send("GET", "forward", "Pod", pod, part="/portforward", query=query, headers=headers)
        if response.status >= 400:
            raise _refusal(response.status, self._read(response, where), "create", "pods/portforward", response)
        accept, protocol = (response.getheader(name) for name in ("Sec-WebSocket-Accept", "Sec-WebSocket-Protocol"))
        if response.status != 101 or not is_accepted(headers, accept, protocol):
            response.response.close()
            raise ClusterRefused(
                "the cluster's API server, or a proxy before it, does not let a connection become a WebSocket: no pod can "
                "be reached through it",
                status=response.status,
            )
        return Upgraded(response.response)

    def _or_none(self, method: str, verb: str, kind: str, name: str, **more: Any) -> JsonObject | None:
        try:
            return self._call(method, verb, kind, name, **more)
        except ClusterRefused as exc:
            if exc.facts["status"] == 404:
                return None
            raise

    def _call(self, method: str, verb: str, kind: str, name: str = "", **more: Any) -> JsonObject:
        where = f"{verb} {KINDS[kind].plural}"
        with self._room:
            response = self._send(method, verb, kind, name, **more)
            body = self._read(response, where)
        if response.status >= 400:
            raise _refusal(response.status, body, verb, KINDS[kind].plural, response)
        return body

    def _send(
        self,
        method: str,
        verb: str,
        kind: str,
        name: str = "",
        *,
        part: str = "",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        everywhere: bool = False,
        streamed: bool = False,
    ) -> Any:
        """Send one request; a refused credential is read anew, once."""
        path = self._path(KINDS[kind], name, everywhere) + part + (f"?{urlencode(query)}" if query else "")
        timeout = (_CONNECT_SECONDS, WATCH_SECONDS + 30.0 if streamed else self._config.request_timeout_seconds)
        where = f"{verb} {KINDS[kind].plural}{part}"
        response = self._exchange(method, path, headers or {}, body, timeout, where)
        if response.status != 401:
            return response
        self._read(response, verb)
        self._forget_connection()
        return self._exchange(method, path, headers or {}, body, timeout, where)

    def _exchange(
        self,
        method: str,
        path: str,
        more: Mapping[str, str],
        body: Mapping[str, Any] | None,
        timeout: tuple[float, float],
        where: str,
    ) -> Any:
        from urllib3.exceptions import HTTPError

        connection = self._connect()
        self._pace.wait()
        headers = {"Accept": "application/json", "User-Agent": "lancegpu-sql", **more}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            return connection.call_api(
                method, connection.configuration.host + path, headers, body, _request_timeout=timeout
            )
        except (HTTPError, OSError, self._library_error()) as exc:
            raise _unreachable(where, connection.configuration.host, exc) from exc

    def _read_bytes(self, response: Any, where: str) -> bytes:
        from urllib3.exceptions import HTTPError

        try:
            return bytes(response.read())
        except (HTTPError, OSError) as exc:
            raise _unreachable(where, self._connect().configuration.host, exc) from exc

    def _read(self, response: Any, where: str) -> JsonObject:
        data = self._read_bytes(response, where)
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            body = {"message": data.decode(errors="replace")[:500].strip()}
        return body if isinstance(body, dict) else {}

    def _path(self, kind: Kind, name: str, everywhere: bool) -> str:
        inside = f"/namespaces/{quote(self._config.namespace)}" if kind.namespaced and not everywhere else ""
        prefix = kind.older_prefix if kind.name in self._older else kind.prefix
        return f"{prefix}{inside}/{kind.plural}" + (f"/{quote(name)}" if name else "")

    @property
    def _token_file(self) -> Path:
        return self._account_folder / "token"

    def _connect(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            return self._connection

    def _forget_connection(self) -> None:
        with self._lock:
            self._connection = None

    def _open(self) -> Any:
        import socket

        from kubernetes import client, config
        from kubernetes.config.incluster_config import InClusterConfigLoader
        from urllib3.connection import HTTPConnection

        settings = client.Configuration()
        try:
            if self.inside:
                # It reads the token anew every minute, and a new one of these does when the old token is refused.
                authority = self._account_folder / "ca.crt"
                InClusterConfigLoader(str(self._token_file), str(authority)).load_and_set(settings)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    # The library reads the variable once, when it is imported.
                    config_file=self._config.kubeconfig or os.environ.get("KUBECONFIG"),
                    context=self._config.context,
                    client_configuration=settings,
                    persist_config=False,
                )
        except (config.ConfigException, OSError, ValueError) as exc:
            raise InvalidPlacement(
                f"no credentials for a cluster were found: {exc}. Give kubeconfig= and context=, set KUBECONFIG, or run "
                "in a pod with a service account",
                kubeconfig=self._config.kubeconfig,
                context=self._config.context,
            ) from exc
        # Decided here, where it is known what was asked for; and a pool that drops connections costs a handshake each.
        settings.retries = False
        settings.connection_pool_maxsize = 32
        settings.socket_options = [
            *HTTPConnection.default_socket_options,
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_SECONDS),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_TRIES),
        ]
        made = client.ApiClient(configuration=settings)
        _share_trust(made.rest_client.pool_manager)
        return made

    def _library_error(self) -> type[Exception]:
        from kubernetes.client.exceptions import ApiException

        error: type[Exception] = ApiException
        return error


def _share_trust(pool: Any) -> None:
    """Let all connections have one TLS context: by default each reads the certificates anew, and is a megabyte larger.

    It is complete before the first connection, which changes nothing of it any more: that would be no matter for threads.
    """
    from urllib3.util.ssl_ import create_urllib3_context

    kept = pool.connection_pool_kw
    trust = create_urllib3_context(cert_reqs=kept.get("cert_reqs"))
    authority, pem = kept.pop("ca_certs", None), kept.pop("ca_cert_data", None)
    certificate, key = kept.pop("cert_file", None), kept.pop("key_file", None)
    if authority or pem:
        trust.load_verify_locations(authority, cadata=pem)
    else:
        trust.load_default_certs()
    if certificate:
        trust.load_cert_chain(certificate, key)
    kept["ssl_context"] = trust


WATCH_SECONDS = 290
"""How long a watch is asked for: less than the five minutes after which proxies drop what is idle."""


class _Stream:
    """The lines of a watch."""

    def __init__(self, response: Any, where: str) -> None:
        self._response = response
        self._where = where
        self._begun = self._closed = False

    def __iter__(self) -> Iterator[JsonObject]:
        from urllib3.exceptions import HTTPError

        self._begun = True
        rest = b""
        try:
            for piece in self._response.stream(amt=None, decode_content=True):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        except (HTTPError, OSError, ValueError) as exc:
            if not self._closed:
                raise _unreachable(self._where, "", exc) from exc
        finally:
            self._response.close()

    def close(self) -> None:
        self._closed = True
        if not self._begun:
            self._response.close()
            return
        # It may have ended by itself.
        with suppress(ValueError, OSError):
            self._response.shutdown()


class _Pace:
    """Lets a burst of calls through at once, and no more than `per_second` in the long run."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._lock = threading.Lock()
        self._tokens = self._burst
        self._at = time.monotonic()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
            self._tokens -= 1
            seconds = -self._tokens / self._per_second
        if seconds > 0:
            time.sleep(seconds)


def _selection(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}


def _unreachable(where: str, host: str, exc: BaseException) -> ClusterUnreachable:
    text = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
    at = f" at {host}" if host else ""
    return ClusterUnreachable(
        f"the cluster's API server{at} does not answer ({where}): {text}", host=host, retry_after_seconds=None
    )


def _refusal(
    status: int, body: JsonObject, verb: str, resource: str, response: Any
) -> ClusterUnreachable | ClusterRefused:
    message = str(body.get("message") or f"HTTP status {status}")
    if status == 429 or status >= 500:
        after = response.getheader("Retry-After") or ""
        return ClusterUnreachable(
            f"the cluster's API server asks to come back later ({verb} {resource}): {message}",
            status=status,
            retry_after_seconds=float(after) if after.isdigit() else None,
        )
    facts = {
        "status": status,
        "reason": str(body.get("reason") or ""),
        "details": body.get("details") or {},
        "verb": verb,
        "resource": resource,
        "said": message,
    }
    if status == 401:
        words = "does not accept this process's credentials; they may have expired"
        return ClusterRefused(f"the cluster {words} ({verb} {resource}): {message}", **facts)
    kind = ClusterForbidden if status == 403 else ClusterRefused
    return kind(f"the cluster refused to {verb} {resource}: {message}", **facts)
