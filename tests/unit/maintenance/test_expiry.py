"""Which versions, files and checkpoints go, and for whom others are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.maintenance.expiry import plan_checkpoints, plan_files, plan_versions
from lancegpu_sql.maintenance.facts import Checkpoints, TableFacts
from lancegpu_sql.maintenance.steps import Wanted
from lancegpu_sql.tables.upkeep import Removed, VersionRecord

NOW = datetime(2030, 1, 31, tzinfo=UTC)
DAY = 86_400.0
WEEK = Wanted(keep_seconds=7 * DAY, checkpoint_seconds=30 * DAY)
ALL = Wanted(keep_seconds=0.0, checkpoint_seconds=30 * DAY)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def table(*days: float, **facts: object) -> TableFacts:
    """A table whose versions 1, 2, … were committed so many days ago."""
    versions = tuple(VersionRecord(number, ago(one)) for number, one in enumerate(days, start=1))
    return TableFacts("t", len(days), (), True, versions, **facts)  # type: ignore[arg-type]


def going(facts: TableFacts, wanted: Wanted = WEEK) -> list[int]:
    return list(plan_versions(facts, wanted, NOW)[0])


def kept(facts: TableFacts, wanted: Wanted = WEEK) -> dict[str, str]:
    return {step.what: step.reason for step in plan_versions(facts, wanted, NOW)[1] if step.action == "keep versions"}


def test_a_version_is_as_old_as_the_next_one():
    assert going(table(90, 8, 6, 1)) == [1]


def test_the_latest_version_stays_however_old_it_is():
    assert going(table(90, 80), ALL) == [1]


def test_all_stay_where_that_is_asked_for():
    assert going(table(90, 80, 70), Wanted(keep_seconds=None, checkpoint_seconds=DAY)) == []


def test_what_somebody_holds_stays_and_it_is_told_for_whom():
    facts = table(90, 80, 70, held={2: ("tag 'gold'", "view 'v', which was made of it")})
    assert (going(facts), kept(facts)) == ([1], {"version 2": "for tag 'gold' and view 'v', which was made of it"})


def test_versions_stay_that_a_running_job_may_have_opened():
    facts = table(30, 20, 12, 9, busy_since=((ago(15), "job 1"),))
    assert (going(facts), kept(facts)) == ([1], {"versions 2-3": "for job 1"})


def test_versions_stay_on_which_a_write_under_way_may_be_based():
    facts = table(90, 80, 70, 60, used_from=2)
    assert (going(facts), list(kept(facts))) == ([1], ["versions 2-3"])


def test_where_nobody_knows_who_writes_all_stay_for_a_while():
    facts = table(90, 0.03, 0.01, users_known=False)
    assert going(facts, ALL) == []
    assert going(table(90, 0.1, 0.01, users_known=False), ALL) == [1]


def test_the_next_version_to_go_says_when_to_look_again():
    assert plan_versions(table(90, 8, 6, 1), WEEK, NOW)[2] == ago(6) + timedelta(days=7)
    assert plan_versions(table(90), WEEK, NOW)[2] is None


def test_left_over_files_go_when_nobody_can_be_writing_them():
    facts = table(1, left_over=Removed(0, 3, 300), writing_since=((ago(1), "job 1"),))
    assert plan_files(facts, WEEK, NOW)[0] == "old"


def test_a_job_that_has_been_writing_for_a_week_keeps_files_and_versions():
    facts = table(90, 80, left_over=Removed(0, 3, 300), writing_since=((ago(6.5), "job 1"),))
    assert (plan_files(facts, WEEK, NOW)[0], going(facts)) == ("none", [])
    assert "job 1" in kept(facts)["version 1"]


@pytest.mark.parametrize(("writers", "files"), [((), "all"), (((ago(1), "job 1"),), "none")])
def test_young_files_go_where_that_is_asked_for_and_no_job_writes(writers: object, files: str):
    facts = table(1, under_way=Removed(0, 3, 300), writing_since=writers)
    asked = Wanted(keep_seconds=0.0, checkpoint_seconds=DAY, unfinished_files=True)
    assert plan_files(facts, asked, NOW)[0] == files
    assert plan_files(facts, ALL, NOW)[0] == "none"


def checkpoints(state: JobState | None, days: float, *, forced: bool = False, in_use: bool = False) -> Checkpoints:
    return Checkpoints(Path("x"), "1", state, forced, ago(days), 10, "lock", in_use)


@pytest.mark.parametrize(
    ("found", "expired"),
    [
        (checkpoints(JobState.FAILED, 29), False),
        (checkpoints(JobState.FAILED, 31), True),
        (checkpoints(None, 29), False),
        (checkpoints(None, 31), True),
        (checkpoints(None, 31, in_use=True), False),
        (checkpoints(None, 1, forced=True), True),
        (checkpoints(JobState.CANCELLED, 1, forced=True), False),
        *((checkpoints(state, 365), False) for state in JobState if not state.ended),
    ],
)
def test_checkpoints_go_when_nobody_will_use_them(found: Checkpoints, expired: bool):
    assert bool(plan_checkpoints([found], WEEK, NOW)[0]) == expired
