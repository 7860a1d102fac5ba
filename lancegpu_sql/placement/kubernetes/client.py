"""Speaks to one cluster's API server: JSON in, JSON out, and every fault as one of this program's errors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from lancegpu_sql.errors import ClusterRefused
from lancegpu_sql.placement.kubernetes.answers import refusal, unreachable
from lancegpu_sql.placement.kubernetes.api import GROUPS, KINDS, JsonObject, Kind, Watching
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.connection import TOKEN, library_error, open_connection
from lancegpu_sql.placement.kubernetes.frames import is_accepted, request_headers
from lancegpu_sql.placement.kubernetes.pace import Pace
from lancegpu_sql.placement.kubernetes.upgrade import Upgraded
from lancegpu_sql.placement.pod_security import WORKER_CONTAINER

_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet puts, and renews, the credentials of a pod's service account."""

WATCH_SECONDS = 290
"""How long a watch is asked for: less than the five minutes after which proxies drop what is idle."""

_CONNECT_SECONDS = 5.0
_PAGE_ITEMS = 100
_CALLS_AT_ONCE = 16
"""When hundreds of workers end at once, each from a thread of its own, as many connections would cost more than waiting."""


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
        self._pace = Pace(config.queries_per_second, config.query_burst)
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
            raise refusal(response.status, self._read(response, where), "watch", KINDS[kind].plural, response)
        return _Stream(response.response, where)

    def can_i(self, verb: str, resource: str, *, everywhere: bool = False) -> bool:
        """Tell whether one may do that, here or in all namespaces; on ``pods/portforward``, too, and its like."""
        name, _, part = resource.partition("/")
        asked = {"verb": verb, "group": GROUPS.get(name, ""), "resource": name} | (
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
            raise refusal(response.status, self._read(response, where), "get", "pods/log", response)
        return self._read_bytes(response, where).decode(errors="replace")

    def forward(self, pod: str, port: int) -> Upgraded:
        """Open a connection to a port of a pod, by way of the API server; what it carries is in `frames`."""
        where, headers = "create pods/portforward", request_headers()
        query = {"ports": str(port)}
        response = self._send("GET", "forward", "Pod", pod, part="/portforward", query=query, headers=headers)
        if response.status >= 400:
            raise refusal(response.status, self._read(response, where), "create", "pods/portforward", response)
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
            raise refusal(response.status, body, verb, KINDS[kind].plural, response)
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
        except (HTTPError, OSError, library_error()) as exc:
            raise unreachable(where, connection.configuration.host, exc) from exc

    def _read_bytes(self, response: Any, where: str) -> bytes:
        from urllib3.exceptions import HTTPError

        try:
            return bytes(response.read())
        except (HTTPError, OSError) as exc:
            raise unreachable(where, self._connect().configuration.host, exc) from exc

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
        return self._account_folder / TOKEN

    def _connect(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = open_connection(self._config, self._account_folder, inside=self.inside)
            return self._connection

    def _forget_connection(self) -> None:
        with self._lock:
            self._connection = None


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
                raise unreachable(self._where, "", exc) from exc
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


def _selection(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}
