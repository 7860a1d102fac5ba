"""Rows per second and time left: known or None, never a guess."""

from __future__ import annotations

import pytest

from lancegpu_sql.jobs.pace import WINDOW_SECONDS, Pace, seconds_left


def paced(*samples: tuple[float, int]) -> Pace:
    pace = Pace()
    for at_seconds, rows in samples:
        pace.observe(at_seconds, rows)
    return pace


@pytest.mark.parametrize("samples", [[], [(0.0, 10)], [(0.0, 10), (0.0, 20)], [(0.0, 10), (5.0, 10)]])
def test_a_rate_needs_time_and_rows(samples: list[tuple[float, int]]) -> None:
    assert paced(*samples).rows_per_second() is None


def test_a_rate_is_rows_over_time() -> None:
    assert paced((0.0, 0), (2.0, 100), (4.0, 400)).rows_per_second() == 100.0


def test_a_rate_forgets_what_was_long_ago() -> None:
    slow = [(float(second), second) for second in range(100)]
    fast = [(100.0 + second, 100 + 1000 * second) for second in range(int(WINDOW_SECONDS) + 2)]
    assert paced(*slow, *fast).rows_per_second() == pytest.approx(1000, rel=0.05)


def test_many_reports_in_a_moment_keep_the_rate_and_the_memory_small() -> None:
    pace = paced(*((step / 10_000, step) for step in range(100_000)))
    assert pace.rows_per_second() == pytest.approx(10_000, rel=0.01)
    assert len(pace._samples) < 200


def test_time_spent_waiting_does_not_slow_the_rate() -> None:
    pace = paced((0.0, 0), (1.0, 100))
    pace.interrupt()
    assert pace.rows_per_second() is None
    pace.observe(1000.0, 100)
    pace.observe(1001.0, 200)
    assert pace.rows_per_second() == 100.0


@pytest.mark.parametrize(
    ("planned", "done", "rate", "left"),
    [
        (None, 10, 5.0, None),
        (100, 10, None, None),
        (100, 10, 0.0, None),
        (100, 10, 9.0, 10.0),
        (100, 100, None, 0.0),
        (100, 120, 5.0, 0.0),
    ],
)
def test_time_left_is_known_when_rows_and_rate_are(
    planned: int | None, done: int, rate: float | None, left: float | None
) -> None:
    assert seconds_left(planned, done, rate) == left
