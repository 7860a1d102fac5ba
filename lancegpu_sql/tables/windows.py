"""Reading a large table in bounded memory: runs of rows small enough for Lance to hold as a whole.

Lance decodes far ahead of its reader: 10,000 rows of 100 kB, read in batches of 4 MB, took 3 GB. What it is asked for at
once must therefore be bounded, not only the size of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_BYTES = 64 << 20
"""What one window should hold: enough to be read at full speed, and a tenth of the memory that a refresh may take."""

FIRST_ROWS = 1024
GROWTH = 16
"""Until the size of rows is known, a window has at most this many times the rows of the one before."""


@dataclass(frozen=True)
class Window:
    """Rows `offset` to `offset + rows` of these fragments' live rows."""

    fragment_ids: tuple[int, ...]
    offset: int
    rows: int


class Windows:
    """Cuts the live rows of fragments, in their order, into windows; the size of rows is learned on the way.

    Parameters
    ----------
    fragments
        Pairs of fragment id and live rows.
    """

    def __init__(self, fragments: Sequence[tuple[int, int]]) -> None:
        self._fragments = [(fragment_id, rows) for fragment_id, rows in fragments if rows]
        self._at = 0
        self._offset = 0
        self._rows = FIRST_ROWS

    def next(self) -> Window | None:
        """Return the next window, or None at the end."""
        if self._at == len(self._fragments):
            return None
        first, offset, wanted = self._at, self._offset, self._rows
        taken = 0
        while self._at < len(self._fragments) and taken < wanted:
            left = self._fragments[self._at][1] - self._offset
            step = min(left, wanted - taken)
            taken += step
            self._offset += step
            if step == left:
                self._at, self._offset = self._at + 1, 0
        last = self._at + (1 if self._offset else 0)
        return Window(tuple(fragment_id for fragment_id, _ in self._fragments[first:last]), offset, taken)

    def learn(self, rows: int, size_bytes: int) -> None:
        """Take the size of a window that was read into account for the next one."""
        if rows:
            fitting = max(1, WINDOW_BYTES * rows // max(1, size_bytes))
            self._rows = min(fitting, self._rows * GROWTH)
