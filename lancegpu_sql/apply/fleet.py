"""The slots of one `apply`: one from the start, more when they pay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from lancegpu_sql.apply.board import Board
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.sizing import another_worker_pays
from lancegpu_sql.apply.slot import STOP_SECONDS, Slot
from lancegpu_sql.apply.watch import OneAtATime
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.pool import WorkerPool

_GROW_SECONDS = 0.25
"""How often another worker is thought of."""


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
        self._thought_at = 0.0
        self._slots = [self._slot(stays=True)]

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

    def _grow(self) -> None:
        """Add a worker if it pays. Called after each result."""
        now = time.monotonic()
        if not self._board.measured or now - self._thought_at < _GROW_SECONDS:
            return
        if not self._growing.acquire(blocking=False):
            return
        try:
            self._thought_at = now
            self._slots = [slot for slot in self._slots if slot.alive]
            if self._pays() and self._room():
                slot = self._slot(stays=False)
                self._slots.append(slot)
                slot.start()
        finally:
            self._growing.release()

    def _room(self) -> bool:
        if self._board.stopped:
            return False
        limit = self._options.max_workers
        if limit is not None and len(self._slots) >= limit:
            return False
        # One that is being started may not be counted yet.
        return self._pool.free_workers(self._need) > sum(slot.starting for slot in self._slots)

    def _pays(self) -> bool:
        busy_share, computing_seconds = self._board.busyness()
        rows_left = self._rows_left()
        return another_worker_pays(
            busy_share=busy_share,
            computing_seconds=computing_seconds,
            starting_seconds=max(slot.starting_seconds for slot in self._slots),
            warm=self._pool.warm_workers(self._need) > 0,
            left_seconds=None if rows_left is None else self._board.seconds_for(rows_left),
        )

    def _slot(self, *, stays: bool) -> Slot:
        # What a job would have beyond its first worker it asks for behind all who have none.
        need = self._need if stays else replace(self._need, since=None)
        return Slot(self._board, need, self._pool, self._options, self._watch, stays=stays, on_result=self._grow)
