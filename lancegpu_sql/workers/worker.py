"""One worker as its owner sees it: asked for, loaded, leased again and again, ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue

from lancegpu_sql.errors import Cancelled, EnvironmentFailed, LanceGpuError, LoadFailed, WorkerLost
from lancegpu_sql.functions.secret_sources import Masking, read_secrets
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener, Placement
from lancegpu_sql.placement.request import Lost, PlacementEvent, Ready, Refused, Starting, Waiting, Wanted
from lancegpu_sql.workers.asking import Asking, Word
from lancegpu_sql.workers.calls import LoadReport
from lancegpu_sql.workers.client import WorkerClient
from lancegpu_sql.workers.greeter import Greeter
from lancegpu_sql.workers.need import WorkerNeed

_INTERRUPT_SECONDS = 0.1
"""How soon an interrupt is seen while waiting; everything else is told at once."""

_News = PlacementEvent | LoadReport | LanceGpuError
_Told = Word | LoadReport | LanceGpuError


class Worker:
    """A worker, from asking for it on.

    Parameters
    ----------
    need
        What it is for.
    on_change
        Called, from the placement's threads, when the worker is lost or wanted by others.
    greeter
        Keeps it alive where it runs on another machine.
    """

    def __init__(self, need: WorkerNeed, on_change: Callable[[], None], greeter: Greeter) -> None:
        self.need = need
        self._on_change = on_change
        self._greeter = greeter
        self._asking: Asking | None = None
        self._client: WorkerClient | None = None
        self._ready: Ready | None = None
        self._lost: Lost | None = None
        self._is_lost = threading.Event()
        self._news: SimpleQueue[_Told] = SimpleQueue()
        self._masked = Masking()
        self.started_seconds = 0.0
        """What starting and loading it took, without waiting for room."""
        self.computed_seconds = 0.0
        """How long it computed, in all jobs before the present one."""
        self.rows_per_second: float | None = None
        """What it did in the last of these that had rows."""
        self._room_since: float | None = None
        self.load_log: tuple[str, ...] = ()
        self.calls_at_once = 1

    @property
    def client(self) -> WorkerClient:
        """Speaks to the worker, once it is ready."""
        assert self._client is not None
        return self._client

    @property
    def ready(self) -> Ready:
        """What the placement said when the worker was ready."""
        assert self._ready is not None
        return self._ready

    def ready_for(self, need: WorkerNeed) -> Ready:
        """Say that it is ready to whoever has that need."""
        backup = (
            self.gpu_class is not None and need.gpu_class is not None and self.gpu_class.name != need.gpu_class.name
        )
        return replace(self.ready, backup=self.gpu_class.name if backup and self.gpu_class else None)

    @property
    def name(self) -> str:
        """Its name in logs and timings."""
        pid = self.ready.worker_pid
        return f"worker {pid}" if pid is not None else f"worker {self.ready.address}"

    @property
    def lost(self) -> bool:
        """Whether it ended by itself."""
        return self._is_lost.is_set()

    @property
    def wanted(self) -> bool:
        """Whether another request waits for what it holds."""
        return self._asking is not None and self._asking.wanted

    @property
    def gpu_class(self) -> GpuClass | None:
        """The class that it runs on, which may be a backup of the one that was asked for."""
        return self.need.gpu_class if self._asking is None else self._asking.gpu_class

    def serves(self, need: WorkerNeed) -> bool:
        """Whether it serves a need on that need's own class."""
        return need.met_by(self.need.on(self.gpu_class))

    def why_lost(self, timeout_seconds: float) -> Lost:
        """Return how it ended, waiting a moment for the placement to say so."""
        self._is_lost.wait(timeout_seconds)
        return self._lost or Lost("unreachable", f"{self.name} does not answer any more")

    def assign(self, need: WorkerNeed) -> None:
        """Name the job that uses it from now on."""
        if self._asking is not None:
            self._asking.assign(need.job_id, need.owner)

    def idle(self) -> None:
        """Say that nobody uses it until it is assigned again."""
        if self._asking is not None:
            self._asking.idle()

    def answers(self, timeout_seconds: float) -> bool:
        """Ask whether it lives: it may have died, or been stopped, a moment ago."""
        try:
            self.client.health(timeout_seconds)
        except WorkerLost:
            return False
        return True

    def end(self, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """End it and return when it is gone. Idempotent."""
        if self._asking is not None:
            self._asking.release(grace_seconds)
        if self._client is not None:
            self._greeter.discard(self._client)
            self._client.close()

    def start(self, placement: Placement, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Ask for the worker and wait until its Function is loaded; see `WorkerPool.lease`."""
        self._prepare(placement, listener, interrupted)
        self._room_since = time.monotonic()
        self._asking = Asking(placement, self.need, self._note)
        try:
            self._asking.start()
            self._ready = self._await_ready(listener, interrupted)
            self._client = _client_of(self._ready)
            if self._ready.tls_root is not None:
                self._greeter.add(self._client)
            listener(Starting("loading the Function"))
            report = self._load(interrupted)
            self.load_log, self.calls_at_once = report.log, report.calls_at_once
        except BaseException:
            self.end(grace_seconds=0)
            raise
        now = time.monotonic()
        self.started_seconds = now - (self._room_since or now)
        listener(self.ready_for(self.need))

    def _prepare(self, placement: Placement, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Have the Function's environment made, and look for its secrets, before a device is asked for."""
        try:
            read_secrets(self.need.secrets)
            if self.need.environment is not None:
                placement.prepare(self.need.request(self.need.gpu_class), listener, interrupted)
        except EnvironmentFailed as exc:
            raise self._cannot_run(exc) from exc

    def _note(self, word: Word) -> None:
        """Take an event from the placement's thread."""
        event = word.event
        if isinstance(event, Lost):
            event = replace(event, message=self._masked(event.message))
            word = replace(word, event=event)
        if isinstance(event, Lost) and self._asking is not None and self._asking.is_of_worker(word):
            self._lost = event
            self._is_lost.set()
        if isinstance(event, Lost | Wanted):
            self._on_change()
        self._news.put(word)

    def _await_ready(self, listener: Listener, interrupted: Callable[[], bool]) -> Ready:
        while True:
            match self._next(interrupted):
                case Ready() as ready:
                    return ready
                case Lost() as lost:
                    raise self._loss(lost, "before it was ready")
                case Refused(EnvironmentFailed() as error):
                    raise self._cannot_run(error) from error
                case Refused(error):
                    raise error
                case Wanted() | LoadReport() | LanceGpuError():
                    pass
                case event:
                    self._mind_the_room(event)
                    listener(event)

    def _mind_the_room(self, event: PlacementEvent) -> None:
        if isinstance(event, Waiting):
            self._room_since = None
        elif self._room_since is None:
            self._room_since = time.monotonic()

    def _load(self, interrupted: Callable[[], bool]) -> LoadReport:
        threading.Thread(target=self._send_load, name="worker-load", daemon=True).start()
        while True:
            match self._next(interrupted):
                case LoadReport(failure=None) as report:
                    return report
                case LoadReport() as report:
                    raise self._load_failure(report)
                case WorkerLost():
                    raise self._loss(self.why_lost(CLOSE_GRACE_SECONDS), "while it loaded its Function")
                case Lost() as lost:
                    raise self._loss(lost, "while it loaded its Function")
                case LanceGpuError() as error:
                    raise error

    def _send_load(self) -> None:
        try:
            secrets = read_secrets(self.need.secrets)
            self._masked.add(value for value in secrets.values() if value is not None)
            self._news.put(self.client.load(replace(self.need.load, secrets=secrets)))
        except LanceGpuError as exc:
            self._news.put(exc)

    def _next(self, interrupted: Callable[[], bool]) -> _News:
        while True:
            try:
                told = self._news.get(timeout=_INTERRUPT_SECONDS)
            except Empty:
                if interrupted():
                    load = self.need.load
                    raise Cancelled(f"cancelled while waiting for a worker for {load.function}") from None
                continue
            if not isinstance(told, Word):
                return told
            assert self._asking is not None
            event = self._asking.handle(told)
            if event is not None:
                return event

    def _cannot_run(self, error: EnvironmentFailed) -> EnvironmentFailed:
        load = self.need.load
        facts = {**error.facts, "function": load.function, "version": load.version}
        return EnvironmentFailed(f"{load.function} version {load.version} cannot run. {error.message}", **facts)

    def _loss(self, lost: Lost, when: str) -> WorkerLost:
        load = self.need.load
        return WorkerLost(
            f"the worker for {load.function} version {load.version} ended {when}: {lost.message}",
            cause=lost.cause,
            function=load.function,
            version=load.version,
            owner="memory" if lost.cause == "memory" else "environment",
            cpu_rung=self.need.cpu_rung,
        )

    def _load_failure(self, report: LoadReport) -> LoadFailed:
        load, failure = self.need.load, report.failure
        assert failure is not None
        return LoadFailed(
            f"{load.function} version {load.version} was not loaded: {failure.message}\n{failure.traceback}".rstrip(),
            function=load.function,
            version=load.version,
            owner=failure.load_owner,
            error_type=failure.error_type,
            user_traceback=failure.traceback,
            log=report.log,
        )


def _client_of(ready: Ready) -> WorkerClient:
    return WorkerClient(ready.address, ready.token, ready.tls_root, ready.tls_name, ready.results)
