"""For tests of programs that use this package: real siblings of what needs processes, devices or a cluster."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.placement.devices import DriverReport, devices_of
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener
from lancegpu_sql.placement.leases import Claim, room, settle, wanted_by, why_waiting
from lancegpu_sql.placement.request import (
    Closing,
    Gone,
    Lost,
    LostCause,
    PlacementEvent,
    Ready,
    RequestState,
    RequestStory,
    Starting,
    Wanted,
    WorkerRequest,
    refuse_queue,
)
from lancegpu_sql.placement.watch import WatchThread

if TYPE_CHECKING:
    from lancegpu_sql.placement.cpu_ladder import CpuRung
    from lancegpu_sql.placement.gpu_class import GpuClass

__all__ = ["MemoryPlacement", "MemoryTicket"]

_log = logging.getLogger(__name__)


class MemoryPlacement:
    """A placement without processes: it decides as the local one does, over simulated devices it alone gives away.

    Parameters
    ----------
    serve
        Called with the request and the worker's token when a worker starts, on the placement's thread; returns the
        address that the worker serves at. By default a made-up one.
    cores
        How many CPU workers of one thread would start at once.
    """

    def __init__(self, serve: Callable[[WorkerRequest, str], str] | None = None, *, cores: int = 2) -> None:
        numbers = itertools.count(1)
        self._serve = serve or (lambda _request, _token: f"memory://{next(numbers)}")
        self._cores = cores
        self._lock = threading.Lock()
        self._tickets: dict[str, MemoryTicket] = {}
        self._claims: tuple[Claim, ...] = ()
        self._watch = WatchThread("lancegpu-memory-placement", on_timeout=lambda: None)

    @property
    def cpu_ladder(self) -> tuple[CpuRung, ...]:
        """None: CPU workers share this machine."""
        return ()

    def attach(self, database: str) -> None:
        """Hear which database asks."""

    def prepare(self, request: WorkerRequest, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Make nothing: workers in memory have what this process has."""

    def ask(self, request: WorkerRequest, listener: Listener) -> MemoryTicket:
        """Ask for one worker and return at once; see `Placement.ask`."""
        refuse_queue(request)
        ticket = MemoryTicket(self, request, listener)
        with self._lock:
            self._tickets[request.request_id] = ticket
            if request.gpu_class is not None:
                self._claims = _settled((*self._claims, _claim(request, request.gpu_class)))
        self._watch.call(self._review)
        return ticket

    def free_workers(self, gpu_class: GpuClass | None, gpus: int, cpus: int) -> int:
        """Return how many workers like this, if asked for now, would start at once."""
        if gpu_class is None:
            return max(1, self._cores // cpus)
        request = WorkerRequest("", "", "", "", 0, gpu_class, gpus, cpus, {}, 0.0)
        return room(self._claims, _claim(request, gpu_class))

    def close(self) -> None:
        """Release every ticket."""
        for ticket in tuple(self._tickets.values()):
            ticket.release()
        self._watch.close()

    def _review(self) -> None:
        for ticket in tuple(self._tickets.values()):
            gpu_class = ticket.request.gpu_class
            claim = next((claim for claim in self._claims if claim.id == ticket.request.request_id), None)
            begins = ticket.state in (RequestState.ASKED, RequestState.WAITING)
            if gpu_class is None:
                if begins:
                    ticket.start(self._serve, ())
            elif claim is None:
                continue  # released meanwhile
            elif not begins:
                ticket.want(wanted_by(self._claims, claim))
            elif claim.devices:
                ticket.start(self._serve, claim.devices)
            else:
                problem = devices_of(gpu_class, _no_driver).problem
                ticket.tell(why_waiting(self._claims, claim, problem))

    def rename(self, ticket: MemoryTicket, owner: str) -> None:
        """Name the owner of a ticket anew."""
        with self._lock:
            self._claims = tuple(
                claim.model_copy(update={"owner": owner}) if claim.id == ticket.request.request_id else claim
                for claim in self._claims
            )
        self._watch.call(self._review)

    def leave(self, ticket: MemoryTicket) -> None:
        """Give what a ticket holds to whoever is next."""
        with self._lock:
            self._tickets.pop(ticket.request.request_id, None)
            self._claims = _settled(claim for claim in self._claims if claim.id != ticket.request.request_id)
        self._watch.call(self._review)


class MemoryTicket:
    """One request to a MemoryPlacement; `start`, `want` and `tell` are the placement's."""

    def __init__(self, placement: MemoryPlacement, request: WorkerRequest, listener: Listener) -> None:
        self.request = request
        self._placement = placement
        self._listener = listener
        self._lock = threading.Lock()
        self._story = RequestStory(request.request_id)
        self._told: PlacementEvent | None = None
        self._wanted_by: frozenset[str] = frozenset()

    @property
    def wanted(self) -> bool:
        """Whether another request waits, right now, for what this one holds."""
        return bool(self._wanted_by)

    @property
    def state(self) -> RequestState:
        """Where the request stands, as far as the placement knows."""
        return self._story.state

    def assign(self, job_id: str, owner: str) -> None:  # noqa: ARG002 - only a cluster writes it down
        """Name the job that uses the worker from now on."""
        self._placement.rename(self, owner)

    def idle(self) -> None:
        """Say that nobody uses the worker for now; nobody asks."""

    def release(self, *, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:  # noqa: ARG002 - nothing takes time here
        """End the worker, or withdraw the request, and free what it holds."""
        with self._lock:
            if self._ended:
                return
            self._story.meet(Closing())
            self._story.meet(Gone())
        self._placement.leave(self)

    def lose(self, cause: LostCause = "signal", message: str = "the worker was lost") -> None:
        """Let the worker end by itself."""
        self._placement.leave(self)
        self.tell(Lost(cause, message))

    @property
    def _ended(self) -> bool:
        return self._story.state.ended

    def start(self, serve: Callable[[WorkerRequest, str], str], devices: tuple[str, ...]) -> None:
        """Start the worker."""
        if self.tell(Starting("starting the worker")):
            token = f"token of {self.request.request_id}"
            self.tell(Ready(serve(self.request, token), token, devices))

    def want(self, claim_ids: frozenset[str]) -> None:
        """Say that these requests wait for what this one holds, if that is news."""
        news = claim_ids - self._wanted_by
        self._wanted_by = claim_ids
        if news:
            self.tell(Wanted())

    def tell(self, event: PlacementEvent) -> bool:
        """Hand an event out, if it is news to a request that stands."""
        with self._lock:
            if self._ended or event == self._told:
                return False
            self._story.meet(event)
            self._told = None if isinstance(event, Wanted) else event
        try:
            self._listener(event)
        except Exception:
            _log.exception("the listener of request %s failed on %r", self.request.request_id, event)
        return True


def _claim(request: WorkerRequest, gpu_class: GpuClass) -> Claim:
    return Claim(
        id=request.request_id,
        owner=request.owner,
        gpu_class=gpu_class.name,
        candidates=tuple(device.id for device in devices_of(gpu_class, _no_driver).devices),
        gpus=request.gpus,
        max_workers=gpu_class.max_workers,
        asked_at=request.asked_at,
        mailbox="",
        process=ProcessIdentity.current(),
    )


def _settled(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    return settle(claims, lambda _claim: True)


def _no_driver() -> DriverReport:
    return DriverReport((), "a placement in memory has simulated devices only")
