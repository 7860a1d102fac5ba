"""The right to use one worker."""

from __future__ import annotations

from collections.abc import Callable

from lancegpu_sql.placement.request import Lost
from lancegpu_sql.workers.client import WorkerClient
from lancegpu_sql.workers.worker import Worker


class Lease:
    """The right to use one worker, until it is released.

    Attributes
    ----------
    client
        Speaks to the worker.
    devices
        Its devices by names for people.
    places
        Where they are, as a need can keep off them.
    worker_name
        The worker's name in logs and timings.
    started_seconds
        What starting and loading took; 0 for a warm worker.
    start_cost_seconds
        What starting and loading the worker took when it was started, whoever waited for it.
    computed_before_seconds
        How long the worker computed for others before.
    rows_per_second_before
        What it did for the last of them; None where that was nothing.
    calls_at_once
        How many calls the worker computes at a time.
    load_log
        What user code printed while it was loaded; empty for a warm worker.
    cpu_rung
        Its size, where CPU workers have sizes.
    gpu_class
        The class that the worker runs on, None for a CPU worker. It may be a backup of the one that was asked for.
    """

    def __init__(self, worker: Worker, give_back: Callable[[Worker, bool], None], *, warm: bool) -> None:
        self._worker = worker
        self._give_back: Callable[[Worker, bool], None] | None = give_back
        self.client: WorkerClient = worker.client
        self.devices: tuple[str, ...] = worker.ready.devices
        self.places = frozenset(worker.ready.places)
        self.worker_name: str = worker.name
        self.started_seconds: float = 0.0 if warm else worker.started_seconds
        self.start_cost_seconds: float = worker.started_seconds
        self.computed_before_seconds: float = worker.computed_seconds
        self.rows_per_second_before: float | None = worker.rows_per_second
        self.calls_at_once: int = worker.calls_at_once
        self.load_log: tuple[str, ...] = () if warm else worker.load_log
        self.cpu_rung: str | None = worker.need.cpu_rung
        self.gpu_class: str | None = None if worker.gpu_class is None else worker.gpu_class.name

    @property
    def wanted(self) -> bool:
        """Whether another job waits for what this worker holds."""
        return self._worker.wanted

    def why_lost(self, timeout_seconds: float) -> Lost:
        """Return how the worker ended, waiting a moment for the placement to say so."""
        return self._worker.why_lost(timeout_seconds)

    def note_computed(self, seconds: float, rows: int) -> None:
        """Note what the worker computed under this lease, for those who have it next."""
        self._worker.computed_seconds = self.computed_before_seconds + seconds
        if rows and seconds:
            self._worker.rows_per_second = rows / seconds

    def release(self, broken: bool = False) -> None:
        """Give the worker back; a `broken` one is killed, and what it still computes is lost. Idempotent."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back(self._worker, broken)
