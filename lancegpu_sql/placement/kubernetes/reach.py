"""How this process reaches workers: at their pods' addresses, or, from outside the cluster, through its API server."""

from __future__ import annotations

import threading
from typing import Literal

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.door import Closed, Door, NoAnswer, await_door
from lancegpu_sql.placement.kubernetes.tunnel import HOST, Tunnel

_DOOR_SECONDS = 120.0
"""How long a worker may take from its container's start to answering; it imports Arrow, and no model."""

_PROBE_SECONDS = 1.0
"""How long an address may be silent to somebody outside the cluster before it is out of reach."""

# Each knock costs the API server a call.
_TUNNEL_PAUSE_SECONDS, _TUNNEL_GROWTH, _TUNNEL_KNOCK_SECONDS = 1.0, 1.5, 15.0
_NOT_THERE = 404

_LEAVE_IT_TO_AN_AGENT = (
    "Or leave the job to an agent inside the cluster: submit it with wait=False and run `lancegpu agent` there"
)

Way = Literal["direct", "port_forward"]


class Reach:
    """Finds the way to each worker of a placement, and keeps the tunnels that it takes."""

    def __init__(self, cluster: Cluster, config: KubernetesConfig) -> None:
        self._cluster, self._config = cluster, config
        self._lock = threading.Lock()
        self._tunnels: dict[str, Tunnel] = {}
        self._closed = False
        self._found: Way | None = None
        self._checked = False

    def check(self) -> None:
        """Look once, where there is no other way, whether the API server lets this user through: before a pod waits.

        Raises
        ------
        ClusterForbidden
            It does not.
        """
        if self._config.reach != "port_forward" or self._checked:
            return
        try:
            # Older API servers ask for no more than this.
            self._checked = self._cluster.can_i("get", "pods/portforward")
        except (ClusterUnreachable, ClusterRefused):
            return  # the first attempt will tell
        if not self._checked:
            raise ClusterForbidden(
                f"workers are to be reached through the API server (reach='port_forward'), and this user may not: "
                f"{self._advice()}",
                verb="get",
                resource="pods/portforward",
            )

    def open(
        self,
        pod: str,
        pod_ip: str,
        *,
        root_pem: bytes,
        given_up: threading.Event,
        timeout_seconds: float = _DOOR_SECONDS,
    ) -> str | None:
        """Wait until the worker of a pod answers and return where, as HOST:PORT; None when `given_up` is set.

        Raises
        ------
        NoAnswer
            It did not in time, on any way.
        ClusterForbidden, ClusterRefused
            It can only be reached through the API server, and that refuses.
        """
        doors: dict[Way, Door] = {}
        ways = self._ways()
        try:
            if "direct" in ways:
                doors["direct"] = self._direct(pod_ip, alone=len(ways) == 1)
            if "port_forward" in ways:
                doors["port_forward"] = self._tunnelled(pod, given_up, alone=len(ways) == 1)
            opened = await_door(
                tuple(doors.values()), root_pem=root_pem, name=pod, given_up=given_up, timeout_seconds=timeout_seconds
            )
        except NoAnswer:
            self._found = None  # a network may have changed: look anew
            self.close(pod)
            raise
        except Closed as closed:
            self.close(pod)
            raise closed.error from closed
        if opened is None:
            self.close(pod)
            return None
        self._found = next(way for way, door in doors.items() if door is opened)
        if self._found == "direct":
            self.close(pod)
        host = f"[{opened.host}]" if ":" in opened.host else opened.host
        return f"{host}:{opened.port}"

    def close(self, pod: str) -> None:
        """Close the tunnel to a pod, if there is one: nobody uses its worker any more."""
        with self._lock:
            tunnel = self._tunnels.pop(pod, None)
        if tunnel is not None:
            tunnel.close()

    def close_all(self) -> None:
        """Close every tunnel, and open none from now on."""
        with self._lock:
            self._closed = True
            tunnels = list(self._tunnels.values())
            self._tunnels.clear()
        for tunnel in tunnels:
            tunnel.close()

    def _ways(self) -> tuple[Way, ...]:
        if self._config.reach != "auto":
            return (self._config.reach,)
        if self._cluster.inside:
            return ("direct",)
        return ("direct", "port_forward") if self._found is None else (self._found,)

    def _direct(self, pod_ip: str, *, alone: bool) -> Door:
        port = self._config.worker_port
        return Door(pod_ip, port) if alone else Door(pod_ip, port, knock_seconds=_PROBE_SECONDS)

    def _tunnelled(self, pod: str, given_up: threading.Event, *, alone: bool) -> Door:
        tunnel = Tunnel(self._cluster, pod, self._config.worker_port)
        with self._lock:
            wanted = not (self._closed or given_up.is_set())
            if wanted:
                self._tunnels[pod] = tunnel
        if not wanted:
            tunnel.close()
        return Door(
            HOST,
            tunnel.port,
            knock_seconds=_TUNNEL_KNOCK_SECONDS,
            pause_seconds=_TUNNEL_PAUSE_SECONDS,
            growth=_TUNNEL_GROWTH,
            # A worker takes about so long to listen; where its address is in reach, nothing else need be tried.
            quiet_seconds=0.0 if alone else _PROBE_SECONDS,
            meet=lambda: self._trouble(tunnel, pod),
        )

    def _trouble(self, tunnel: Tunnel, pod: str) -> str:
        trouble = tunnel.trouble
        if isinstance(trouble, ClusterForbidden):
            raise Closed(self._forbidden(pod, trouble)) from trouble
        if isinstance(trouble, ClusterRefused) and trouble.facts.get("status") != _NOT_THERE:
            raise Closed(_refused(pod, trouble)) from trouble
        said = trouble.message if isinstance(trouble, PlacementError) else trouble
        return f"through the API server: {said or 'no answer'}"

    def _forbidden(self, pod: str, exc: ClusterForbidden) -> ClusterForbidden:
        return ClusterForbidden(
            f"the worker's pod {pod} runs, but its address is out of reach from here, and this user may not reach it "
            f"through the API server ({exc.facts.get('said', exc.message)}): {self._advice()}",
            **exc.facts,
        )

    def _advice(self) -> str:
        namespace = self._config.namespace
        return (
            f"give it the verbs create and get on pods/portforward in namespace {namespace!r}. {_LEAVE_IT_TO_AN_AGENT}"
        )


def _refused(pod: str, exc: ClusterRefused) -> ClusterRefused:
    return ClusterRefused(
        f"the worker's pod {pod} runs, but its address is out of reach from here, and the API server gives no way to it: "
        f"{exc.message}. {_LEAVE_IT_TO_AN_AGENT}",
        **exc.facts,
    )
