"""How many rows the next part has: a probe first, then growing to what takes about the target time."""

from __future__ import annotations

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


def needs_measure(previous_rows: int, max_rows: int) -> bool:
    """Whether the part before must be measured first, because the next one may be so much larger."""
    return previous_rows < max_rows
