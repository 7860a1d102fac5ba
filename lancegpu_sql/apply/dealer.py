"""Which worker gets which call next, and when a worker has had its last. Its caller has the lock."""

from __future__ import annotations

import time

from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.intake import Intake
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.parts import PartPlan
from lancegpu_sql.apply.queue import CallQueue
from lancegpu_sql.apply.sizing import PaceMeter, call_rows, calls_ahead


class Dealer:
    """Deals the calls out: those to be done again first, then new ones, cut to what was measured.

    Parameters
    ----------
    intake
        The rows that have no call yet.
    queue
        The calls under way.
    options
        The bounds.

    Attributes
    ----------
    hands
        The workers that take calls.
    """

    def __init__(self, intake: Intake, queue: CallQueue, options: ApplyOptions) -> None:
        self._intake = intake
        self._queue = queue
        self._options = options
        self._parts = PartPlan(options.part_target_seconds, options.max_part_rows)
        self._meter = PaceMeter()
        self.hands: list[Hand] = []

    def join(self, hand: Hand) -> None:
        """A worker takes calls from now on."""
        self.hands.append(hand)
        if hand.rows_per_second_before is not None:
            self._meter.expect(hand.rows_per_second_before)

    def pick(self, hand: Hand) -> Call | None:
        """Take the call that a worker should get now; None where it has enough, or where rows must be read first."""
        if not self._has_credit(hand):
            return None
        if self._queue.some_again:
            call = self._queue.take_again(time.monotonic(), lambda call: self._suits(call, hand))
            if call is not None:
                return call
        if self._queue.failed_at is not None or not self._may_cut():
            return None
        return self._cut(hand)

    def needs_rows(self, hand: Hand) -> bool:
        """Whether a worker would get a call if more of the input were read."""
        reads = self._queue.failed_at is None and not self._intake.exhausted
        return reads and self._has_credit(hand) and self._may_cut()

    def finished_for(self, hand: Hand) -> bool:
        """Whether a worker can go: one stays until all is done, for the calls of those that are lost."""
        if hand.stays:
            return self.all_done()
        return self._nothing_left() and not (
            self._queue.failed_at is not None and any(map(self._queue.needed, hand.calls.values()))
        )

    def all_done(self) -> bool:
        """Whether no call is needed any more, nor will be."""
        if not self._nothing_left():
            return False
        return not self._queue.open_calls or (self._queue.failed_at is not None and not self._queue.any_needed())

    # What was measured.

    def note_end(self, call: Call) -> None:
        """A call of a part came to an end, whichever: the next part may be sized."""
        self._parts.measured(call.part)

    def note_pace(self, call: Call, seconds: float, result_bytes: int) -> None:
        """A call was computed: the next ones are sized by it."""
        self._meter.note(call.rows.rows, seconds, result_bytes)

    def spread_what_fits(self, hand: Hand) -> None:
        """Let the other workers of a class profit from what one has learnt of its memory."""
        if hand.fits_rows is None:
            return
        for other in self.hands:
            if other.gpu_class == hand.gpu_class and (other.fits_rows is None or other.fits_rows > hand.fits_rows):
                other.fits_rows = hand.fits_rows

    @property
    def probed(self) -> bool:
        """Whether the probe is over: a first part is computed and there is more to do."""
        return self._parts.past_probe and self._meter.pace is not None and not self._intake.over

    def seconds_for(self, rows: int) -> float | None:
        """Return how long the present workers need for so many rows; None as long as nothing is measured."""
        rows_per_second = self._rows_per_second()
        return None if rows_per_second is None else rows / rows_per_second

    # Decisions.

    def _suits(self, call: Call, hand: Hand) -> bool:
        """Whether a call may go to a worker: not to a device on which it failed, where there is another."""
        if not call.failed_on & hand.places:
            return True
        return not any(other.places and not call.failed_on & other.places for other in self.hands if not other.lost)

    def _has_credit(self, hand: Hand) -> bool:
        if not hand.calls:
            return True
        if self._queue.suspect_first or any(call.suspect for call in hand.calls.values()):
            return False
        ahead = calls_ahead(self._meter.pace, hand.at_once, self._options)
        return len(hand.calls) < ahead and hand.argument_bytes < self._options.in_flight_bytes

    def _may_cut(self) -> bool:
        if self._queue and self._queue.weight_bytes >= self._options.outstanding_bytes:
            return False
        if self._meter.pace is None and self._queue:
            return False
        return self._parts.may_go_on

    def _cut(self, hand: Hand) -> Call | None:
        if not self._intake.rows:
            return None
        pace = self._meter.pace
        part_left = self._parts.rows_left(self._rows_per_second())
        wanted = min(call_rows(pace, self._intake.row_bytes(), self._options), part_left)
        if hand.fits_rows is not None:
            wanted = min(wanted, hand.fits_rows)
        piece = self._intake.cut(wanted, self._options.call_target_bytes)
        if piece is None:
            return None
        result_bytes = int(pace.result_bytes_per_row * piece.rows) if pace else 0
        part, closes_part = self._parts.index, self._parts.take(piece.rows)
        return self._queue.add(part, piece, closes_part=closes_part, result_bytes=result_bytes)

    def _rows_per_second(self) -> float | None:
        """What all workers together do."""
        pace = self._meter.pace
        return None if pace is None else pace.rows_per_second * max(1, len(self.hands))

    def _nothing_left(self) -> bool:
        over = self._queue.failed_at is not None or self._intake.over
        return over and not self._queue.some_again
