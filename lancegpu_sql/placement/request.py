"""A request for one worker: what is asked for, what a placement tells about it, and the states it may go through.

A placement only turns the world's happenings (devices, processes, pods) into these events. Everything decided on them
(fairness, idle time, blame for losses, what people read) is decided once, for all placements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from lancegpu_sql.errors import EnvironmentFailed, InvalidInput, PlacementError
from lancegpu_sql.functions.environment import Environment

if TYPE_CHECKING:
    import mmap

    from lancegpu_sql.placement.gpu_class import GpuClass


@dataclass(frozen=True)
class WorkerRequest:
    """One worker, asked for by one job.

    Parameters
    ----------
    request_id
        Unique among all requests of all processes.
    job_id
        The job that asks.
    owner
        Words for people who wait behind it: ``job 0193… (refresh of reviews.score, process 4711)``.
    function, version
        What the worker will load; for messages only.
    gpu_class
        Where it must run; None asks for a CPU worker, which takes no device.
    gpus
        Devices of the class that the worker gets for itself.
    cpus
        Threads that numerical libraries may use in the worker.
    env
        The Function's own environment variables.
    asked_at
        Seconds since the epoch. The oldest request is served first, across processes.
    queue
        The queue of the cluster (Kueue's LocalQueue) that admits the worker, instead of its class's.
    cpu_rung
        The size of a CPU worker, by its name on the placement's ladder; None is the smallest.
    avoid
        Places to keep off, as `Ready` names them, where there are others: a device failed there.
    environment
        The packages and the Python of the worker; None where it has this program's own.
    image
        What the worker runs in a pod, instead of its class's image.
    prepared_for
        The class on whose volume a CPU worker of a cluster makes the environment, for workers of that class.
    secrets
        By variable, where the value comes from. The placement keeps such variables of this process from the worker, and sees
        to those that a cluster keeps.
    withheld
        Further variables of this process that the worker does not inherit: secrets of other Functions, and of the database.
    """

    request_id: str
    job_id: str
    owner: str
    function: str
    version: int
    gpu_class: GpuClass | None
    gpus: int
    cpus: int
    env: Mapping[str, str]
    asked_at: float
    queue: str | None = None
    cpu_rung: str | None = None
    avoid: frozenset[str] = frozenset()
    environment: Environment | None = None
    image: str | None = None
    prepared_for: GpuClass | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()

    @property
    def queue_name(self) -> str | None:
        """The queue that admits the worker; None where none is named."""
        return self.queue or (None if self.gpu_class is None else self.gpu_class.queue)


def refuse_queue(request: WorkerRequest) -> None:
    """Refuse a request that names a queue, where workers run on this machine; what its class says is for clusters.

    Raises
    ------
    InvalidInput
    """
    if request.queue is not None:
        raise InvalidInput(
            f"queue={request.queue!r} names a queue of a Kubernetes cluster, but this database's workers run on this machine, "
            "which has none: leave it out, or connect with kubernetes_namespace",
            queue=request.queue,
        )


@dataclass(frozen=True)
class Waiting:
    """There is no room at present; the request stands, however long.

    `reason` is one of few fixed words for programs, `message` one sentence for an operator. `can_be_met` is False where
    the request needs more than there is, not only more than is free; None where the placement cannot tell.
    """

    reason: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    can_be_met: bool | None = None


@dataclass(frozen=True)
class Preparing:
    """The worker's environment is being made, before it is asked for or in its own pod; `message` says what is done."""

    message: str


@dataclass(frozen=True)
class Starting:
    """There is room and the worker is being started; `phase` says how far it is."""

    phase: str


@dataclass(frozen=True)
class Ready:
    """The worker serves.

    `address` is the URI that Arrow Flight connects to, `token` the secret without which the worker answers nothing.
    `devices` are names for people; simulated ones say so. `places` are what a request can keep off: devices of this machine,
    the node of a cluster. `backup` names the GPU class of a worker that is of another one
    than was asked for; whoever asks for backups puts it there. `worker_pid` is None where the worker runs elsewhere: there
    it shows a certificate signed by `tls_root` (PEM) for the name `tls_name`, and ends itself when it hears nothing.
    `results` is memory that it shares with this process, which asked for it; None where there is none.
    """

    address: str
    token: str = field(repr=False)
    devices: tuple[str, ...] = ()
    worker_pid: int | None = None
    backup: str | None = None
    tls_root: bytes | None = field(default=None, repr=False)
    tls_name: str | None = None
    places: tuple[str, ...] = ()
    results: mmap.mmap | None = field(default=None, repr=False, compare=False)


LostCause = Literal["signal", "memory", "exit", "unreachable"]


@dataclass(frozen=True)
class Lost:
    """The worker ended by itself, and what it held is free again. No event follows."""

    cause: LostCause
    message: str


@dataclass(frozen=True)
class Refused:
    """The worker cannot be had as things are set up, however long one waits; `error` says what to change."""

    error: PlacementError | EnvironmentFailed


@dataclass(frozen=True)
class Wanted:
    """Another request waits for what this worker holds: an idle worker should be released at once."""


PlacementEvent = Waiting | Preparing | Starting | Ready | Lost | Refused | Wanted


@dataclass(frozen=True)
class Leased:
    """A job took the worker."""


@dataclass(frozen=True)
class Returned:
    """The job gave the worker back; it stays warm for the next one."""


@dataclass(frozen=True)
class Closing:
    """The worker, or the request for it, is being given up."""


@dataclass(frozen=True)
class Gone:
    """The worker has ended and what it held is free."""


RequestEvent = PlacementEvent | Leased | Returned | Closing | Gone


class RequestState(StrEnum):
    """Where a request stands."""

    ASKED = "asked"
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    LEASED = "leased"
    IDLE = "idle"
    CLOSING = "closing"
    GONE = "gone"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen to it."""
        return self in (RequestState.GONE, RequestState.LOST)


class ImpossibleTransition(RuntimeError):
    """A request met an event that cannot happen in its state: a fault of this program, not of its user."""


_S = RequestState
_ALIVE = frozenset({_S.ASKED, _S.WAITING, _S.STARTING, _S.READY, _S.LEASED, _S.IDLE})
_HOLDING = frozenset({_S.STARTING, _S.READY, _S.LEASED, _S.IDLE})

# A worker of a cluster may be put back from starting to waiting (its node is gone before it ever served).
_TRANSITIONS: Mapping[type[RequestEvent], tuple[frozenset[RequestState], RequestState | None]] = {
    Waiting: (frozenset({_S.ASKED, _S.WAITING, _S.STARTING}), _S.WAITING),
    Preparing: (frozenset({_S.ASKED, _S.WAITING, _S.STARTING}), _S.STARTING),
    Starting: (frozenset({_S.ASKED, _S.WAITING, _S.STARTING}), _S.STARTING),
    Ready: (frozenset({_S.STARTING}), _S.READY),
    Leased: (frozenset({_S.READY, _S.IDLE}), _S.LEASED),
    Returned: (frozenset({_S.LEASED}), _S.IDLE),
    Wanted: (_HOLDING, None),
    Closing: (_ALIVE | {_S.CLOSING}, _S.CLOSING),
    Gone: (frozenset({_S.CLOSING}), _S.GONE),
    Lost: (_ALIVE, _S.LOST),
    Refused: (frozenset({_S.ASKED, _S.WAITING, _S.STARTING}), _S.LOST),
}


def transition(state: RequestState, event: RequestEvent) -> RequestState:
    """Return the state after `event`.

    Raises
    ------
    ImpossibleTransition
        If the event cannot happen in that state.
    """
    allowed, target = _TRANSITIONS[type(event)]
    if state not in allowed:
        raise ImpossibleTransition(f"a request that is {state} cannot meet {event!r}")
    return target or state


@dataclass
class RequestStory:
    """The state of one request and the events that led to it, told when an impossible one comes."""

    request_id: str
    state: RequestState = RequestState.ASKED
    events: list[RequestEvent] = field(default_factory=list)

    def meet(self, event: RequestEvent) -> RequestState:
        """Move on by `event` and return the new state."""
        try:
            self.state = transition(self.state, event)
        except ImpossibleTransition as exc:
            past = " → ".join(type(earlier).__name__ for earlier in self.events) or "nothing"
            raise ImpossibleTransition(f"request {self.request_id}: {exc}; before it came: {past}") from None
        # Repeats (a diagnosis that changes, a device that is wanted again) would grow the story without end.
        if not self.events or type(self.events[-1]) is not type(event):
            self.events.append(event)
        return self.state
