"""One request to the local placement: from asking, through its worker's process, to the end of both."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lancegpu_sql.functions.environment_store import EnvironmentStore
from lancegpu_sql.functions.secret_sources import own_variables
from lancegpu_sql.placement.host import MemoryKills
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener
from lancegpu_sql.placement.mailbox import Mailbox
from lancegpu_sql.placement.own_claims import OwnClaims
from lancegpu_sql.placement.request import (
    Closing,
    Gone,
    Lost,
    PlacementEvent,
    Ready,
    RequestState,
    RequestStory,
    Starting,
    Waiting,
    Wanted,
    WorkerRequest,
)
from lancegpu_sql.placement.shared_memory import make_shared_memory
from lancegpu_sql.placement.watch import WatchThread
from lancegpu_sql.placement.worker_environment import RESULTS_VARIABLE, worker_environment
from lancegpu_sql.placement.worker_process import WorkerProcess, explain_death

_log = logging.getLogger(__name__)

# -P: a file in the folder that the owner happens to stand in must not take the place of a module of Python's own. What
# a Function imports from there is on the search path that travels with it.
WORKER_ARGUMENTS = ("-P", "-m", "lancegpu_sql.workers")


@dataclass
class Site:
    """What the tickets of one local placement share."""

    command: tuple[str, ...]
    watch: WatchThread
    mailbox: Mailbox
    claims: OwnClaims
    memory_kills: MemoryKills
    environments: EnvironmentStore
    tickets: dict[str, LocalTicket] = field(default_factory=dict)
    process_id: int = field(default_factory=os.getpid)

    def has_workers(self) -> bool:
        """Whether a worker's process runs."""
        return any(ticket.has_process for ticket in tuple(self.tickets.values()))


