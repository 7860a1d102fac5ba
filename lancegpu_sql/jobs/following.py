"""A job that another process runs, or that has ended: followed through the catalog."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lancegpu_sql.catalog.models import JobRecord, JobState
from lancegpu_sql.errors import Cancelled, StillWaiting
from lancegpu_sql.jobs.claims import serving
from lancegpu_sql.jobs.failure import job_failed
from lancegpu_sql.jobs.housekeeping import cancel, settle_if_dead
from lancegpu_sql.jobs.running import checked_timeout, paused, still_waiting

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog

POLL_INTERVAL_SECONDS = 0.25


class FollowedJob:
    """Any job of the catalog; the same handle as `RunningJob`, by looking into the catalog four times a second."""

    def __init__(self, catalog: Catalog, job_id: str) -> None:
        self.id = job_id
        self._catalog = catalog

    @property
    def record(self) -> JobRecord:
        """The job as the catalog has it; one whose process died is settled first.

        Raises
        ------
        JobNotFound
            No such job.
        """
        record = self._catalog.job(self.id)
        return settle_if_dead(self._catalog, record) or record

    def wait(self, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Wait for the job's end and return its result.

        Raises
        ------
        JobFailed
            It failed; `error_type`, the message and `error_facts` are those of the error that ended it.
        Cancelled
            Someone stopped it.
        StillWaiting
            The time is over and the job goes on, someone paused it, or no process runs it nor will.
        """
        deadline = _deadline(timeout_seconds)
        record = self.record
        while not record.state.ended:
            if record.state is JobState.PAUSED:
                raise paused(record)
            if self.unattended(record):
                raise StillWaiting(
                    f"Job {record.id} is {record.state}; no process runs it and no agent serves this database. Resume it to run it "
                    "here.",
                    job_id=record.id,
                    state=record.state,
                    waiting_on=None,
                )
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise still_waiting(record, timeout_seconds)
            record = self.next_change(record, left)
        if record.state is JobState.FAILED:
            raise job_failed(record.id, record.error)
        if record.state is JobState.CANCELLED:
            raise Cancelled(
                f"Job {record.id} was cancelled; what it finished is kept. Resume it, or refresh again.",
                job_id=record.id,
            )
        return record.result or {}

    def ended(self, timeout_seconds: float | None = 0.0) -> bool:
        """Tell whether the job has ended, waiting up to a time for it."""
        deadline = _deadline(timeout_seconds)
        record = self.record
        while not record.state.ended:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            record = self.next_change(record, left)
        return True

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord:
        """Return the record as soon as it differs from one seen before, or when the time is over."""
        deadline = _deadline(timeout_seconds)
        while True:
            record = self.record
            left = POLL_INTERVAL_SECONDS if deadline is None else deadline - time.monotonic()
            if record != after or left <= 0:
                return record
            time.sleep(min(left, POLL_INTERVAL_SECONDS))

    def unattended(self, record: JobRecord) -> bool:
        """Tell whether nobody runs the job, and nobody will by himself, as it stands in a record of it."""
        if record.owner is not None or record.state not in (JobState.QUEUED, JobState.PAUSED):
            return False
        return record.state is JobState.PAUSED or not serving(self._catalog, record.kind)

    def cancel(self) -> None:
        """Ask the job to stop; its process does so within a second."""
        cancel(self._catalog, self.id)


def _deadline(timeout_seconds: float | None) -> float | None:
    seconds = checked_timeout(timeout_seconds)
    return None if seconds is None else time.monotonic() + seconds
