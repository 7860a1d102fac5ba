"""The board: what is under way, and who has it. The one place with a lock.

Slots take calls from it and put results back; the caller takes finished ones off its front. It pulls the input itself,
in the thread of whichever slot has room for a call, so that nothing is read ahead of what fits. `queue` has the calls,
`intake` the rows that have none yet; `dealer` decides who gets which call, and `setbacks` what becomes of those that fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa

from lancegpu_sql.apply.batches import InputBatch
from lancegpu_sql.apply.dealer import Dealer
from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.intake import Intake
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.queue import CallQueue
from lancegpu_sql.apply.setbacks import News, Setbacks
from lancegpu_sql.apply.sizing import BusyMeter
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.placement.request import Lost
from lancegpu_sql.workers.calls import CallResult, FunctionLoad


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
        self._intake = Intake(inputs)
        self._load = load
        self._changed = threading.Condition()
        self._queue = CallQueue()
        self._setbacks = Setbacks(self._queue, load, options)
        self._dealer = Dealer(self._intake, self._queue, options)
        self._busy = BusyMeter()
        self._error: BaseException | None = None
        self._stopped = False
        self._draining = False

    # What slots do.

    def join(self, hand: Hand) -> None:
        """A worker is there."""
        with self._changed:
            self._dealer.join(hand)
            self._busy.forget()

    def leave(self, hand: Hand) -> None:
        """A worker takes no more calls; those it holds stay its own until they are done or handed back."""
        with self._changed:
            self._dealer.hands.remove(hand)
            self._changed.notify_all()

    def next_call(self, hand: Hand) -> Call | None:
        """Return the next call for a worker, waiting for room and rows; None when it should take no more."""
        asked = time.monotonic()
        without_rows = 0.0
        with self._changed:
            while not (self._stopped or self._draining or hand.lost or hand.leaving):
                call = self._dealer.pick(hand)
                if call is not None:
                    self._give(hand, call, asked, without_rows)
                    return call
                if self._error is None and self._dealer.needs_rows(hand):
                    began = time.monotonic()
                    if self._intake.pulling:
                        self._changed.wait()
                    else:
                        self._intake.reader = hand
                        self._pull()
                        self._intake.reader = None
                    without_rows += time.monotonic() - began
                elif self._error is not None or self._dealer.finished_for(hand):
                    return None
                else:
                    self._changed.wait(self._queue.seconds_to_next(time.monotonic()))
        return None

    def complete(self, hand: Hand, result: CallResult) -> int:
        """Put a worker's result back, and return its rows."""
        with self._changed:
            call = hand.calls.pop(result.call_id)
            call.over_time = False  # it came in the last moment
            rows = call.rows.rows
            now = hand.heard_at = time.monotonic()
            hand.running(now)
            hand.calls_done += 1
            hand.argument_bytes -= call.argument_bytes
            hand.computing_seconds += result.seconds
            self._busy.note(now, result.seconds)
            if not hand.calls:
                hand.empty_since = now
            if call.done:  # it was given up in the meantime
                pass
            elif result.failure is not None:
                self._setbacks.failed(call, hand, result.failure)
                self._dealer.note_end(call)
                self._dealer.spread_what_fits(hand)
            else:
                assert result.values is not None
                self._note_values(call, hand, result.values, result.seconds)
            self._changed.notify_all()
        return rows

    def time_out(self, hand: Hand, limit_seconds: float, now: float) -> bool:
        """Give up a worker's calls that are over their time; return whether there are any, so that it is to be ended."""
        with self._changed:
            over = [
                call
                for call in hand.running(now)
                if call.begun_at is not None
                and now - call.begun_at > limit_seconds
                and not (call.done or call.over_time)
            ]
            for call in over:
                call.over_time = True
                self._setbacks.timed_out(call, limit_seconds)
            self._changed.notify_all()
        return bool(over)

    def owed(self, hand: Hand) -> bool:
        """Whether a worker holds calls that are still needed."""
        with self._changed:
            return any(map(self._queue.needed, hand.calls.values()))

    def hand_back(self, hand: Hand, why: Lost, *, blamed: bool = True) -> None:
        """Put a lost worker's calls back for another; those that it computed are `blamed`."""
        with self._changed:
            running = hand.running(time.monotonic())
            held, hand.calls = tuple(hand.calls.values()), {}
            # Where it was ended for a call's time, no other call is to blame.
            blamed = blamed and not any(call.over_time for call in held)
            hand.argument_bytes = 0
            for call in held:
                call.begun_at, call.suspect = None, True
                if not self._queue.needed(call):
                    continue
                if call.over_time:
                    self._setbacks.cut_up(call)
                elif blamed and call in running:
                    self._setbacks.lost(call, hand, why)
                else:
                    self._queue.again(call)
            self._dealer.spread_what_fits(hand)
            self._changed.notify_all()

    def mark_lost(self, hand: Hand) -> None:
        """A worker's stream has broken: give it nothing more."""
        with self._changed:
            hand.lost = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Nothing more can come: the caller will meet `error` where it would have to wait."""
        with self._changed:
            if not self._draining:
                self._error = self._error or error
            self._changed.notify_all()

    # What the caller does.

    def next_done(self, timeout_seconds: float) -> Call | None:
        """Take the first call off the board if it is done within the time; None otherwise.

        Raises whatever made the work impossible.
        """
        with self._changed:
            if not self._first_is_done:
                if self._error is not None:
                    raise self._error
                if not self.finished:
                    self._changed.wait(timeout_seconds)
            if not self._first_is_done:
                return None
            call = self._queue.pop()
            call.closes_part = call.closes_part or self.finished
            self._changed.notify_all()
            return call

    @property
    def _first_is_done(self) -> bool:
        first = self._queue.first
        return first is not None and first.done

    @property
    def finished(self) -> bool:
        """Whether the input is over and everything has been taken off."""
        with self._changed:  # rows that leave the cutter are not yet in the order for a moment
            return self._intake.over and self._error is None and not self._queue

    def stop(self) -> None:
        """Give out no more calls."""
        with self._changed:
            self._stopped = self._queue.closed = True
            self._changed.notify_all()

    def drain(self) -> None:
        """Give out no more calls, but take the results of those that workers compute."""
        with self._changed:
            self._draining = self._queue.closed = True
            # The input, too, has heard that the work is to end.
            if isinstance(self._error, Cancelled):
                self._error = None
            self._changed.notify_all()

    @property
    def drained(self) -> bool:
        """Whether no worker computes any more."""
        with self._changed:
            return not any(hand.calls and not hand.lost for hand in self._dealer.hands)

    @property
    def has_news(self) -> bool:
        """Whether something is worth keeping; looked at after each result."""
        return bool(self._setbacks.news)

    def take_news(self) -> list[News]:
        """Return what is worth keeping, each once."""
        with self._changed:
            news, self._setbacks.news = self._setbacks.news, []
            return news

    # Looked at from outside.

    @property
    def stopped(self) -> bool:
        """Whether the caller wants no more results."""
        return self._stopped

    def reads(self, hand: Hand | None) -> bool:
        """Whether a worker's slot is busy reading the input."""
        return hand is not None and self._intake.reader is hand

    @property
    def cut_short(self) -> bool:
        """Whether calls that a worker still holds may be dropped."""
        return self._stopped or self._draining or self._queue.failed_at is not None or self._error is not None

    @property
    def over(self) -> bool:
        """Whether no slot is needed any more."""
        with self._changed:
            return self._stopped or self._draining or self._error is not None or self._dealer.all_done()

    @property
    def avoided_places(self) -> frozenset[str]:
        """Where no further worker should be started: its device failed."""
        with self._changed:
            return self._setbacks.avoided

    def busyness(self) -> tuple[float, float]:
        """Return the share of the last seconds in which the workers computed, and how long they did from the start."""
        with self._changed:
            return self._busy.share(time.monotonic(), len(self._dealer.hands)), self._busy.seconds

    def seconds_for(self, rows: int) -> float | None:
        """Return how long the present workers need for so many rows; None as long as nothing is measured."""
        with self._changed:
            return self._dealer.seconds_for(rows)

    def queued_seconds(self) -> float:
        """Return how long the present workers need for the rows that were read and have no call yet."""
        with self._changed:
            return self._dealer.seconds_for(self._intake.rows) or 0.0

    @property
    def measured(self) -> bool:
        """Whether the probe is over: a first part is computed and there is more to do."""
        return self._dealer.probed

    # With the lock held.

    def _pull(self) -> None:
        error = self._intake.pull(self._changed)
        if error is not None and not self._draining:
            self._error = self._error or error

    def _give(self, hand: Hand, call: Call, asked: float, without_rows: float) -> None:
        now = time.monotonic()
        if hand.empty_since is not None:
            hand.waiting_for_rows_seconds += min(without_rows, now - max(asked, hand.empty_since))
            hand.empty_since = None
            hand.heard_at = now
        hand.calls[call.id] = call
        hand.argument_bytes += call.argument_bytes
        hand.running(now)

    def _note_values(self, call: Call, hand: Hand, values: pa.Array, seconds: float) -> None:
        self._dealer.note_pace(call, seconds, values.nbytes)
        hand.rows_done += call.rows.rows
        self._dealer.note_end(call)
        if call.failed_on:
            self._setbacks.computed(call, hand)
        call.seconds = seconds
        self._queue.keep(call, values)
