"""How many rows the next part has: a probe first, then growing to what takes about the target time."""

from __future__ import annotations

import sys

PROBE_ROWS = 10
"""Enough to see that a Function works at all, and little to lose if it does not."""

GROWTH = 16
"""At most this many times the rows of the part before: one lucky measurement must not commit hours."""


def next_part_rows(
    previous_rows: int | None, rows_per_second: float | None, *, target_seconds: float, max_rows: int
) -> int:
    """Return the rows of the part after one of `previous_rows`.

    Parameters
    ----------
    previous_rows
        Of the part before; None for the first.
    rows_per_second
        What all workers together were last measured to do; None where nothing was measured yet.
    target_seconds
        How long a part should take.
    max_rows
        The most rows of a part.
    """
    if previous_rows is None or rows_per_second is None:
        return min(PROBE_ROWS, max_rows)
    return max(1, min(int(rows_per_second * target_seconds), previous_rows * GROWTH, max_rows))


class PartPlan:
    """Where one part ends and the next begins.

    A part that may be much larger than the one before waits until a call of that one is measured. Without `max_rows` there
    is one part, which does not end.
    """

    def __init__(self, target_seconds: float, max_rows: int | None) -> None:
        self._target_seconds = target_seconds
        self._max_rows = max_rows
        self._rows: int | None = None
        self._left = 0
        self._measured = False
        self.index = -1

    @property
    def may_go_on(self) -> bool:
        """Whether the next row has a part, or one can be sized for it."""
        if self._left > 0 or self._measured or self._rows is None:
            return True
        return self._max_rows is None or self._rows >= self._max_rows

    @property
    def past_probe(self) -> bool:
        """Whether the part that is a probe is over, where there is one."""
        return self.index > 0 or self._max_rows is None

    def rows_left(self, rows_per_second: float | None) -> int:
        """Return how many rows the part still takes, beginning a new one if the last is full."""
        if self._max_rows is None:
            self.index = 0
            return sys.maxsize
        if self._left == 0:
            self._rows = self._left = next_part_rows(
                self._rows, rows_per_second, target_seconds=self._target_seconds, max_rows=self._max_rows
            )
            self._measured = False
            self.index += 1
        return self._left

    def take(self, rows: int) -> bool:
        """Put rows into the part; return whether they close it."""
        if self._max_rows is None:
            return False
        self._left -= rows
        return self._left == 0

    def measured(self, index: int) -> None:
        """A call of the part `index` is done."""
        if index == self.index:
            self._measured = True
