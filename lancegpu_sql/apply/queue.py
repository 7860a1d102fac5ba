"""Calls that are under way: their order, those to be done again, and how each ends. Its caller has the lock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa

from lancegpu_sql.apply.batches import InputBatch, RowFailure
from lancegpu_sql.apply.hand import Call
from lancegpu_sql.errors import LanceGpuError

CALL_BYTES = 4096
"""What a call weighs beside its data, so that very small ones are bounded as well."""


class CallQueue:
    """The calls between the input and the caller, in the order of the input.

    Attributes
    ----------
    weight_bytes
        What they hold together.
    open_calls
        How many of them have no end yet.
    failed_at
        The first row of the first call that failed; nothing behind it is needed.
    closed
        Whether no call is needed any more.
    """

    def __init__(self) -> None:
        self._order: deque[Call] = deque()
        self._again: list[Call] = []
        self._later: list[tuple[float, Call]] = []
        self._next_id = 0
        self._next_start = 0
        self.weight_bytes = 0
        self.open_calls = 0
        self.failed_at: int | None = None
        self.closed = False

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def first(self) -> Call | None:
        """The call whose rows are next for the caller."""
        return self._order[0] if self._order else None

    @property
    def some_again(self) -> bool:
        """Whether a call waits to be done again, now or later."""
        return bool(self._again or self._later)

    @property
    def suspect_first(self) -> bool:
        """Whether the next call to be done again is a suspect."""
        return bool(self._again) and self._again[0].suspect

    def any_needed(self) -> bool:
        """Whether any call's result will still be looked at."""
        return any(map(self.needed, self._order))

    def needed(self, call: Call) -> bool:
        """Whether a call's result will still be looked at: after a failed one, those before it are."""
        return not (call.done or self.closed) and (self.failed_at is None or call.start < self.failed_at)

    def add(self, part: int, rows: InputBatch, *, closes_part: bool, result_bytes: int) -> Call:
        """Make a call of rows that come behind all others."""
        argument_bytes = rows.arguments.nbytes
        call = Call(
            id=self._new_id(),
            start=self._next_start,
            part=part,
            rows=rows,
            closes_part=closes_part,
            argument_bytes=argument_bytes,
            weight_bytes=argument_bytes + rows.tag.nbytes + result_bytes + CALL_BYTES,
        )
        self._next_start += rows.rows
        self._order.append(call)
        self.open_calls += 1
        self.weight_bytes += call.weight_bytes
        return call

    def pop(self) -> Call:
        """Take the first call off."""
        call = self._order.popleft()
        self.weight_bytes -= call.weight_bytes
        return call

    # Done again.

    def again(self, call: Call, due_at: float = 0.0) -> None:
        """Let a call be done again, by a clock's time `due_at` at the earliest."""
        call.begun_at = None
        if due_at:
            heapq.heappush(self._later, (due_at, call))
        else:
            heapq.heappush(self._again, call)

    def take_again(self, now: float, suits: Callable[[Call], bool]) -> Call | None:
        """Take the first call that is due to be done again and suits; those that nobody needs any more are dropped."""
        while self._later and self._later[0][0] <= now:
            heapq.heappush(self._again, heapq.heappop(self._later)[1])
        self._drop_unneeded()
        found = min(filter(suits, self._again), default=None)
        if found is not None:
            self._again.remove(found)
            heapq.heapify(self._again)
        return found

    def seconds_to_next(self, now: float) -> float | None:
        """Return how long until a call is due that waits for its time; None where none does."""
        return max(0.0, self._later[0][0] - now) if self._later else None

    def split(self, call: Call, sizes: Sequence[int]) -> list[Call]:
        """Put pieces in the place of a call, which nobody holds any more."""
        pieces: list[Call] = []
        offset = 0
        for rows in sizes:
            pieces.append(call.piece(self._new_id(), offset, rows))
            offset += rows
        pieces[-1].closes_part = call.closes_part
        at = self._order.index(call)
        del self._order[at]
        for piece in reversed(pieces):
            self._order.insert(at, piece)
        self.open_calls += len(pieces) - 1
        self.weight_bytes += sum(piece.weight_bytes for piece in pieces) - call.weight_bytes
        return pieces

    # Ended.

    def keep(self, call: Call, values: pa.Array, failed: RowFailure | None = None) -> None:
        """A call has its values, or, for a row that failed, none."""
        call.values, call.failed = values, failed
        self.open_calls -= 1
        # The arguments are let go now; what waits for its turn is the tag and the values.
        weight_bytes = call.rows.tag.nbytes + values.nbytes + CALL_BYTES
        self.weight_bytes += weight_bytes - call.weight_bytes
        call.weight_bytes = weight_bytes
        rows = call.rows
        call.rows = InputBatch(rows.arguments.slice(0, 0), rows.row_ids.slice(0, 0), rows.tag, rows.of_table)

    def fail(self, call: Call, error: LanceGpuError) -> None:
        """A call fails the work, unless it was given up already."""
        if not call.done:
            call.error = error
            self.open_calls -= 1
            self.failed_at = call.start if self.failed_at is None else min(call.start, self.failed_at)
            self._later = [(due_at, one) for due_at, one in self._later if self.needed(one)]
            heapq.heapify(self._later)
            self._drop_unneeded()

    def _drop_unneeded(self) -> None:
        self._again = [call for call in self._again if self.needed(call)]
        heapq.heapify(self._again)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
