"""Whose copies of checkpoints stand in an object store, and which of them go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

from lancegpu_sql.catalog.models import JobRecord, JobState, job_made_at
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import JobNotFound
from lancegpu_sql.maintenance.copies import copies_of_jobs
from lancegpu_sql.maintenance.left_over import LeftOver, plan_left_over
from lancegpu_sql.maintenance.steps import Wanted

WANTED = Wanted(keep_seconds=None, checkpoint_seconds=30 * 86_400.0)
COLUMNS = {"c" * 32: "t"}


class Jobs:
    """The jobs of a catalog."""

    def __init__(self, *jobs: JobRecord) -> None:
        self._jobs = {job.id: job for job in jobs}

    def job(self, job_id: str) -> JobRecord:
        if job_id not in self._jobs:
            raise JobNotFound("no such job")
        return self._jobs[job_id]

    def jobs(self, states: tuple[JobState, ...]) -> list[JobRecord]:
        return [job for job in self._jobs.values() if job.state in states]


def job(state: JobState) -> JobRecord:
    return JobRecord.new("refresh_column", table="t", columns=["y"]).model_copy(update={"state": state})


def copy(job_id: str, suffix: str = "", column: str = "c" * 32) -> str:
    return f"checkpoints/{column}/00ff/{job_id}{suffix}/0/0-1-2-3.arrow"


def going(*jobs: JobRecord, names: list[str], days: float) -> tuple[str, ...]:
    found = copies_of_jobs(names, COLUMNS, cast("Catalog", Jobs(*jobs)))
    return plan_left_over(LeftOver(job_copies=found), WANTED, datetime.now(UTC) + timedelta(days=days)).copies


def test_copies_of_a_job_that_failed_stay_for_as_long_as_the_setting_says():
    failed = job(JobState.FAILED)
    assert going(failed, names=[copy(failed.id)], days=29) == ()
    assert going(failed, names=[copy(failed.id)], days=31) == (copy(failed.id),)


def test_copies_of_a_job_that_is_forgotten_are_as_old_as_its_id():
    forgotten = job(JobState.FAILED).id
    assert job_made_at(forgotten) is not None
    assert going(names=[copy(forgotten)], days=29) == ()
    assert going(names=[copy(forgotten)], days=31) == (copy(forgotten),)


def test_copies_of_a_forced_refresh_that_finished_go_at_once():
    finished = job(JobState.FINISHED)
    assert going(finished, names=[copy(finished.id, ".where")], days=0) == (copy(finished.id, ".where"),)
    assert going(finished, names=[copy(finished.id)], days=0) == ()


def test_no_copy_goes_while_the_table_is_under_a_refresh_on_any_host():
    failed, running = job(JobState.FAILED), job(JobState.RUNNING)
    assert going(failed, running, names=[copy(failed.id), copy(running.id)], days=31) == ()


def test_what_is_no_copy_is_left_alone():
    names = ["checkpoints/x", copy("no job"), copy(job(JobState.FAILED).id, column="d" * 32)]
    assert going(names=names, days=31) == ()
