"""A way to a worker's port from outside its cluster: an address of this machine, carried through the API server.

Each connection to the address is one port-forward of its own, so none waits for another. What passes is the worker's TLS
from end to end: neither the API server nor who else finds the address can read it, or knows the worker's token.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress

from lancegpu_sql.errors import ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.carrier import Carrier
from lancegpu_sql.placement.kubernetes.upgrade import Upgraded
from lancegpu_sql.placement.kubernetes.watch import Backoff

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"
_PATIENCE_SECONDS = 10.0
"""How long an API server that is away is waited for; whoever connected has limits of its own."""

_END_SECONDS = 5.0
"""How long threads may take to end: one that waits for an API server without an answer ends when it gives up."""


class Tunnel:
    """Listens on this machine for one port of one pod, until it is closed.

    A connection that breaks on the way is closed towards this machine, and whoever used it may connect again.

    Attributes
    ----------
    port
        Where it listens, on `HOST`.
    """

    def __init__(self, cluster: Cluster, pod: str, pod_port: int) -> None:
        self._cluster, self._pod, self._pod_port = cluster, pod, pod_port
        self._lock = threading.Lock()
        self._carriers: dict[threading.Thread, Carrier] = {}
        self._closing = threading.Event()
        self._trouble: PlacementError | str | None = None
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name=f"lancegpu-tunnel {pod}", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> PlacementError | str | None:
        """What kept the last connection from its end, or broke it: the API server's refusal, or the kubelet's words."""
        return self._trouble

    def close(self) -> None:
        """End all connections and every thread. Idempotent."""
        with self._lock:
            self._closing.set()
            carriers = dict(self._carriers)
        with suppress(OSError):  # it is closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        for carrier in carriers.values():
            carrier.stop()
        until = time.monotonic() + _END_SECONDS
        for thread in (self._thread, *carriers):
            thread.join(max(0.0, until - time.monotonic()))

    def _accept(self) -> None:
        with self._listener:
            while not self._closing.is_set():
                try:
                    near, _ = self._listener.accept()
                except OSError:
                    # Closing ends it; a lack of descriptors passes.
                    self._closing.wait(0.1)
                    continue
                self._begin(near)

    def _begin(self, near: socket.socket) -> None:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        carrier = Carrier(near)
        thread = threading.Thread(
            target=self._serve, args=(carrier,), name=f"lancegpu-carrier {self._pod}", daemon=True
        )
        with self._lock:
            if self._closing.is_set():
                carrier.close()
                return
            self._carriers[thread] = carrier
            thread.start()

    def _serve(self, carrier: Carrier) -> None:
        try:
            self._trouble = self._carry(carrier)
        except Exception:
            _log.exception("the port-forward to pod %s failed", self._pod)
        finally:
            carrier.close()
            with self._lock:
                self._carriers.pop(threading.current_thread(), None)

    def _carry(self, carrier: Carrier) -> PlacementError | str | None:
        """Serve one connection to its end; return what was wrong with it."""
        try:
            far = self._forward(carrier)
        except PlacementError as exc:
            return exc
        if far is None:
            return None
        trouble = carrier.carry(far)
        if trouble and carrier.has_carried and not self._closing.is_set():
            _log.warning("the port-forward to pod %s broke: %s", self._pod, trouble)
        return trouble

    def _forward(self, carrier: Carrier) -> Upgraded | None:
        backoff, until = Backoff(), time.monotonic() + _PATIENCE_SECONDS
        while not carrier.stopped.is_set():
            try:
                return self._cluster.forward(self._pod, self._pod_port)
            except ClusterUnreachable as exc:
                pause = backoff.after(exc)
                if time.monotonic() + pause >= until:
                    raise
                carrier.stopped.wait(pause)
        return None
