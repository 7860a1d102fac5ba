"""Progress in words."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from lancegpu_sql.catalog.models import JobRecord, JobState, Progress, WaitingOn
from lancegpu_sql.jobs import words

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(state: JobState = JobState.RUNNING, **fields: object) -> JobRecord:
    return JobRecord(
        id="0193", kind="refresh_column", table="reviews", columns=("score",), state=state, created_at=NOW
    ).model_copy(update=fields)


def test_a_job_is_named_by_table_and_columns() -> None:
    assert words.title(job()) == "reviews.score"
    assert words.title(job(columns=("label", "kind", "score"))) == "reviews.label +2"


def test_a_job_without_a_table_is_named_by_its_kind() -> None:
    assert words.title(job(kind="create_function", table=None)) == "create function"


def test_rows_rate_and_time_left_stand_in_one_line() -> None:
    progress = Progress(
        phase="computing",
        rows_planned=20_000,
        rows_computed=1_000,
        rows_reused=234,
        rows_per_second=1234.5,
        seconds_left=200,
    )
    told = "reviews.score: computing 1,234 of 20,000 rows, 1,234 rows/s, 3 min 20 s left"
    assert words.line(job(progress=progress), NOW) == told


def test_what_is_not_known_is_not_said() -> None:
    assert words.line(job(progress=Progress(phase="computing", rows_planned=5)), NOW) == (
        "reviews.score: computing 0 of 5 rows"
    )
    assert words.line(job(progress=Progress(phase="computing")), NOW) == "reviews.score: computing"


def test_a_waiting_job_says_for_what_and_how_long() -> None:
    waiting_on = WaitingOn(gpu_class="l4", since=NOW - timedelta(seconds=75), reason="in_use", message="all taken")
    told = "reviews.score: waiting (1 min 15 s): all taken"
    assert words.line(job(JobState.WAITING, waiting_on=waiting_on), NOW) == told


def test_the_end_says_what_was_done_and_how_long_it_took() -> None:
    progress = Progress(rows_planned=13, rows_computed=10, rows_reused=2, rows_failed=1)
    ended = job(JobState.FINISHED, progress=progress, started_at=NOW, finished_at=NOW + timedelta(seconds=1.25))
    assert words.final_line(ended) == "reviews.score: finished, 10 rows computed, 2 reused, 1 failed in 1.2 s"


def test_one_row_is_no_rows() -> None:
    progress = Progress(phase="computing", rows_planned=1, rows_computed=1)
    assert words.final_line(job(JobState.FINISHED, progress=progress)) == "reviews.score: finished, 1 row computed"
    assert words.line(job(progress=progress), NOW) == "reviews.score: computing 1 of 1 row"


def test_the_end_tells_how_much_of_the_time_was_waiting() -> None:
    ended = job(
        JobState.FINISHED,
        progress=Progress(rows_planned=10, rows_computed=10),
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=20),
        timings={"phases": {"waiting": 12.1, "computing": 7.9}, "workers": {}},
    )
    assert words.final_line(ended) == "reviews.score: finished, 10 rows computed in 20 s, 12 s of them waiting"


def test_a_failure_is_named() -> None:
    failed = job(JobState.FAILED, error={"type": "RowFailed", "message": "…", "facts": {}})
    assert words.final_line(failed) == "reviews.score: failed (RowFailed)"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0.0 s"), (0.44, "0.4 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (7500, "2 h 5 min")],
)
def test_durations_are_said_as_people_do(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


WAITING = WaitingOn(gpu_class="a100", since=NOW, reason="no_room", message="all 2 devices are in use")


def test_of_a_job_each_turn_is_news_once() -> None:
    running, waiting = job(), job(JobState.WAITING, waiting_on=WAITING)
    turns = [None, running, running, waiting, waiting, running, job(JobState.FINISHED), job(JobState.FINISHED)]
    assert [words.news(before, now) for before, now in itertools.pairwise(turns)] == [
        "Job 0193: reviews.score begins",
        None,
        "Job 0193: reviews.score waits: all 2 devices are in use",
        None,
        "Job 0193: reviews.score goes on",
        "Job 0193: reviews.score: finished",
        None,
    ]


def test_that_a_job_is_paused_is_news() -> None:
    assert words.news(job(), job(JobState.PAUSED)) == "Job 0193: reviews.score is paused"


def test_a_job_that_ends_between_two_looks_is_told_with_what_is_wrong() -> None:
    failed = job(JobState.FAILED, error={"type": "UserCodeError", "message": "no such model"})
    assert words.news(None, failed) == "Job 0193: reviews.score: failed (UserCodeError): no such model"
