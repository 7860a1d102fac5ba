"""When schedules are due: arithmetic over times, in the words that people write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.catalog.schedule_models import ScheduleRule
from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.jobs.schedules.rule import back_off_seconds, cron, first_run, jitter_offset, next_run, read, told

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=2000)).map(lambda span: NOON + span)


def times(text: str, after: datetime, count: int, subject: str = "column t.c") -> list[datetime]:
    """The next times that a schedule is due."""
    rule, found = read(text), [after]
    for _ in range(count):
        following = next_run(rule, subject, anchor=NOON, after=found[-1])
        assert following is not None
        found.append(following)
    return found[1:]


def utc(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("every 10 minutes", ScheduleRule(kind="interval", every_seconds=600)),
        ("EVERY hour", ScheduleRule(kind="interval", every_seconds=3600)),
        ("every 1 hour 30 minutes", ScheduleRule(kind="interval", every_seconds=5400)),
        ("every 90s jitter 30 seconds", ScheduleRule(kind="interval", every_seconds=90, jitter_seconds=30)),
        ("cron */5 * * * *", ScheduleRule(kind="cron", cron="*/5 * * * *")),
        ("cron 0  3 * * MON Europe/Paris", ScheduleRule(kind="cron", cron="0 3 * * MON", time_zone="Europe/Paris")),
        ("On  Change", ScheduleRule(kind="on_change")),
    ],
)
def test_a_schedule_is_read_from_words_and_told_in_such(text: str, rule: ScheduleRule):
    assert read(text) == rule
    assert read(told(rule)) == rule


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no schedule; write 'every 10 minutes'"),
        ("daily", "is no schedule"),
        ("every", "is no schedule"),
        ("every month", "a month has no fixed length"),
        ("every ten minutes", "no span of time"),
        ("every 0 seconds", "out of range"),
        ("every 11 years", "no fixed length"),
        ("every 5000 days", "out of range"),
        ("cron * * * *", "is no schedule"),
        ("cron 60 * * * *", "cannot be read: bad minute"),
        ("cron 0 0 31 4 *", "cannot be read: bad day-of-month"),
        ("cron 0 0 * * * Europe/Pari", "no time zone 'Europe/Pari'"),
        ("cron 0 0 * * * ../etc/passwd", "no time zone"),
        ("cron 0 0 * * * * UTC", "more than the 5 fields"),
        ("every minute jitter 2 minutes", "longer than the interval"),
        ("on change jitter 1 minute", "is no schedule"),
    ],
)
def test_what_is_no_schedule_is_refused_with_what_to_write(text: str, why: str):
    with pytest.raises(InvalidInput, match=why):
        read(text)


def test_an_interval_is_due_at_once_and_then_by_its_own_clock():
    rule = read("every 10 minutes")
    assert first_run(rule, "s", NOON) == NOON
    assert times("every 10 minutes", NOON + timedelta(seconds=1), 2) == [
        utc(2026, 3, 1, 12, 10),
        utc(2026, 3, 1, 12, 20),
    ]


def test_a_cron_expression_is_first_due_at_its_next_time():
    assert first_run(read("cron 0 * * * *"), "s", NOON) == utc(2026, 3, 1, 13)


@pytest.mark.parametrize("text", ["every 7 minutes", "cron */7 * * * *", "every 7 minutes jitter 100 seconds"])
def test_what_was_missed_is_passed_over(text: str):
    later = NOON + timedelta(days=30, seconds=1)
    (due,) = times(text, later, 1)
    assert later < due <= later + timedelta(minutes=7)


def test_in_the_hour_that_is_left_out_in_spring_a_fixed_time_is_due_as_soon_as_that_hour_is_over():
    assert times("cron 30 2 * * * Europe/Paris", utc(2026, 3, 28, 2), 2) == [
        utc(2026, 3, 29, 1),
        utc(2026, 3, 30, 0, 30),
    ]


def test_in_the_hour_that_comes_twice_in_autumn_a_fixed_time_is_due_once():
    assert times("cron 30 2 * * * Europe/Paris", utc(2026, 10, 24, 12), 2) == [
        utc(2026, 10, 25, 0, 30),
        utc(2026, 10, 26, 1, 30),
    ]


def test_between_the_two_hours_of_autumn_nothing_is_due_that_has_been():
    assert times("cron 30 2 * * * Europe/Paris", utc(2026, 10, 25, 1, 10), 1) == [utc(2026, 10, 26, 1, 30)]


@pytest.mark.parametrize("day", [utc(2026, 3, 28, 22), utc(2026, 10, 24, 22)])
def test_what_follows_the_clock_is_due_every_hour_over_both_changes(day: datetime):
    due = times("cron 30 * * * * Europe/Paris", day, 8)
    assert {later - earlier for earlier, later in pairwise(due)} == {timedelta(hours=1)}


def test_an_interval_knows_no_daylight_saving():
    due = times("every 1 hour", utc(2026, 3, 28, 22), 6)
    assert {later - earlier for earlier, later in pairwise(due)} == {timedelta(hours=1)}


def test_jitter_is_the_same_for_one_subject_always_and_another_one_for_others():
    rule = read("every hour jitter 10 minutes")
    offsets = [jitter_offset(rule, f"column t.{number}") for number in range(100)]
    assert offsets == [jitter_offset(rule, f"column t.{number}") for number in range(100)]
    assert all(timedelta(0) <= offset < timedelta(minutes=10) for offset in offsets)
    assert len(set(offsets)) == 100


def test_jitter_moves_what_a_cron_expression_says():
    rule = read("cron 0 * * * * jitter 10 minutes")
    first, second = times("cron 0 * * * * jitter 10 minutes", NOON, 2, "column t.7")
    assert (first - jitter_offset(rule, "column t.7")).minute == 0
    assert second - first == timedelta(hours=1)


@given(
    MOMENTS,
    st.sampled_from(
        [
            "every 7 minutes",
            "every 1 day jitter 1 hour",
            "cron 30 2 * * * Europe/Paris",
            "cron */5 1-3 * * 0 America/New_York",
        ]
    ),
)
def test_what_is_due_next_lies_ahead_and_is_the_first_that_does(after: datetime, text: str):
    rule = read(text)
    due = next_run(rule, "s", anchor=NOON, after=after)
    assert due is not None
    assert due > after
    assert next_run(rule, "s", anchor=NOON, after=due - timedelta(microseconds=1)) == due


def test_failures_wait_ten_seconds_doubling_to_an_hour():
    assert [back_off_seconds(streak) for streak in (1, 2, 3, 9, 10, 10_000)] == [10, 20, 40, 2560, 3600, 3600]


def test_on_change_has_no_times():
    assert first_run(read("on change"), "s", NOON) is None


def test_a_time_zone_without_a_name_is_none():
    with pytest.raises(InvalidInput, match="no time zone ''"):
        cron("0 0 * * *", "")
