"""What is done to jobs from outside their work: asked to stop, to hold, to go on; taken from the dead; forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancegpu_sql.catalog.models import OWNED, EventDraft, JobRecord, JobState, utc_now
from lancegpu_sql.errors import Conflict
from lancegpu_sql.jobs.job import ENDS_WITH_PROCESS, JobEvent, states_before, transition
from lancegpu_sql.jobs.log import log_path

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog


FINISHED_QUERIES_KEPT = 100
"""Each query that calls a Function is a job, and the result of one that finished is gone: its record is soon of no use."""


def settle_dead(catalog: Catalog) -> list[JobRecord]:
    """Settle the jobs whose process is dead, and return them.

    Each is `queued` again, so that any process can resume it from its checkpoints; one that had been asked to stop is
    `cancelled`, and a query has failed. Jobs of other hosts are left alone: whether their process lives cannot be known from here.
    """
    settled = (settle_if_dead(catalog, record) for record in catalog.jobs(states=OWNED))
    return [record for record in settled if record is not None]


def settle_if_dead(catalog: Catalog, record: JobRecord) -> JobRecord | None:
    """Settle one job if its process is dead; None where it lives, or where another process was first."""
    owner = record.owner
    if record.state not in OWNED or owner is None or owner.is_alive() is not False:
        return None
    return give_back(catalog, record, f"Process {owner.pid} on {owner.host.partition('/')[0]}, which ran it, is gone")


def give_back(catalog: Catalog, record: JobRecord, why: str, heartbeat: int | None = None) -> JobRecord | None:
    """Take a job from its process; None where another process was first, or where it gave a sign of life meanwhile.

    What had been asked of it (to stop, to pause) is done now.
    """
    ended: dict[str, Any] = {"finished_at": None}
    if record.cancel_requested:
        event, told = JobEvent.CANCELS, EventDraft(kind="cancelled", message=f"{why}; it had been asked to stop.")
    elif record.pause_requested:
        event, told = JobEvent.PAUSES, EventDraft(kind="paused", message=f"{why}; it had been asked to pause.")
    elif record.kind in ENDS_WITH_PROCESS:
        event, told = JobEvent.FAILS, EventDraft(kind="failed", message=f"{why}; its result went with it.")
        ended["error"] = {"type": "JobFailed", "message": told.message, "facts": {}}
    else:
        event, told = JobEvent.OWNER_DIED, EventDraft(kind="interrupted", message=f"{why}; the job can be resumed.")
    if transition(record.state, event).ended:
        ended["finished_at"] = utc_now()
    try:
        return catalog.update_job(
            record.id,
            expected_states=OWNED,
            expected_owner=record.owner,
            expected_lease=record.lease,
            expected_heartbeat=heartbeat,
            events=[told],
            state=transition(record.state, event),
            owner=None,
            waiting_on=None,
            **ended,
        )
    except Conflict:
        return None


def cancel(catalog: Catalog, job_id: str) -> JobRecord:
    """Ask a job to stop, whichever process runs it; one that nobody runs is cancelled at once.

    A job that has ended is left as it is.

    Raises
    ------
    JobNotFound
        No such job.
    """
    while True:
        record = catalog.request_cancel(job_id)
        if record.state in OWNED:
            return settle_if_dead(catalog, record) or record
        if record.state.ended:
            return record
        try:
            return catalog.update_job(
                job_id,
                expected_states=states_before(JobEvent.CANCELS) - OWNED,
                events=[EventDraft(kind="cancelled", message="It was cancelled before any process took it.")],
                state=JobState.CANCELLED,
                finished_at=utc_now(),
            )
        except Conflict:
            continue  # a process took the job in between, and with it forgot that it should stop


def pause(catalog: Catalog, job_id: str) -> JobRecord:
    """Ask a job to hold, whichever process runs it; one that nobody runs is paused at once.

    What it finished is kept, and its workers are given back. A job that has ended is left as it is.

    Raises
    ------
    JobNotFound
        No such job.
    Conflict
        It is a query, which nobody could go on with.
    """
    if catalog.job(job_id).kind in ENDS_WITH_PROCESS:
        raise Conflict(f"Job {job_id} is a query, which cannot be held; it can be cancelled.", job_id=job_id)
    while True:
        record = catalog.request_pause(job_id)
        if record.state in OWNED:
            return settle_if_dead(catalog, record) or record
        if record.state.ended or record.state is JobState.PAUSED:
            return record
        try:
            return catalog.update_job(
                job_id,
                expected_states=[JobState.QUEUED],
                events=[EventDraft(kind="paused", message="It was paused before any process took it.")],
                state=transition(record.state, JobEvent.PAUSES),
            )
        except Conflict:
            continue  # a process took the job in between


def requeue(catalog: Catalog, job_id: str) -> JobRecord:
    """Let a job that was paused, failed or cancelled go on: it is `queued` again, for an agent or whoever resumes it.

    Raises
    ------
    JobNotFound
        No such job.
    Conflict
        A process works on it, or it has finished.
    """
    record = catalog.job(job_id)
    if record.state is JobState.QUEUED:
        return record
    return catalog.update_job(
        job_id,
        expected_states=states_before(JobEvent.RESUMES),
        events=[EventDraft(kind="queued", message="Someone asked it to go on.")],
        state=JobState.QUEUED,
        owner=None,
        finished_at=None,
        error=None,
        cancel_requested=False,
        pause_requested=False,
    )


def prune(catalog: Catalog, folder: Path, retention_days: float) -> list[str]:
    """Forget jobs that ended longer ago than this, with their events and logs, and other old events; return the jobs' ids."""
    before = utc_now() - timedelta(days=retention_days)
    catalog.prune_events(before)
    ids = catalog.prune_jobs(before)
    _remove_logs(folder, ids)
    return ids


def prune_finished_queries(catalog: Catalog, folder: Path) -> list[str]:
    """Forget queries that finished but the newest, which somebody may look at; return their ids."""
    ids = catalog.prune_finished(ENDS_WITH_PROCESS, FINISHED_QUERIES_KEPT)
    _remove_logs(folder, ids)
    return ids


def _remove_logs(folder: Path, ids: Iterable[str]) -> None:
    for job_id in ids:
        with suppress(OSError):  # a log that cannot be removed is a nuisance, no reason to refuse a database
            log_path(folder, job_id).unlink()
