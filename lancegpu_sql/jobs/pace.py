"""How fast a job is and how long it will take: pure arithmetic over (time, rows) pairs."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0
"""Rows come in bursts, a call at a time; over a minute the bursts even out, and a slower worker still shows."""

_SAMPLES = 120


class Pace:
    """Rows per second over the last minute of work. Time spent waiting is not work: call `interrupt` there."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def observe(self, at_seconds: float, rows: int) -> None:
        """Note that so many rows were computed in all at a time (of a clock that only goes forward)."""
        samples = self._samples
        while len(samples) > 1 and samples[0][0] < at_seconds - WINDOW_SECONDS:
            samples.popleft()
        # Samples closer together than this say nothing new: the last one moves instead, and memory stays bounded.
        if len(samples) > 1 and at_seconds - samples[-2][0] < WINDOW_SECONDS / _SAMPLES:
            samples.pop()
        samples.append((at_seconds, rows))

    def interrupt(self) -> None:
        """Forget the samples: what comes next is not measured against what was before a wait."""
        self._samples.clear()

    def rows_per_second(self) -> float | None:
        """Return the rate, None while it is not known."""
        if len(self._samples) < 2:
            return None
        (first_at, first_rows), (last_at, last_rows) = self._samples[0], self._samples[-1]
        if last_at <= first_at or last_rows <= first_rows:
            return None
        return (last_rows - first_rows) / (last_at - first_at)


def seconds_left(rows_planned: int | None, rows_done: int, rows_per_second: float | None) -> float | None:
    """Return the time that the remaining rows take at that rate, None where one of the two is not known."""
    if rows_planned is None:
        return None
    if rows_done >= rows_planned:
        return 0.0
    return None if not rows_per_second else (rows_planned - rows_done) / rows_per_second
