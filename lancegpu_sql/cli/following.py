"""Shows a job until it ends or the time is over."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from lancegpu_sql.cli.entry import EXIT_INTERRUPTED
from lancegpu_sql.errors import Cancelled, LanceGpuError, RowFailed, StillWaiting

if TYPE_CHECKING:
    from lancegpu_sql.catalog.models import JobRecord, JobState
    from lancegpu_sql.database import Database, JobHandle
    from lancegpu_sql.refresh.request import RefreshResult

CANCEL_SECONDS = 30.0
"""How long Ctrl-C waits for a job to put what it finished in order."""

Result = TypeVar("Result")


def run_to_end(database: Database, job: JobHandle[Result], *, timeout_seconds: float | None, resume: str) -> Result:
    """Show a job of this process until it ends; Ctrl-C cancels it.

    Parameters
    ----------
    timeout_seconds
        After which the job is left, for anyone to go on with.
    resume
        The command line that does.

    Raises
    ------
    StillWaiting
        The time is over.
    Cancelled
        Another process asked the job to stop.
    LanceGpuError
        How the job failed.
    """
    try:
        return follow(database, job, timeout_seconds=timeout_seconds)
    except KeyboardInterrupt:
        job.cancel()
        job.ended(CANCEL_SECONDS)
        print(f"\nCancelled; what was finished is kept. Go on with: {resume}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Cancelled as problem:
        raise Cancelled(
            f"Job {job.id} was cancelled from elsewhere; what was finished is kept. Go on with: {resume}",
            **problem.facts,
        ) from None
    except StillWaiting as problem:
        if problem.facts.get("state") == "paused":
            raise StillWaiting(f"{problem.message} Go on with: {resume}", **problem.facts) from None
        raise StillWaiting(
            f"{_standing(job.record, timeout_seconds)} What was finished is kept. Go on with: {resume}", **problem.facts
        ) from None
    except RowFailed as problem:
        raise RowFailed(
            f"{problem.message.rstrip()}\nWhat was finished is kept. Correct the Function, or refresh with --error-policy skip: "
            "such rows are null then, and all others are computed.",
            **problem.facts,
        ) from None


def follow(database: Database, job: JobHandle[Result], *, timeout_seconds: float | None) -> Result:
    """Show any job until it ends, and return its result.

    Raises
    ------
    StillWaiting
        The time is over, or no process runs the job.
    LanceGpuError
        How the job failed.
    """
    from lancegpu_sql.jobs import watch

    try:
        watch(job if timeout_seconds is None else _Until(job, timeout_seconds), style=database.settings.progress)
    except _TimeOver:
        raise StillWaiting(
            f"{_standing(job.record, timeout_seconds)} It goes on by itself.", waiting_on=job.waiting_on
        ) from None
    return job.wait()


def until_held(job: JobHandle[Any], timeout_seconds: float) -> JobState:
    """Wait until no process works on a job, or the time is over; return its state."""
    deadline = time.monotonic() + timeout_seconds
    record = job.record
    while record.state in ("waiting", "running") and (left := deadline - time.monotonic()) > 0:
        record = job.next_change(record, left)
    return record.state


def print_queued(job: JobHandle[Any], *, json: bool) -> None:
    """Print the id of a job that an agent is to run."""
    from lancegpu_sql.cli.output import print_json

    if json:
        print_json(job.record)
    else:
        print(job.id)


def print_result(result: RefreshResult, *, json: bool) -> None:
    """Print what a refresh did."""
    from lancegpu_sql.cli.output import print_facts, print_json

    if json:
        print_json(result)
        return
    facts: dict[str, Any] = {"mode": result.mode, "rows assigned": result.rows_assigned}
    if result.calls_made is not None:  # a view
        facts |= {"rows removed": result.rows_removed}
        facts |= {"calls made": result.calls_made, "calls reused": result.calls_reused}
    else:
        facts |= {"rows failed": result.rows_failed, "rows remaining": result.rows_remaining}
    print_facts(facts | {"version": result.version, "job": result.job_id})


def _standing(record: JobRecord, timeout_seconds: float | None) -> str:
    from lancegpu_sql.jobs.words import phase

    doing = f"waiting: {record.waiting_on.message}" if record.waiting_on is not None else phase(record)
    return f"After {timeout_seconds or 0.0:g} s job {record.id} is {doing.rstrip('.')}."


class _TimeOver(LanceGpuError):
    """Ends the showing of a job."""


class _Until:
    """A job that is looked at for some time only."""

    def __init__(self, job: JobHandle[Any], timeout_seconds: float) -> None:
        self._job = job
        self._deadline = time.monotonic() + timeout_seconds

    @property
    def record(self) -> JobRecord:
        return self._job.record

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord:
        return self._job.next_change(after, self._left(timeout_seconds))

    def unattended(self, record: JobRecord) -> bool:
        return self._job.unattended(record)

    def ended(self, timeout_seconds: float | None = 0.0) -> bool:
        return self._job.ended(self._left(timeout_seconds))

    def _left(self, timeout_seconds: float | None) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0 and not self._job.ended():
            raise _TimeOver("the time is over")
        return max(left, 0.0) if timeout_seconds is None else max(min(left, timeout_seconds), 0.0)
