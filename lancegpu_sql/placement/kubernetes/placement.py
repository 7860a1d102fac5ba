"""Workers as pods: what a database holds of a cluster."""

from __future__ import annotations

import atexit
import os
import threading
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.client import ClusterClient
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.dispatch import Dispatch
from lancegpu_sql.placement.kubernetes.environment_on_cpu import prepare_on_cpu
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket
from lancegpu_sql.placement.request import RequestState, WorkerRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancegpu_sql.placement.cpu_ladder import CpuRung
    from lancegpu_sql.placement.gpu_class import GpuClass


class KubernetesPlacement:
    """Runs each worker in a pod of its own, on a node of its GPU class.

    Nothing is asked of the cluster before the first worker is.

    Parameters
    ----------
    namespace
        Where pods are made.
    database
        Names the database that they belong to: all processes that use one must say the same. None until `attach`.
    cluster
        How the API server is spoken to; by default as `config` says.
    **config
        The fields of `KubernetesConfig`: ``context``, ``kubeconfig``, ``in_cluster``, ``image``, …
    """

    def __init__(
        self, namespace: str, *, database: str | None = None, cluster: Cluster | None = None, **config: Any
    ) -> None:
        self.config = KubernetesConfig(namespace=namespace, **config)
        self._database = database
        self._cluster = cluster
        self._lock = threading.Lock()
        self._dispatch: Dispatch | None = None
        self._process_id = os.getpid()
        self._closed = False
        self._prepared: set[tuple[str, str]] = set()

    @property
    def cpu_ladder(self) -> tuple[CpuRung, ...]:
        """The sizes of CPU workers, smallest first."""
        return self.config.cpu_rungs

    def attach(self, database: str) -> None:
        """Hear whose workers these are, before the first is asked for."""
        with self._lock:
            self._database = self._database or database

    def prepare(self, request: WorkerRequest, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Make an environment in a pod without GPU, where the class allows that; see `Placement.prepare`.

        Otherwise the worker's own pod makes it, when it has its GPU.
        """
        gpu_class, environment = request.gpu_class, request.environment
        if environment is None or gpu_class is None or not gpu_class.environment_on_cpu:
            return
        made = (gpu_class.name, environment.digest)
        if made in self._prepared:
            return
        asked = replace(
            request, request_id=uuid.uuid4().hex, gpu_class=None, gpus=0, queue=None, prepared_for=gpu_class
        )
        prepare_on_cpu(self, asked, listener, interrupted)
        self._prepared.add(made)

    def ask(self, request: WorkerRequest, listener: Listener) -> KubernetesTicket:
        """Ask for one worker and return at once; see `Placement.ask`.

        Raises
        ------
        InvalidInput
            No pod can be made of the request: no image, one that is not allowed, …
        """
        dispatch = self._open()
        ticket = KubernetesTicket(dispatch, request, listener, dispatch.new_charge(request))
        dispatch.enter(ticket)
        return ticket

    def free_workers(self, gpu_class: GpuClass | None, gpus: int, cpus: int) -> int:
        """Return how many workers like this, if asked for now, would start at once: a hint.

        What is free in the cluster is not looked at for a hint. One more worker may start unless one of the class waits,
        or did a moment ago.
        """
        del gpus, cpus
        dispatch = self._open()
        tickets = [one for one in dispatch.tickets() if not one.is_over]
        if gpu_class is None:
            mine = [one for one in tickets if one.request.gpu_class is None]
            # Those that serve count as room, as on one machine, where cores are not leased; another one may start when they do.
            serving = sum(one.state is RequestState.READY for one in mine)
            return serving if any(one.standing().waits_for_room for one in mine) else serving + 1
        mine = [one for one in tickets if one.request.gpu_class and one.request.gpu_class.name == gpu_class.name]
        if dispatch.lookout.was_full(gpu_class.name) or any(one.standing().waits_for_room for one in mine):
            return 0
        return 1 if gpu_class.max_workers is None else max(0, min(1, gpu_class.max_workers - len(mine)))

    def close(self) -> None:
        """Release every ticket. The placement cannot be used afterwards."""
        with self._lock:
            dispatch, self._dispatch, self._closed = self._dispatch, None, True
        if dispatch is None or self._process_id != os.getpid():
            return
        atexit.unregister(self.close)
        # All end side by side, within one grace. No threads: Python may be about to end, and starts none then.
        tickets = dispatch.tickets()
        ending = [ticket for ticket in tickets if ticket.begin_release(CLOSE_GRACE_SECONDS)]
        until = time.monotonic() + CLOSE_GRACE_SECONDS
        for ticket in ending:
            ticket.finish_release(max(0.0, until - time.monotonic()))
        for ticket in tickets:
            ticket.release()
        dispatch.close()

    def _open(self) -> Dispatch:
        with self._lock:
            if self._closed:
                raise RuntimeError("this placement is closed")
            if self._process_id != os.getpid():
                self._dispatch, self._process_id = None, os.getpid()
            if self._dispatch is None:
                cluster = self._cluster or ClusterClient(self.config)
                self._dispatch = Dispatch(cluster, self.config, self._database or uuid.uuid4().hex)
                atexit.register(self.close)
            return self._dispatch
