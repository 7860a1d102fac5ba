"""When agents look after tables by themselves, and that one of them does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from lancegpu_sql.catalog.models import job_made_at
from lancegpu_sql.maintenance.automatic import MANY_VERSIONS, is_due, job_id_for, look_again_at
from lancegpu_sql.maintenance.left_over import LeftOver, Stray, plan_left_over
from lancegpu_sql.maintenance.plan import TablePlan
from lancegpu_sql.maintenance.steps import Wanted, numbered, spell
from lancegpu_sql.tables.upkeep import VersionRecord

NOW = datetime(2030, 1, 31, 12, 34, tzinfo=UTC)
DAY = 86_400.0


def plan(**parts: object) -> TablePlan:
    empty = {"groups": (), "versions": (), "files": "none", "checkpoints": (), "told": ()}
    return TablePlan("t", 9, **(empty | parts))  # type: ignore[arg-type]


def records(count: int, days: float) -> list[VersionRecord]:
    return [VersionRecord(number, NOW - timedelta(days=days)) for number in range(1, count + 1)]


def due(chosen: TablePlan, days: float = 7.5) -> bool:
    return is_due(chosen, records(99, days), 7 * DAY, NOW)


def test_nothing_to_do_is_no_job():
    assert not due(plan())


@pytest.mark.parametrize("part", [{"groups": ((1, 2),)}, {"files": "old"}, {"checkpoints": ("x",)}])
def test_fragments_files_and_checkpoints_are_worth_a_job(part: dict[str, object]):
    assert due(plan(**part))


def test_old_versions_are_gathered_for_a_day():
    assert not due(plan(versions=(1, 2)), days=7.5)
    assert due(plan(versions=(1, 2)), days=8.5)
    assert due(plan(versions=tuple(range(1, MANY_VERSIONS + 1))), days=7.5)


def test_a_table_is_looked_at_again_after_a_day_or_when_a_version_ages():
    assert look_again_at(plan(), NOW) == NOW + timedelta(days=1)
    assert look_again_at(plan(again_at=NOW + timedelta(hours=1)), NOW) == NOW + timedelta(hours=1)


def test_all_agents_give_the_job_of_one_interval_the_same_id():
    one, other = (job_id_for("optimize", "t", 3600.0, NOW + timedelta(minutes=at)) for at in (-34, 25))
    assert one == other
    assert job_id_for("optimize", "t", 3600.0, NOW + timedelta(minutes=26)) != one
    assert job_id_for("optimize", "other", 3600.0, NOW) != one


def test_that_id_is_like_those_of_other_jobs():
    made = job_id_for("optimize", "t", 3600.0, NOW)
    assert UUID(made).version == 7
    assert NOW.timestamp() - 3600 <= (job_made_at(made) or 0) <= NOW.timestamp() + 1


def stray(kind: str, days: float) -> Stray:
    return Stray(kind, Path(f"{kind} {days}"), 10, NOW - timedelta(days=days))  # type: ignore[arg-type]


def test_left_over_things_go_when_nobody_can_be_at_them():
    found = [stray(kind, days) for kind in ("folder", "results", "unfinished results") for days in (0.5, 2, 8, 40)]
    gone = plan_left_over(LeftOver(tuple(found)), Wanted(keep_seconds=None, checkpoint_seconds=30 * DAY), NOW)
    left = {str(one.path) for one in found} - {str(path) for path in gone.paths}
    assert left == {"folder 0.5", "folder 2", "results 0.5", "results 2", "results 8", "unfinished results 0.5"}
    assert sum(step.count for step in gone.told) == len(gone.paths)


def test_numbers_are_told_in_spans():
    assert numbered("version", [1]) == "version 1"
    assert numbered("version", [1, 2, 3, 7]) == "versions 1-3, 7"
    assert numbered("version", [1, 3, 5, 7]) == "versions 1, 3, 5, …"
    assert [spell(seconds) for seconds in (7 * DAY, 5400, 60, 2.5)] == ["7 days", "1.5 hours", "1 minute", "2.5 s"]
