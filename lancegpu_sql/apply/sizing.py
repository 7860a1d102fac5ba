"""How many rows one call has, how many calls a worker gets ahead, and when another worker is worth its start."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from lancegpu_sql.apply.options import ApplyOptions

MAX_CALL_ROWS = 65_536
"""From there on larger calls gain nothing; with one call in flight more, smaller ones lose little."""

CALL_TARGET_SECONDS = 1.0
"""Of a slow Function: progress is told and a cancellation seen about this often."""

GROWTH = 16
"""At most this many times the rows of the largest call measured so far."""

SLOW_CALL_SECONDS = 0.25
"""From there on one call ahead hides the way to the worker; more would only wait in the wrong queue."""

BUSY_SHARE = 0.6
"""Workers that compute less than this share of the time wait for rows: another one would wait as well."""

ENOUGH_QUEUED_SECONDS = 0.005
"""Of work that waits: a worker that stands ready has its first call in less."""

_BEFORE_SHARE = 0.9
"""Of what shows that work goes on, at most this much may have been computed before: a query now and then needs no more."""

_RECENT_CALLS = 3
_BUSY_CALLS = 8


@dataclass(frozen=True)
class Pace:
    """What the calls so far have shown.

    `rows_per_second` and `seconds_per_call` are one worker's, over its last few calls.
    """

    rows_per_second: float
    seconds_per_call: float
    result_bytes_per_row: float
    largest_rows: int


class PaceMeter:
    """Measures the pace from call to call."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque(maxlen=_RECENT_CALLS)
        self._result_bytes_per_row = 0.0
        self._largest_rows = 0
        self.pace: Pace | None = None

    def expect(self, rows_per_second: float) -> None:
        """Go by what was measured in earlier work until something is measured in this: its rows may be larger."""
        if self.pace is None:
            self.pace = Pace(rows_per_second, GROWTH / rows_per_second, result_bytes_per_row=0.0, largest_rows=GROWTH)

    def note(self, rows: int, seconds: float, result_bytes: int) -> None:
        """Take one finished call into account."""
        self._recent.append((rows, seconds))
        self._largest_rows = max(self._largest_rows, rows)
        self._result_bytes_per_row = result_bytes / rows if rows else 0.0
        all_rows = sum(rows for rows, _ in self._recent)
        all_seconds = max(sum(seconds for _, seconds in self._recent), 1e-6)
        self.pace = Pace(
            rows_per_second=all_rows / all_seconds,
            seconds_per_call=all_seconds / len(self._recent),
            result_bytes_per_row=self._result_bytes_per_row,
            largest_rows=self._largest_rows,
        )


class BusyMeter:
    """Measures how much of the time the workers compute, over the last calls."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=_BUSY_CALLS)
        self.seconds = 0.0

    def note(self, now: float, seconds: float) -> None:
        """Take one finished call into account."""
        self._recent.append((now, seconds))
        self.seconds += seconds

    def forget(self) -> None:
        """Begin anew: the number of workers has changed."""
        self._recent.clear()

    def share(self, now: float, workers: int) -> float:
        """Return the share of the time since the first of the last calls began; 0 while there are few."""
        if len(self._recent) < _BUSY_CALLS // 2 and self.seconds < CALL_TARGET_SECONDS:
            return 0.0
        if not self._recent or not workers:
            return 0.0
        begun = min(ended - seconds for ended, seconds in self._recent)
        return sum(seconds for _, seconds in self._recent) / (max(now - begun, 1e-6) * workers)


def call_rows(pace: Pace | None, row_bytes: float, options: ApplyOptions) -> int:
    """Return how many rows the next call should have; one, while nothing is known.

    Parameters
    ----------
    pace
        What was measured.
    row_bytes
        Of the arguments of one row, on average.
    options
        For `batch_size` and `call_target_bytes`.
    """
    if pace is None:
        return 1
    heaviest = max(row_bytes, pace.result_bytes_per_row, 1e-3)
    bounds = (
        MAX_CALL_ROWS,
        options.batch_size or MAX_CALL_ROWS,
        pace.largest_rows * GROWTH,
        pace.rows_per_second * CALL_TARGET_SECONDS,
        options.call_target_bytes / heaviest,
    )
    return max(1, int(min(bounds)))


def calls_ahead(pace: Pace | None, at_once: int, options: ApplyOptions) -> int:
    """Return how many calls may be on their way to one worker, those it computes included.

    Parameters
    ----------
    pace
        What was measured.
    at_once
        How many calls the worker computes at a time.
    options
        For `in_flight_calls`, which a worker that computes many at a time exceeds by one.
    """
    if pace is None:
        return 1
    if pace.seconds_per_call >= SLOW_CALL_SECONDS:
        return at_once + 1
    return max(at_once + 1, options.in_flight_calls)


def another_worker_pays(
    *,
    busy_share: float,
    computing_seconds: float,
    starting_seconds: float,
    warm: bool,
    queued_seconds: float = 0.0,
    computed_before_seconds: float = 0.0,
    left_seconds: float | None = None,
) -> bool:
    """Whether one more worker would pay for its start.

    At most so much work is left as there are rows; how many of them need computing is not known. What has gone on for some
    time will, as likely as not, go on for as long again: so a worker is started once the others have computed for twice
    what starting one costs, and a warm one at once. Work that comes in pieces gets it sooner, for what was
    computed before counts for most of that, and more pieces than the present one are likely to come.

    Parameters
    ----------
    busy_share
        The share of the time in which the workers computed.
    computing_seconds
        What they computed together so far.
    starting_seconds
        What starting one took, once there was room for it.
    warm
        Whether one stands ready with the Function loaded.
    queued_seconds
        How long the present workers need for what is read and given to none of them.
    computed_before_seconds
        What one of them computed in earlier work, where that counts: cores stand idle otherwise, devices are taken from
        others.
    left_seconds
        How long the present workers need at most for what is left; None where that is not known.
    """
    if warm and queued_seconds >= ENOUGH_QUEUED_SECONDS:
        return True
    if busy_share < BUSY_SHARE:
        return False
    if warm:
        return True
    alone = computed_before_seconds == 0
    done_before_it_serves = alone and left_seconds is not None and left_seconds <= starting_seconds
    enough_seconds = max(1.0, 2 * starting_seconds)
    goes_on = computing_seconds + min(computed_before_seconds, enough_seconds * _BEFORE_SHARE) >= enough_seconds
    return goes_on and not done_before_it_serves
