"""A job, as a user holds it: run by this process, by another one, or by none any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from lancegpu_sql.catalog.models import EventRecord, JobRecord, JobState, Progress, WaitingOn
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import arguments
from lancegpu_sql.database.row_errors import errors_of_job
from lancegpu_sql.jobs.errors import Errors
from lancegpu_sql.jobs.following import FollowedJob
from lancegpu_sql.jobs.housekeeping import pause
from lancegpu_sql.jobs.log import read_log
from lancegpu_sql.jobs.running import RunningJob

Result = TypeVar("Result")


class JobHandle(Generic[Result]):
    """One piece of background work.

    Made by `Table.refresh_column_async`, `Database.create_function_async` and `Database.get_job`.
    """

    def __init__(
        self,
        job: RunningJob | FollowedJob,
        catalog: Catalog,
        folder: Path,
        read_result: Callable[[dict[str, Any]], Result],
        errors_kept: int = 1_000,
    ) -> None:
        self.id = job.id
        self._job = job
        self._catalog = catalog
        self._folder = folder
        self._read_result = read_result
        self._errors_kept = errors_kept

    def __repr__(self) -> str:
        record = self.record
        about = f" of {record.table}.{', '.join(record.columns)}" if record.table else ""
        return f"<job {self.id}: {record.kind}{about}, {record.state}>"

    @property
    def record(self) -> JobRecord:
        """All that is known of the job now; a job whose process died is seen as such."""
        return self._job.record

    def status(self) -> JobState:
        """Return its state: ``queued``, ``waiting``, ``running``, ``paused``, ``finished``, ``failed``, ``cancelled``."""
        return self.record.state

    @property
    def waiting_on(self) -> WaitingOn | None:
        """For what it waits, since when and why; None unless it is ``waiting``."""
        return self.record.waiting_on

    @property
    def progress(self) -> Progress:
        """Rows planned, computed, reused and failed, rows per second, seconds left, phase; unknown ones are None."""
        return self.record.progress or Progress()

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for its end and return its result.

        Parameters
        ----------
        timeout
            Seconds; None waits as long as it takes.

        Raises
        ------
        StillWaiting
            The time is over; the job goes on.
        JobFailed, Cancelled
            How a job of another process ended. One of this process raises the very error that ended it.
        """
        return self._read_result(self._job.wait(arguments.seconds(timeout, "timeout")))

    def ended(self, timeout_seconds: float | None = 0.0) -> bool:
        """Tell whether it has ended, waiting up to a time for that."""
        return self._job.ended(arguments.seconds(timeout_seconds, "timeout_seconds"))

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord:
        """Return its record as soon as it differs from `after`, or when the time is over."""
        return self._job.next_change(after, arguments.seconds(timeout_seconds, "timeout_seconds"))

    def unattended(self, record: JobRecord) -> bool:
        """Tell whether nobody runs it nor will by himself: it is paused, or queued where no agent serves the database."""
        return self._job.unattended(record)

    def pause(self) -> None:
        """Ask it to hold and to give its workers back; what it finished is kept, and `Database.resume_job` goes on."""
        pause(self._catalog, self.id)

    def cancel(self) -> None:
        """Ask it to stop; what it finished is kept, and `Database.resume_job` goes on from there."""
        self._job.cancel()

    def events(self) -> list[EventRecord]:
        """Return what happened to it, oldest first."""
        return self._catalog.events(job_id=self.id)

    def errors(self) -> Errors:
        """Return why rows of it failed, and, first, why it did, if it did.

        `Errors` is a sequence of `RowError`; its `groups()` tell what many rows have in common, and `truncated` whether more
        rows failed than are kept (setting `job_errors_kept`).
        """
        return errors_of_job(self._catalog, self.record, self._errors_kept)

    def log(self) -> str:
        """Return what user code printed in its workers."""
        return read_log(self._folder, self.id)

    def timings(self) -> dict[str, Any]:
        """Return how long its phases took and how its workers spent their time, in seconds."""
        return self.record.timings or {}