class LocalTicket:
    """One request to a local placement.

    `wait`, `start` and `want` are the placement's, on its watch thread; so a request's events come in order.
    """

    def __init__(self, site: Site, request: WorkerRequest, listener: Listener) -> None:
        self.request = request
        self.mark = os.urandom(16).hex()
        self._site = site
        self._listener = listener
        self._lock = threading.Lock()
        self._story = RequestStory(request.request_id)
        self._gone = threading.Event()
        self._process: WorkerProcess | None = None
        self._ready: Ready | None = None
        self._waiting: Waiting | None = None
        self._wanted_by: frozenset[str] = frozenset()

    @property
    def wanted(self) -> bool:
        """Whether another request waits, right now, for what this one holds."""
        return bool(self._wanted_by)

    @property
    def state(self) -> RequestState:
        """Where the request stands, as far as the placement knows."""
        return self._story.state

    @property
    def has_process(self) -> bool:
        """Whether its worker was started and is not known to be gone."""
        return self._process is not None and not self._gone.is_set()

    @property
    def worker_pid(self) -> int | None:
        """The process id of its worker, once it was started."""
        return self._process.pid if self._process is not None else None

    def assign(self, job_id: str, owner: str) -> None:  # noqa: ARG002 - a cluster labels its pod with it
        """Name the job that uses the worker from now on, for the messages of those who wait behind it."""
        self._site.claims.change(self.request.request_id, owner=owner)

    def idle(self) -> None:
        """Say that nobody uses the worker for now; on one machine nobody asks."""

    def release(self, *, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """End the worker, or withdraw the request, and free what it holds; return when the worker is gone."""
        if self._site.process_id != os.getpid():
            return  # a process that forked off holds a copy of this, not the worker
        if self.begin_release():
            self.finish_release(grace_seconds)
        else:
            self._gone.wait()

    def begin_release(self) -> bool:
        """Tell the worker to end; False where somebody else does, or it has ended. True obliges to finish it."""
        with self._lock:
            if self._is_over:
                return False
            self._story.meet(Closing())
        if self._process is not None:
            self._process.ask_to_end()
        return True

    def finish_release(self, grace_seconds: float) -> None:
        """Wait for the worker to end, or kill it, and free what it holds."""
        try:
            if self._process is not None:
                self._process.end(grace_seconds)
        finally:
            self._site.watch.call(self._forget_process)
            self._story.meet(Gone())
            self._leave()

    def wait(self, waiting: Waiting) -> None:
        """Say why there is no room, if that is news."""
        if waiting != self._waiting and self._tell(waiting):
            self._waiting = waiting

    def want(self, claim_ids: frozenset[str]) -> None:
        """Say that these requests wait for what this one holds, if that is news."""
        news = claim_ids - self._wanted_by
        self._wanted_by = claim_ids
        if news:
            self._tell(Wanted())

    def start(self, devices: Sequence[str]) -> None:
        """Start the worker on its devices."""
        if not self._tell(Starting("starting the worker's process")):
            return
        if not self._site.has_workers():
            self._site.memory_kills.forget()
        with self._lock:
            if self._story.state is not RequestState.STARTING:
                return
            try:
                self._process = process = self._spawn(tuple(devices))
            except OSError as exc:
                lost = Lost("exit", f"{self._name} could not be started: {exc}")
                self._story.meet(lost)
        if self._process is None:
            self._leave()
            self._hand_out(lost)
            return
        for descriptor in process.outputs:
            self._site.watch.watch(descriptor, partial(self._hear, process, descriptor))
        self._site.watch.watch(process.pidfd, partial(self._die, process))
        self._site.claims.change(self.request.request_id, worker=process.identity)

    @property
    def _is_over(self) -> bool:
        return self._story.state.ended or self._story.state is RequestState.CLOSING

    @property
    def _name(self) -> str:
        number = f" {self._process.pid}" if self._process else ""
        return f"worker{number} of Function {self.request.function} (version {self.request.version})"

    def _spawn(self, devices: tuple[str, ...]) -> WorkerProcess:
        socket_path = self._site.mailbox.new_socket_path()
        token = os.urandom(32).hex()
        hidden = own_variables(self.request.secrets) | self.request.withheld
        command, own = self._site.command, {name: value for name, value in os.environ.items() if name not in hidden}
        keeps: tuple[int, ...] = ()
        if self.request.environment is not None:
            held = self._site.environments.hold(self.request.environment)
            if held is None:
                raise FileNotFoundError("its environment has been taken away since it was made")
            ready, keeps = held[0], (held[1],)
            command = (str(ready.python), *WORKER_ARGUMENTS)
            own |= ready.variables(own.get("PATH", os.defpath))
            own.pop("PYTHONHOME", None)
        environment = worker_environment(
            own, devices=devices, cpus=self.request.cpus, function_env=self.request.env, token=token
        )
        shared = make_shared_memory()
        if shared is not None:
            keeps += (shared[1],)
            environment[RESULTS_VARIABLE] = str(shared[1])
        try:
            process = WorkerProcess((*command, "--socket", str(socket_path)), environment, self.mark, keeps)
        finally:
            for descriptor in keeps:
                os.close(descriptor)
        memory = None if shared is None else shared[0]
        address = f"grpc+unix://{socket_path}"
        self._ready = Ready(address, token, devices, process.pid, places=devices, results=memory)
        return process

    def _hear(self, process: WorkerProcess, descriptor: int) -> None:
        heard = process.read(descriptor)
        if heard == "end":
            self._site.watch.unwatch(descriptor)
        elif heard == "ready" and self._ready is not None and self._story.state is RequestState.STARTING:
            self._tell(self._ready)

    def _die(self, process: WorkerProcess) -> None:
        self._site.watch.unwatch(process.pidfd)
        with self._lock:
            if self._is_over:
                return  # asked for; whoever asked sees to the rest
            exit_code = process.reap()
            lost = explain_death(
                self._name,
                exit_code,
                killed_for_memory=exit_code == -9 and self._site.memory_kills.explains_one(),
                last_words=process.last_words(),
            )
            self._story.meet(lost)
        self._forget_process()
        self._leave()
        self._hand_out(lost)

    def _leave(self) -> None:
        self._site.claims.leave(self.request.request_id)
        self._site.tickets.pop(self.request.request_id, None)
        self._gone.set()

    def _forget_process(self) -> None:
        if self._process is not None:
            for descriptor in (*self._process.outputs, self._process.pidfd):
                self._site.watch.unwatch(descriptor)
            self._process.close()

    def _tell(self, event: PlacementEvent) -> bool:
        with self._lock:
            if self._is_over:
                return False
            self._story.meet(event)
        self._hand_out(event)
        return True

    def _hand_out(self, event: PlacementEvent) -> None:
        try:
            self._listener(event)
        except Exception:
            # One listener's fault must not keep others from what they wait for.
            _log.exception("the listener of request %s failed on %r", self.request.request_id, event)
