"""The pool of workers: who may use which, and how long an idle one is kept.

A worker is asked from the placement when a lease needs one, loads its Function once, and stays warm for the next lease
with the same need. One that others wait for is closed as soon as nobody uses it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from lancegpu_sql.errors import Cancelled
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Listener, Placement
from lancegpu_sql.placement.request import LostCause
from lancegpu_sql.workers.ahead import Ahead
from lancegpu_sql.workers.batch_sizes import BatchSizes, BatchSizeStore
from lancegpu_sql.workers.client import check_not_forked
from lancegpu_sql.workers.cpu_sizes import CpuSizes, RungStore
from lancegpu_sql.workers.greeter import Greeter
from lancegpu_sql.workers.lease import Lease
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.worker import Worker

_ANSWER_SECONDS = 2.0
"""How soon an idle worker must answer to be used again: it takes a millisecond if it lives."""


class WorkerPool:
    """Leases of workers of one placement. Safe for use by many threads.

    Parameters
    ----------
    placement
        Where workers run. It stays the caller's to close.
    worker_idle_seconds
        How long a worker that nobody uses is kept, unless its GPU class says so itself; 0 keeps none.
    rungs
        Keeps what size the CPU workers of each Function need, where the placement has sizes.
    batches
        Keeps how many rows at once fit into the memory of a Function's workers.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        worker_idle_seconds: float,
        rungs: RungStore | None = None,
        batches: BatchSizeStore | None = None,
    ) -> None:
        self._placement = placement
        self._sizes = CpuSizes(placement.cpu_ladder, rungs)
        self._batches = BatchSizes(batches)
        self._process_id = os.getpid()
        self._idle_seconds = worker_idle_seconds
        self._changed = threading.Condition()
        self._idle: dict[Worker, float] = {}  # to the time when it is over; the longest idle first
        self._leased: set[Worker] = set()
        self._ahead: set[Ahead] = set()  # those that nobody waits for yet
        self._starting: set[threading.Thread] = set()
        self._keeper: threading.Thread | None = None
        self._greeter = Greeter()
        self._closing = threading.Event()

    def lease(self, need: WorkerNeed, listener: Listener, cancelled: threading.Event) -> Lease:
        """Take a warm worker, or ask for one and wait, however long, until its Function is loaded.

        Parameters
        ----------
        need
            What the worker is for.
        listener
            Told, from this thread, what the placement says meanwhile; `Ready` comes last, once the Function is loaded.
        cancelled
            Ends the waiting; looked at ten times a second.

        Raises
        ------
        Conflict
            This process was forked off one that had used workers.
        Cancelled
            `cancelled` was set, or the pool was closed.
        LoadFailed, LoadTimeout
            User code is at fault, or took too long.
        WorkerLost
            The worker ended before it was ready.
        """
        check_not_forked()
        need = self._sized(need)
        while (warm := self._take_warm(need)) is not None:
            if isinstance(warm, Ahead):
                return self._lease_ahead(warm, need, listener, cancelled)
            lease = Lease(warm, self._take_back, warm=True)
            try:
                if warm.answers(_ANSWER_SECONDS):
                    warm.assign(need)
                    listener(warm.ready_for(need))
                    return lease
            except BaseException:
                lease.release()
                raise
            lease.release(broken=True)
        worker = Worker(need, self._wake_keeper, self._greeter)
        worker.start(self._placement, listener, lambda: cancelled.is_set() or self._closing.is_set())
        with self._changed:
            if not self._closing.is_set():
                self._leased.add(worker)
                return Lease(worker, self._take_back, warm=False)
        worker.end(grace_seconds=0)
        raise Cancelled("the pool of workers was closed")

    def start_ahead(self, need: WorkerNeed) -> None:
        """Start a worker that will be asked for in a moment; returns at once.

        The next lease with the same need waits for it, and is told what the placement said. If there is none it stands idle
        as any other, and so does a failure to start remain without consequence.

        Parameters
        ----------
        need
            Of a Function that uses no GPU: nothing that others may wait for is held for what may never come.

        Raises
        ------
        Conflict
            This process was forked off one that had used workers.
        """
        assert need.gpu_class is None
        check_not_forked()
        need = self._sized(need)
        with self._changed:
            there = [*self._idle, *self._leased, *(other.worker for other in self._ahead)]
            if not any(worker.serves(need) for worker in there):
                self._start_unasked(Ahead(Worker(need, self._wake_keeper, self._greeter)))

    def start_spare(self, need: WorkerNeed, on_over: Callable[[], None]) -> Ahead | None:
        """Start one more worker, where there is room, for work that goes on; returns at once.

        It stands idle once it serves, also where that work is over by then: as likely as not more comes.

        Parameters
        ----------
        need
            Of a Function that uses no GPU.
        on_over
            Called, from another thread, when it stands idle or has failed to start.

        Returns
        -------
        Ahead or None
            The start; None where no idle worker is kept.
        """
        assert need.gpu_class is None
        ahead = Ahead(Worker(self._sized(need), self._wake_keeper, self._greeter), waits=False)
        with self._changed:
            return ahead if self._start_unasked(ahead, on_over) else None

    def _start_unasked(self, ahead: Ahead, on_over: Callable[[], None] = lambda: None) -> bool:
        """With the lock held: start a worker that nobody waits for; False where it would not be kept."""
        if self._idle_seconds <= 0 or self._closing.is_set():
            return False
        thread = threading.Thread(target=self._run_ahead, args=(ahead, on_over), name="worker-ahead", daemon=True)
        self._ahead.add(ahead)
        self._starting.add(thread)
        thread.start()
        return True

    def outgrow(self, need: WorkerNeed, cause: LostCause | None, cpu_rung: str | None) -> str | None:
        """Let the next workers be larger where one was lost for memory.

        Parameters
        ----------
        need
            What it was for.
        cause, cpu_rung
            Why it was lost, and its size.

        Returns
        -------
        str or None
            What takes its place, in words; None where nothing larger can: on a GPU, on this machine, at the top of the ladder.
        """
        if cause != "memory" or need.gpu_class is not None:
            return None
        return self._sizes.outgrow(need.load, cpu_rung)

    def fits_rows(self, need: WorkerNeed, gpu_class: str | None) -> int | None:
        """Return the most rows of one call for which the memory of a class's workers is known to do; None where it is not."""
        return self._batches.fits_rows(need.load, gpu_class)

    def keep_fits_rows(self, need: WorkerNeed, gpu_class: str | None, rows: int) -> None:
        """Keep that more rows at once need more memory than there is, for further jobs as well."""
        self._batches.keep(need.load, gpu_class, rows)

    def free_workers(self, need: WorkerNeed) -> int:
        """Return how many workers for this need would be there at once: a hint, out of date when read."""
        room = sum(self._room(need, one) for one in _classes(need))
        if need.gpu_class is not None:
            return self.warm_workers(need) + room
        # Cores are not leased: the placement says how many workers they carry, and those at work here count.
        with self._changed:
            return max(0, room - sum(worker.need.gpu_class is None for worker in self._leased))

    def warm_workers(self, need: WorkerNeed) -> int:
        """Return how many idle workers have this need's Function loaded."""
        need = self._sized(need)
        with self._changed:
            return sum(self._serves(worker, need.on(one)) for worker in self._idle for one in _classes(need))

    def close(self) -> None:
        """End every worker, leased ones too, and refuse further leases. Returns when they are gone."""
        if self._process_id != os.getpid():
            return  # a process that forked off: the workers, and the connections to them, are its parent's
        self._closing.set()
        with self._changed:
            workers, starting = [*self._idle, *self._leased], list(self._starting)
            self._idle.clear()
            self._leased.clear()
            keeper = self._keeper
            self._changed.notify_all()
        ends = [threading.Thread(target=worker.end) for worker in workers]
        for end in ends:
            end.start()
        for end in (*ends, *starting):
            end.join()
        if keeper is not None:
            keeper.join()

    def _sized(self, need: WorkerNeed) -> WorkerNeed:
        return need if need.gpu_class is not None else replace(need, cpu_rung=self._sizes.rung_of(need.load))

    def _serves(self, worker: Worker, need: WorkerNeed) -> bool:
        # A wanted one would be given back to nobody but this pool, past older requests.
        usable = not (worker.lost or worker.wanted or need.avoid.intersection(worker.ready.places))
        return usable and worker.serves(need)

    def _room(self, need: WorkerNeed, gpu_class: GpuClass | None) -> int:
        if gpu_class is not None and need.gpus > (gpu_class.max_gpu_count_per_worker or need.gpus):
            return 0
        return self._placement.free_workers(gpu_class, need.gpus, need.cpus)

    def _take_warm(self, need: WorkerNeed) -> Worker | Ahead | None:
        """Take a warm worker, or one that is being started ahead."""
        found = self._take_idle(need)
        if found is not None or need.gpu_class is not None:
            return found
        with self._changed:
            ahead = next((ahead for ahead in self._ahead if ahead.worker.serves(need)), None)
            if ahead is not None:
                self._ahead.discard(ahead)
            return ahead or self._take_idle_of(need)

    def _run_ahead(self, ahead: Ahead, on_over: Callable[[], None]) -> None:
        """Start a worker, for whoever waits for it, or else to stand idle."""
        ahead.run(self._placement, self._closing.is_set)
        with self._changed:
            self._starting.discard(threading.current_thread())
            unasked, closing = ahead in self._ahead, self._closing.is_set()
            self._ahead.discard(ahead)
            if ahead.error is None and closing:
                ahead.error = Cancelled("the pool of workers was closed")
            elif ahead.error is None:
                self._leased.add(ahead.worker)
            if not unasked:
                ahead.over()
        if closing:
            ahead.worker.end(grace_seconds=0)
        elif unasked and ahead.error is None:
            self._take_back(ahead.worker, False)
        if unasked:  # it is over when it stands idle
            ahead.over()
        on_over()

    def _lease_ahead(self, ahead: Ahead, need: WorkerNeed, listener: Listener, cancelled: threading.Event) -> Lease:
        try:
            ahead.wait(listener, cancelled)
        except Cancelled:
            with self._changed:
                if not ahead.is_over:
                    self._ahead.add(ahead)
            if ahead.is_over and ahead.error is None:
                self._take_back(ahead.worker, False)
            raise
        ahead.worker.assign(need)
        return Lease(ahead.worker, self._take_back, warm=False)

    def _take_idle(self, need: WorkerNeed) -> Worker | None:
        """Take a warm worker of the need's own class, or, where that has no room, of a backup."""
        found = self._take_idle_of(need)
        if found is not None or not need.backups or self._room(need, need.gpu_class):
            return found
        return next(filter(None, (self._take_idle_of(need.on(one)) for one in need.backups)), None)

    def _take_idle_of(self, need: WorkerNeed) -> Worker | None:
        with self._changed:
            for worker in reversed(self._idle):
                if self._serves(worker, need):
                    del self._idle[worker]
                    self._leased.add(worker)
                    return worker
        return None

    def _take_back(self, worker: Worker, broken: bool) -> None:
        with self._changed:
            mine = worker in self._leased  # False once the pool is closed
            self._leased.discard(worker)
            idle_seconds = self._idle_seconds_of(worker)
            keep = mine and not (broken or worker.lost or worker.wanted) and idle_seconds > 0
            if keep:
                worker.idle()
                self._idle[worker] = time.monotonic() + idle_seconds
                if self._keeper is None:
                    self._keeper = threading.Thread(target=self._keep, name="worker-pool", daemon=True)
                    self._keeper.start()
                self._changed.notify_all()
        if not keep:
            worker.end(grace_seconds=0 if broken else CLOSE_GRACE_SECONDS)

    def _idle_seconds_of(self, worker: Worker) -> float:
        gpu_class = worker.gpu_class
        own = None if gpu_class is None else gpu_class.worker_idle_seconds
        return self._idle_seconds if own is None else own

    def _wake_keeper(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _keep(self) -> None:
        """End idle workers when their time is over, when others want them, or when they are lost."""
        while True:
            with self._changed:
                now = time.monotonic()
                over = [worker for worker, until in self._idle.items() if until <= now or worker.wanted or worker.lost]
                for worker in over:
                    del self._idle[worker]
                if not over and not self._idle:
                    self._keeper = None
                    return
                if not over:
                    self._changed.wait(min(min(self._idle.values()) - now, threading.TIMEOUT_MAX))
            for worker in over:
                worker.end()


def _classes(need: WorkerNeed) -> tuple[GpuClass | None, ...]:
    return (need.gpu_class, *need.backups)
