"""How a schedule stands, by what is known of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lancegpu_sql.catalog.models import JobState, WaitingOn
from lancegpu_sql.catalog.schedule_models import ScheduledJob, ScheduleRecord, column_subject
from lancegpu_sql.jobs.schedules.rule import read
from lancegpu_sql.jobs.schedules.status import ScheduleState, ScheduleStatus, status_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON, BEFORE = NOW + timedelta(minutes=1), NOW - timedelta(minutes=1)
WAITS = WaitingOn(gpu_class="a100", since=BEFORE, reason="no_room", message="no room in a100")


def status(
    text: str = "every 10 minutes",
    state: JobState | None = None,
    *,
    has_news: bool = True,
    served: bool = True,
    waiting_on: WaitingOn | None = None,
    **known: Any,
) -> ScheduleStatus:
    about = {"job_id": None if state is None else "j", "created_at": NOW, "table": "docs", "columns": ("vec",)}
    schedule = ScheduleRecord(
        subject="column docs.vec", job_kind="refresh_column", rule=read(text), **(about | {"next_run": SOON} | known)
    )
    return status_of(ScheduledJob(schedule, state, waiting_on), NOW, has_news=has_news, served=served)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, "waiting_interval"),
        ({"has_news": False}, "up_to_date"),
        ({"next_run": BEFORE}, "queued"),
        ({"state": JobState.QUEUED}, "queued"),
        ({"state": JobState.RUNNING, "next_run": BEFORE}, "running"),
        ({"state": JobState.PAUSED}, "blocked"),
        ({"enabled": False, "state": JobState.RUNNING}, "disabled"),
        ({"streak": 2, "last_error": {"type": "RowFailed", "message": "no"}}, "backing_off"),
        ({"streak": 2, "last_error": {"type": "ColumnNotFound", "message": "no"}}, "blocked"),
        ({"streak": 2, "state": JobState.RUNNING}, "running"),
        ({"text": "on change", "next_run": None, "has_news": False}, "up_to_date"),
        ({"text": "on change", "next_run": SOON, "has_news": False}, "waiting_interval"),
        ({"text": "on change", "next_run": None}, "waiting_interval"),
    ],
)
def test_a_schedule_stands_as_it_and_its_job_do(known: dict[str, Any], state: str):
    assert status(**known).state == state


def test_a_schedule_whose_job_waits_says_for_what():
    assert status(state=JobState.WAITING, waiting_on=WAITS) == ScheduleStatus(ScheduleState.WAITING, "no room in a100")


@pytest.mark.parametrize(
    "known", [{"next_run": BEFORE}, {"state": JobState.QUEUED}, {"text": "on change", "next_run": None}]
)
def test_what_is_due_where_no_agent_serves_is_blocked_and_says_what_to_start(known: dict[str, Any]):
    found = status(served=False, **known)
    assert (found.state, "lancegpu agent" in str(found.reason)) == (ScheduleState.BLOCKED, True)


def test_a_schedule_that_fails_tells_why():
    assert status(streak=1, last_error={"type": "RowFailed", "message": "row 7"}).reason == "row 7"


def test_names_that_could_be_mistaken_stand_in_quotes():
    assert column_subject("docs", "vec") == "column docs.vec"
    assert column_subject("a", "b.c") == 'column a."b.c"'
    assert column_subject("a.b", "c") == 'column "a.b".c'
