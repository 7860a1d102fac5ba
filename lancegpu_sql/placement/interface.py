"""What every placement offers: ask for a worker, be told what becomes of it, give it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from lancegpu_sql.placement.request import PlacementEvent, WorkerRequest

if TYPE_CHECKING:
    from lancegpu_sql.placement.cpu_ladder import CpuRung
    from lancegpu_sql.placement.gpu_class import GpuClass

Listener = Callable[[PlacementEvent], None]

CLOSE_GRACE_SECONDS = 2.0
"""How long a worker may take to end by itself (a Function's `close()`) before it is killed."""


class Ticket(Protocol):
    """One request, from asking to release."""

    @property
    def request(self) -> WorkerRequest:
        """What was asked for."""

    @property
    def wanted(self) -> bool:
        """Whether another request waits, right now, for what this one holds."""

    def assign(self, job_id: str, owner: str) -> None:
        """Name the job that uses the worker from now on, for the messages of those who wait behind it."""

    def idle(self) -> None:
        """Say that nobody uses the worker until it is assigned again: where room is made, it may go first."""

    def release(self, *, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """Withdraw the request, or end its worker, and free what it holds.

        Returns when the worker is gone. The worker is told to end and may take `grace_seconds` for it; 0 kills it at
        once. May be called from any thread, from a listener too, and any number of times. An event that was already
        under way may still be delivered.
        """


class Placement(Protocol):
    """A place where workers run."""

    @property
    def cpu_ladder(self) -> tuple[CpuRung, ...]:
        """The sizes of CPU workers, smallest first; none where they share this machine."""

    def attach(self, database: str) -> None:
        """Hear which database asks for workers, before the first is asked for; the same name always means the same one."""

    def prepare(self, request: WorkerRequest, listener: Listener, interrupted: Callable[[], bool]) -> None:
        """Make the environment that a worker to be asked for needs, where that can be done before; returns when it is there.

        Parameters
        ----------
        request
            What will be asked for.
        listener
            Told, from this thread, that it is being made, or waits for room for that.
        interrupted
            Asked now and then whether to give up.

        Raises
        ------
        EnvironmentFailed
            It cannot be made; trying again helps nothing.
        PlacementError, StorageError, WorkerLost
            What makes it cannot be had, or its folder not be used.
        Cancelled
            `interrupted` said so.
        """

    def ask(self, request: WorkerRequest, listener: Listener) -> Ticket:
        """Ask for one worker and return at once.

        Events are delivered to `listener` one after another from a thread of the placement, which serves other requests
        too: a listener notes what happened and returns. Asking for what no room is left for is no error: the request
        waits, oldest first, until it is released.

        Raises
        ------
        StorageError
            If the placement cannot keep its books: nothing was asked.
        InvalidInput
            The request names what this placement does not have: a queue, where there is no cluster.
        """

    def free_workers(self, gpu_class: GpuClass | None, gpus: int, cpus: int) -> int:
        """Return how many workers like this, if asked for now, would start at once: a hint, out of date when read."""

    def close(self) -> None:
        """Release every ticket. The placement cannot be used afterwards."""
