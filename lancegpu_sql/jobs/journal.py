"""The record of a job that this process runs: in memory at once, in the catalog as soon as that takes it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from lancegpu_sql.catalog.models import EventDraft, JobRecord, ProcessIdentity
from lancegpu_sql.errors import CatalogError, Conflict, JobNotFound
from lancegpu_sql.jobs.job import JobEvent, transition

if TYPE_CHECKING:  # the store loads SQLAlchemy, which only who opens a catalog should pay for
    from lancegpu_sql.catalog.store import Catalog


class Journal:
    """Changes a job's record and tells whoever watches.

    The work must go on while the catalog is locked or its disk is full: what could not be written is kept here and
    written by the next `flush`. A job that another process took over is lost to this one: `lost` then says why.
    """

    def __init__(self, catalog: Catalog, record: JobRecord, owner: ProcessIdentity) -> None:
        self.changed = threading.Condition()
        self.lost: Conflict | JobNotFound | None = None
        self._catalog = catalog
        self._owner = owner
        self._record = record
        self._history = [JobEvent.CLAIMED]
        self._unwritten: dict[str, Any] = {}
        self._unwritten_events: list[EventDraft] = []
        self._writing = threading.Lock()

    @property
    def record(self) -> JobRecord:
        """The job as it is now."""
        return self._record

    def put(self, event: JobEvent | None = None, tell: EventDraft | None = None, **changes: Any) -> None:
        """Change the record in memory, and note what `flush` has to write."""
        with self.changed:
            if event is not None:
                changes["state"] = transition(self._record.state, event, self._history)
                self._history.append(event)
            self._record = self._record.model_copy(update=changes)
            self._unwritten |= changes
            if tell is not None:
                self._unwritten_events.append(tell)
            self.changed.notify_all()

    def flush(self) -> None:
        """Write what is not written yet; what the catalog refuses stays for the next time.

        Raises
        ------
        CatalogError
            The catalog refused; nothing is forgotten.
        """
        with self._writing:
            with self.changed:
                changes, self._unwritten = self._unwritten, {}
                events, self._unwritten_events = self._unwritten_events, []
            if not (changes or events) or self.lost is not None:
                return
            try:
                self._catalog.update_job(
                    self._record.id,
                    expected_owner=self._owner,
                    expected_lease=self._record.lease,
                    events=events,
                    **changes,
                )
            except (Conflict, JobNotFound) as error:
                self.lost = error
            except BaseException:
                with self.changed:
                    self._unwritten = changes | self._unwritten
                    self._unwritten_events = events + self._unwritten_events
                raise

    def lose(self) -> None:
        """Note that another process has the job now."""
        with self.changed:
            self.lost = self.lost or Conflict(
                f"Job {self._record.id} was taken over by another process; this one gave no sign of life for too long.",
                job_id=self._record.id,
            )

    def try_flush(self) -> None:
        """Write if the catalog takes it now; reports of progress come again."""
        try:
            self.flush()
        except CatalogError:
            return

    def next_change(self, after: JobRecord, timeout_seconds: float | None) -> JobRecord:
        """Return the record as soon as it differs from one seen before, or when the time is over."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self.changed:
            while self._record == after:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self.changed.wait(left)
            return self._record
