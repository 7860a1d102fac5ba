"""The board: every call between the input and the caller, in order, and who has it. The one place with a lock.

Slots take calls from it and put results back; the caller takes finished ones off its front. It pulls the input itself,
in the thread of whichever slot has room for a call, so that nothing is read ahead of what fits.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from lancegpu_sql.apply.batches import Cutter, InputBatch
from lancegpu_sql.apply.failures import call_error, call_timeout, worker_lost
from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.parts import PartPlan
from lancegpu_sql.apply.sizing import BusyMeter, PaceMeter, call_rows, calls_ahead
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.placement.request import Lost
from lancegpu_sql.workers.calls import CallResult, FunctionLoad

_CALL_BYTES = 4096
"""What a call weighs beside its data, so that very small ones are bounded as well."""


class Board:
    """What is under way in one `apply`.

    Parameters
    ----------
    inputs
        The rows, pulled by one thread at a time.
    load
        The Function, for messages.
    options
        The bounds.
    """

    def __init__(self, inputs: Iterator[InputBatch], load: FunctionLoad, options: ApplyOptions) -> None:
        self._inputs = inputs
        self._load = load
        self._options = options
        self._changed = threading.Condition()
        self._cutter = Cutter()
        self._order: deque[Call] = deque()
        self._again: list[Call] = []
        self._hands: list[Hand] = []
        self._weight_bytes = 0
        self._next_id = 0
        self._parts = PartPlan(options.part_target_seconds, options.max_part_rows)
        self._meter = PaceMeter()
        self._pulling = False
        self._reader: Hand | None = None
        self._exhausted = False
        self._more_comes = True
        self._open_calls = 0
        self._busy = BusyMeter()
        self._failed_id: int | None = None
        self._error: BaseException | None = None
        self._stopped = False

    # What slots do.

    def join(self, hand: Hand) -> None:
        """A worker is there."""
        with self._changed:
            self._hands.append(hand)
            self._busy.forget()

    def leave(self, hand: Hand) -> None:
        """A worker takes no more calls; those it holds stay its own until they are done or handed back."""
        with self._changed:
            self._hands.remove(hand)
            self._changed.notify_all()

    def next_call(self, hand: Hand) -> Call | None:
        """Return the next call for a worker, waiting for room and rows; None when it should take no more."""
        asked = time.monotonic()
        without_rows = 0.0
        with self._changed:
            while not (self._stopped or hand.lost or hand.leaving):
                call = self._pick(hand)
                if call is not None:
                    self._give(hand, call, asked, without_rows)
                    return call
                if self._needs_rows(hand):
                    began = time.monotonic()
                    if self._pulling:
                        self._changed.wait()
                    else:
                        self._reader = hand
                        self._pull()
                        self._reader = None
                    without_rows += time.monotonic() - began
                elif self._finished_for(hand):
                    return None
                else:
                    self._changed.wait()
        return None

    def complete(self, hand: Hand, result: CallResult) -> int:
        """Put a worker's result back, and return its rows."""
        with self._changed:
            call = hand.calls.pop(result.call_id)
            rows = call.rows.rows
            now = hand.heard_at = time.monotonic()
            hand.running(now)
            hand.calls_done += 1
            hand.argument_bytes -= call.argument_bytes
            hand.computing_seconds += result.seconds
            self._busy.note(now, result.seconds)
            if not hand.calls:
                hand.empty_since = now
            if result.failure is not None:
                self._fail_call(call, call_error(self._load, call.rows, result.failure))
            elif not call.done:  # it may have been given up in the meantime
                assert result.values is not None
                self._note_values(call, result.values, result.seconds)
            self._changed.notify_all()
        return rows

    def time_out(self, hand: Hand, limit_seconds: float, now: float) -> bool:
        """Give up a worker's calls that are over their time; return whether there are any."""
        with self._changed:
            over = [
                call
                for call in hand.running(now)
                if call.begun_at is not None and now - call.begun_at > limit_seconds and not call.done
            ]
            for call in over:
                self._fail_call(call, call_timeout(self._load, call.rows, limit_seconds))
            self._changed.notify_all()
        return bool(over)

    def owed(self, hand: Hand) -> bool:
        """Whether a worker holds calls that are still needed."""
        with self._changed:
            return any(map(self._needed, hand.calls.values()))

    def hand_back(self, hand: Hand, why: Lost, *, blamed: bool = True) -> None:
        """Put a lost worker's calls back for another; those that it computed are `blamed`."""
        with self._changed:
            for call in hand.running(time.monotonic()):
                call.losses += blamed
            for call in hand.calls.values():
                call.begun_at, call.suspect = None, True
                if call.losses > self._options.max_worker_losses:
                    self._fail_call(call, worker_lost(self._load, call.rows, call.losses, why))
                elif self._needed(call):
                    heapq.heappush(self._again, call)
            hand.calls.clear()
            hand.argument_bytes = 0
            self._changed.notify_all()

    def mark_lost(self, hand: Hand) -> None:
        """A worker's stream has broken: give it nothing more."""
        with self._changed:
            hand.lost = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Nothing more can come: the caller will meet `error` where it would have to wait."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    # What the caller does.

    def next_done(self, timeout_seconds: float) -> Call | None:
        """Take the first call off the board if it is done within the time; None otherwise.

        Raises whatever made the work impossible.
        """
        with self._changed:
            if not (self._order and self._order[0].done):
                if self._error is not None:
                    raise self._error
                if not self.finished:
                    self._changed.wait(timeout_seconds)
            if not (self._order and self._order[0].done):
                return None
            call = self._order.popleft()
            self._weight_bytes -= call.weight_bytes
            call.closes_part = call.closes_part or self.finished
            self._changed.notify_all()
            return call

    @property
    def finished(self) -> bool:
        """Whether the input is over and everything has been taken off."""
        with self._changed:  # rows that leave the cutter are not yet in the order for a moment
            return self._exhausted and self._error is None and not self._cutter.rows and not self._order

    def stop(self) -> None:
        """Give out no more calls."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # Looked at from outside.

    @property
    def stopped(self) -> bool:
        """Whether the caller wants no more results."""
        return self._stopped

    def reads(self, hand: Hand | None) -> bool:
        """Whether a worker's slot is busy reading the input."""
        return hand is not None and self._reader is hand

    @property
    def cut_short(self) -> bool:
        """Whether calls that a worker still holds may be dropped."""
        return self._stopped or self._failed_id is not None or self._error is not None

    @property
    def over(self) -> bool:
        """Whether no slot is needed any more."""
        with self._changed:
            return self._stopped or self._error is not None or self._all_done()

    def busyness(self) -> tuple[float, float]:
        """Return the share of the last seconds in which the workers computed, and how long they did from the start."""
        with self._changed:
            return self._busy.share(time.monotonic(), len(self._hands)), self._busy.seconds

    def seconds_for(self, rows: int) -> float | None:
        """Return how long the present workers need for so many rows; None as long as nothing is measured."""
        with self._changed:
            pace = self._meter.pace
            return None if pace is None else rows / (pace.rows_per_second * max(1, len(self._hands)))

    @property
    def measured(self) -> bool:
        """Whether the probe is over: a first part is computed and there is more to do."""
        return (
            self._parts.index > 0 and self._meter.pace is not None and not (self._exhausted and not self._cutter.rows)
        )

    # Decisions, with the lock held.

    def _pick(self, hand: Hand) -> Call | None:
        if not self._has_credit(hand):
            return None
        while self._again:
            call = heapq.heappop(self._again)
            if self._needed(call):
                return call
        if self._failed_id is not None or not self._may_cut():
            return None
        return self._cut()

    def _has_credit(self, hand: Hand) -> bool:
        if not hand.calls:
            return True
        if self._again or any(call.suspect for call in hand.calls.values()):
            return False
        return len(hand.calls) < self._calls_ahead(hand) and hand.argument_bytes < self._options.in_flight_bytes

    def _calls_ahead(self, hand: Hand) -> int:
        return calls_ahead(self._meter.pace, hand.at_once, self._options)

    def _may_cut(self) -> bool:
        if self._order and self._weight_bytes >= self._options.outstanding_bytes:
            return False
        if self._meter.pace is None and self._order:
            return False
        return self._parts.may_go_on

    def _cut(self) -> Call | None:
        if not self._cutter.rows:
            return None
        pace = self._meter.pace
        part_left = self._parts.rows_left(pace.rows_per_second * max(1, len(self._hands)) if pace else None)
        wanted = min(call_rows(pace, self._cutter.row_bytes(), self._options), part_left)
        piece = self._cutter.cut(wanted, self._options.call_target_bytes, more_comes=self._more_comes)
        if piece is None:
            return None
        argument_bytes = piece.arguments.nbytes
        result_bytes = int(pace.result_bytes_per_row * piece.rows) if pace else 0
        call = Call(
            id=self._next_id,
            part=self._parts.index,
            rows=piece,
            closes_part=self._parts.take(piece.rows),
            argument_bytes=argument_bytes,
            weight_bytes=argument_bytes + piece.tag.nbytes + result_bytes + _CALL_BYTES,
        )
        self._next_id += 1
        self._order.append(call)
        self._open_calls += 1
        self._weight_bytes += call.weight_bytes
        return call

    def _needs_rows(self, hand: Hand) -> bool:
        reads = self._failed_id is None and not (self._exhausted or self._error)
        return reads and self._has_credit(hand) and self._may_cut()

    def _finished_for(self, hand: Hand) -> bool:
        """Whether a worker can go: one stays until all is done, for the calls of those that are lost."""
        if self._error is not None:
            return True
        if hand.stays:
            return self._all_done()
        return self._nothing_left() and not (
            self._failed_id is not None and any(map(self._needed, hand.calls.values()))
        )

    def _needed(self, call: Call) -> bool:
        """Whether a call's result will still be looked at: after a failed one, those before it are."""
        return not (call.done or self._stopped) and (self._failed_id is None or call.id < self._failed_id)

    def _nothing_left(self) -> bool:
        over = self._failed_id is not None or (self._exhausted and not self._cutter.rows)
        return over and not self._again

    def _all_done(self) -> bool:
        if not self._nothing_left():
            return False
        return not self._open_calls or (self._failed_id is not None and not any(map(self._needed, self._order)))

    def _pull(self) -> None:
        """Read one batch, with the lock let go: reading may take long."""
        batch: InputBatch | None = None
        error: BaseException | None = None
        self._pulling = True
        self._changed.release()
        try:
            batch = next(self._inputs, None)
        except BaseException as exc:
            error = exc
        self._changed.acquire()
        self._pulling = False
        self._changed.notify_all()
        if error is not None:
            self._error = self._error or error
        elif batch is None:
            self._exhausted, self._more_comes = True, False
        else:
            self._more_comes = batch.rows > 0
            self._cutter.add(batch)

    def _give(self, hand: Hand, call: Call, asked: float, without_rows: float) -> None:
        now = time.monotonic()
        if hand.empty_since is not None:
            hand.waiting_for_rows_seconds += min(without_rows, now - max(asked, hand.empty_since))
            hand.empty_since = None
            hand.heard_at = now
        hand.calls[call.id] = call
        hand.argument_bytes += call.argument_bytes
        hand.running(now)

    def _note_values(self, call: Call, values: pa.Array, seconds: float) -> None:
        result_bytes = values.nbytes
        self._meter.note(call.rows.rows, seconds, result_bytes)
        self._parts.measured(call.part)
        call.values = values
        self._open_calls -= 1
        # The arguments are let go now; what waits for its turn is the tag and the values.
        weight_bytes = call.rows.tag.nbytes + result_bytes + _CALL_BYTES
        self._weight_bytes += weight_bytes - call.weight_bytes
        call.weight_bytes = weight_bytes
        rows = call.rows
        call.rows = InputBatch(rows.arguments.slice(0, 0), rows.row_ids.slice(0, 0), rows.tag, rows.of_table)

    def _fail_call(self, call: Call, error: LanceGpuError) -> None:
        if not call.done:
            call.error = error
            self._open_calls -= 1
            self._failed_id = call.id if self._failed_id is None else min(call.id, self._failed_id)
