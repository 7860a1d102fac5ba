"""The slots of one `apply`: one from the start, more when they pay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from lancegpu_sql.apply.board import Board
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.sizing import ENOUGH_QUEUED_SECONDS, another_worker_pays
from lancegpu_sql.apply.slot import STOP_SECONDS, Slot
from lancegpu_sql.apply.watch import OneAtATime
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.workers.ahead import Ahead
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.pool import WorkerPool

_GROW_SECONDS = 0.25
"""How often another worker is thought of."""

_WARM_SECONDS = 0.02
"""How often while one stands ready with the Function loaded, which costs next to nothing."""

_PAUSE_SECONDS = 10.0
"""How long none is thought of after one that was asked for in vain: what was said of room did not hold, or it cannot run."""


class Fleet:
    """The workers of one `apply`, each in its slot."""

    def __init__(
        self,
        board: Board,
        need: WorkerNeed,
        pool: WorkerPool,
        options: ApplyOptions,
        watch: OneAtATime,
        rows_left: Callable[[], int | None],
    ) -> None:
        self._board = board
        self._need = need
        self._pool = pool
        self._options = options
        self._watch = watch
        self._rows_left = rows_left
        self._growing = threading.Lock()
        self._next_thought_at = 0.0
        self._slots = [self._slot(need, stays=True)]
        self._spares: list[Ahead] = []

    def start(self) -> None:
        """Begin with one worker."""
        self._slots[0].start()

    @property
    def starting(self) -> bool:
        """Whether no worker has come yet."""
        return all(slot.starting for slot in self._slots)

    def look(self, now: float) -> None:
        """Look for calls over their time and for silent workers."""
        for slot in tuple(self._slots):
            slot.look(now)

    def interrupt(self) -> None:
        """Stop waiting for workers."""
        with self._growing:
            slots = tuple(self._slots)
        for slot in slots:
            slot.interrupt()

    def stop(self) -> None:
        """Give every worker back; those that do not finish in time are killed."""
        with self._growing:
            self._board.stop()
            slots = tuple(self._slots)
        for slot in slots:
            slot.interrupt()
        until = time.monotonic() + STOP_SECONDS
        for slot in slots:
            slot.end(until)

    def _grow_where_rows_wait(self) -> None:
        """Before there is any result the pace of earlier work tells how long rows would wait. Called after each call sent."""
        if self._board.queued_seconds() >= ENOUGH_QUEUED_SECONDS:
            self._grow()

    def _grow(self) -> None:
        """Add a worker if it pays. Called after each result, and where rows wait."""
        now = time.monotonic()
        if not self._board.measured or now < self._next_thought_at:
            return
        if not self._growing.acquire(blocking=False):
            return
        try:
            if self._board.stopped:
                return
            in_vain = self._drop_ended()
            pause = _WARM_SECONDS if self._pool.warm_workers(self._need) else _GROW_SECONDS
            self._next_thought_at = now + (_PAUSE_SECONDS if in_vain else pause)
            need = None if in_vain else self._need_with_room()
            if need is not None and self._pays(need) and not self._starts_spare(need):
                slot = self._slot(need, stays=False)
                self._slots.append(slot)
                slot.start()
        finally:
            self._growing.release()

    def _drop_ended(self) -> bool:
        """Forget workers that serve no more, or not yet; return whether one was asked for in vain."""
        in_vain = any(slot.in_vain for slot in self._slots if not slot.alive)
        self._slots = [slot for slot in self._slots if slot.alive]
        for spare in [spare for spare in self._spares if spare.is_over]:
            self._spares.remove(spare)
            if spare.error is not None:
                in_vain = True
                if not isinstance(spare.error, Cancelled):
                    self._watch.event("worker_not_added", str(spare.error))
        return in_vain

    def _starts_spare(self, need: WorkerNeed) -> bool:
        """Start a worker that stays where this work is over before it serves: only devices are given back for others.

        False where it is to be leased instead.
        """
        if need.gpu_class is not None or self._pool.warm_workers(need):
            return False
        spare = self._pool.start_spare(_behind_others(need), self._on_spare)
        if spare is not None:
            self._spares.append(spare)
        return spare is not None

    def _on_spare(self) -> None:
        with self._growing:
            self._next_thought_at = 0.0
        self._grow()

    def _need_with_room(self) -> WorkerNeed | None:
        """Return the need on the first class that has room, which alone is asked: others must not give way for a hint."""
        limit = self._options.max_workers
        if limit is not None and len(self._slots) + len(self._spares) >= limit:
            return None
        # One that is being started may not be counted yet.
        starting = sum(slot.starting for slot in self._slots) + len(self._spares)
        needs = (self._need.on(one) for one in (self._need.gpu_class, *self._need.backups))
        return next((need for need in needs if self._pool.free_workers(need) > starting), None)

    def _pays(self, need: WorkerNeed) -> bool:
        busy_share, computing_seconds = self._board.busyness()
        computed_before = max(slot.computed_before_seconds for slot in self._slots)
        rows_left = self._rows_left()
        return another_worker_pays(
            busy_share=busy_share,
            queued_seconds=self._board.queued_seconds(),
            computing_seconds=computing_seconds,
            computed_before_seconds=0.0 if need.gpu_class else computed_before,
            starting_seconds=max(slot.starting_seconds for slot in self._slots),
            warm=self._pool.warm_workers(need) > 0,
            left_seconds=None if rows_left is None else self._board.seconds_for(rows_left),
        )

    def _slot(self, need: WorkerNeed, *, stays: bool) -> Slot:
        need = need if stays else _behind_others(need)
        own = None if self._need.gpu_class is None else self._need.gpu_class.name
        return Slot(
            self._board,
            need,
            self._pool,
            self._options,
            self._watch,
            own_class=own,
            stays=stays,
            on_sent=self._grow_where_rows_wait,
            on_result=self._grow,
        )


def _behind_others(need: WorkerNeed) -> WorkerNeed:
    """What a job would have beyond its first worker it asks for behind all who have none."""
    return replace(need, since=None)
