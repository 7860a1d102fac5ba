"""A job that runs in this process, as its starter holds it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lancegpu_sql.catalog.models import JobRecord, JobState
from lancegpu_sql.errors import InvalidInput, StillWaiting
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.housekeeping import cancel
from lancegpu_sql.jobs.journal import Journal

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog


PAUSE_GRACE_SECONDS = 2.0
"""How long calls in flight may take to finish where a job is paused: whoever asks for it wants its workers back."""


class RunningJob:
    """A job of this process; made by `JobRunner.start`."""

    def __init__(self, catalog: Catalog, journal: Journal, context: JobContext) -> None:
        self.id = context.id
        self.interrupted = False
        self._catalog = catalog
        self._journal = journal
        self._context = context
        self._ended = threading.Event()
        self._result: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None

    @property
    def record(self) -> JobRecord:
        """The job as it is now, progress to the row."""
        return self._journal.record

    def wait(self, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Wait for the job's end and return its result.

        Raises
        ------
        BaseException
            The very error that ended the work.
        StillWaiting
            The time is over and the job goes on; or someone paused it.
        """
        if not self._ended.wait(checked_timeout(timeout_seconds)):
            raise still_waiting(self.record, timeout_seconds)
        if self._error is not None:
            # Without the frames of an earlier wait.
            raise self._error.with_traceback(self._traceback)
        return self._result or {}

    def ended(self, timeout_seconds: float | None = 0.0) -> bool:
        """Tell whether the job has ended, waiting up to a time for it."""
        return self._ended.wait(checked_timeout(timeout_seconds))

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord:
        """Return the record as soon as it differs from one seen before, or when the time is over."""
        return self._journal.next_change(after, checked_timeout(timeout_seconds))

    def cancel(self) -> None:
        """Ask the job to stop; returns at once."""
        self.stop()
        cancel(self._catalog, self.id)

    def stop(self) -> None:
        """Tell the work that someone asked it to stop."""
        if not self.record.state.ended and not self.record.cancel_requested:
            self._journal.put(cancel_requested=True)
        self._end_work(0.0)

    def hold(self) -> None:
        """Tell the work that someone asked it to pause."""
        if not self.record.state.ended and not self.record.pause_requested:
            self._journal.put(pause_requested=True)
        if not self._context.cancelled.is_set():
            self._end_work(PAUSE_GRACE_SECONDS)

    def lose(self) -> None:
        """Tell the work that another process has the job now."""
        self._journal.lose()
        self._end_work(0.0)

    def unattended(self, record: JobRecord) -> bool:
        """Tell whether nobody runs the job, and nobody will by himself, as it stands in a record of it."""
        return record.owner is None and record.state in (JobState.QUEUED, JobState.PAUSED)

    def interrupt(self, grace_seconds: float = 0.0) -> None:
        """Tell the work to stop because its process does; calls in flight may take so long to finish."""
        self.interrupted = True
        if not self._context.cancelled.is_set():
            self._end_work(grace_seconds)

    def _end_work(self, grace_seconds: float) -> None:
        self._context.grace_seconds = grace_seconds
        self._context.cancelled.set()

    def flush(self) -> None:
        """Write progress; a job that another process took over stops here."""
        self._journal.try_flush()
        if self._journal.lost is not None:
            self._end_work(0.0)

    def end(self, result: dict[str, Any] | None, error: BaseException | None) -> None:
        """Let those who wait go on; the runner calls it."""
        self._result = result
        self._error = error
        self._traceback = None if error is None else error.__traceback__
        self._ended.set()


def checked_timeout(timeout_seconds: float | None) -> float | None:
    """Return how long to wait, no longer than can be waited at all.

    Raises
    ------
    InvalidInput
        It is no number of seconds.
    """
    if timeout_seconds is None:
        return None
    if timeout_seconds != timeout_seconds:
        raise InvalidInput("a timeout is a number of seconds, or None to wait as long as it takes; not NaN")
    return min(timeout_seconds, threading.TIMEOUT_MAX)


def paused(record: JobRecord) -> StillWaiting:
    """Return the error that says that a job is held."""
    return StillWaiting(
        f"Job {record.id} is paused; what it finished is kept. Resume it to go on.",
        job_id=record.id,
        state=record.state,
        waiting_on=None,
    )


def still_waiting(record: JobRecord, timeout_seconds: float | None) -> StillWaiting:
    """Return the error that says for what a job waits when the caller's time is over."""
    doing = f"waiting: {record.waiting_on.message}" if record.waiting_on is not None else str(record.state)
    return StillWaiting(
        f"After {timeout_seconds or 0.0:g} s job {record.id} is {doing}. It goes on by itself.",
        job_id=record.id,
        state=record.state,
        waiting_on=record.waiting_on,
    )
