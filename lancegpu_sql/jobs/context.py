"""What the work of a job reports to, and where it learns that it should stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from lancegpu_sql.catalog.models import EventDraft, JobState, Progress, WaitingOn
from lancegpu_sql.jobs.failure import json_safe
from lancegpu_sql.jobs.job import JobEvent
from lancegpu_sql.jobs.journal import Journal
from lancegpu_sql.jobs.log import JobLog
from lancegpu_sql.jobs.pace import Pace, seconds_left
from lancegpu_sql.jobs.words import WAITING_PHASE


class JobContext:
    """Given to the work of a job; any of its threads may call it.

    Changes of state and events are written at once, progress and timings twice a second; none of it raises because the
    catalog is busy. What a straggling thread reports after the work's end is no longer listened to, events excepted.

    Attributes
    ----------
    id
        The job's id.
    cancelled
        Set when the work should stop: it then raises `Cancelled` as soon as what it did is safe.
    grace_seconds
        How long calls in flight may take to finish once `cancelled` is set: 0 where someone wants it to end.
    """

    def __init__(self, journal: Journal, log: JobLog) -> None:
        self.id = journal.record.id
        self.cancelled = threading.Event()
        self.grace_seconds = 0.0
        self._journal = journal
        self._log = log
        self._closed = False
        self._pace = Pace()
        self._phase_since = time.monotonic()
        self._phases: dict[str, float] = {}
        self._workers: dict[str, dict[str, Any]] = {}

    def waiting(self, waiting_on: WaitingOn) -> None:
        """Say for what the job waits; saying the same again is no news."""
        with self._journal.changed:
            if self._closed:
                return
            present = self._journal.record.waiting_on
            if present is not None:
                same = (present.gpu_class, present.reason, present.message, present.can_be_met)
                if same == (waiting_on.gpu_class, waiting_on.reason, waiting_on.message, waiting_on.can_be_met):
                    return
                if present.gpu_class == waiting_on.gpu_class:
                    waiting_on = waiting_on.model_copy(update={"since": min(present.since, waiting_on.since)})
            detail = {
                "gpu_class": waiting_on.gpu_class,
                "reason": waiting_on.reason,
                "can_be_met": waiting_on.can_be_met,
            }
            told = EventDraft(kind="waiting", message=waiting_on.message, detail=detail)
            self._pace.interrupt()
            progress = self._enter(WAITING_PHASE).model_copy(update={"rows_per_second": None, "seconds_left": None})
            self._journal.put(JobEvent.WAITS, told, waiting_on=waiting_on, progress=progress)
        self._journal.try_flush()

    def running(self, phase: str) -> None:
        """Say what the job does now: ``starting worker``, ``computing``, ``publishing``; the same again is no news."""
        with self._journal.changed:
            record = self._journal.record
            if self._closed:
                return
            if record.state == JobState.RUNNING and record.progress is not None and record.progress.phase == phase:
                return
            waited = "" if record.waiting_on is None else f" after waiting {self._seconds_in_phase():.1f} s"
            told = EventDraft(
                kind="running", message=f"{phase[:1].upper()}{phase[1:]}{waited}.", detail={"phase": phase}
            )
            self._journal.put(JobEvent.STARTS, told, waiting_on=None, progress=self._enter(phase))
        self._journal.try_flush()

    def progress(
        self,
        *,
        rows_planned: int | None = None,
        rows_computed: int | None = None,
        rows_reused: int | None = None,
        rows_failed: int | None = None,
    ) -> None:
        """Say how far the job is, in rows since its start; what is left out stays as it was.

        `rows_planned` counts all rows of the job: at its end they are computed, reused or failed.
        """
        given = {
            "rows_planned": rows_planned,
            "rows_computed": rows_computed,
            "rows_reused": rows_reused,
            "rows_failed": rows_failed,
        }
        with self._journal.changed:
            if self._closed:
                return
            progress = self._progress().model_copy(
                update={name: rows for name, rows in given.items() if rows is not None}
            )
            if rows_computed is not None:
                self._pace.observe(time.monotonic(), rows_computed)
            rate = self._pace.rows_per_second()
            done = progress.rows_computed + progress.rows_reused + progress.rows_failed
            left = seconds_left(progress.rows_planned, done, rate)
            pace = {"rows_per_second": rate, "seconds_left": left}
            self._journal.put(progress=progress.model_copy(update=pace))

    def event(self, kind: str, message: str, detail: Mapping[str, Any] | None = None) -> None:
        """Keep an event, in words for people."""
        self._journal.put(tell=EventDraft(kind=kind, message=message, detail=json_safe(detail or {})))
        self._journal.try_flush()

    def log(self, line: str) -> None:
        """Add a line to the job's log."""
        refused = self._log.append(line)
        if refused is not None:
            self.event("log_lost", f"The job's log cannot be written ({refused}); later lines of it are left out.")

    def timings(self, worker: str, *, gpu_class: str | None = None, **spent: float) -> None:
        """Say how one worker has spent its time so far, e.g. ``starting_seconds=…, computing_seconds=…, calls=…``.

        `gpu_class` is the one that it ran on.
        """
        with self._journal.changed:
            if self._closed:
                return
            rounded: dict[str, Any] = {name: round(value, 3) for name, value in spent.items()}
            if gpu_class is not None:
                rounded["gpu_class"] = gpu_class
            self._workers = {**self._workers, worker: {**self._workers.get(worker, {}), **rounded}}
            self._journal.put(timings=self._timings())

    def close(self) -> None:
        """Take the last time and close the log; the runner calls it."""
        with self._journal.changed:
            self._closed = True
            self._enter(None)
            self._journal.put(timings=self._timings())
        self._log.close()

    def _progress(self) -> Progress:
        return self._journal.record.progress or Progress()

    def _seconds_in_phase(self) -> float:
        return time.monotonic() - self._phase_since

    def _enter(self, phase: str | None) -> Progress:
        progress = self._progress()
        if progress.phase is not None:
            self._phases[progress.phase] = self._phases.get(progress.phase, 0.0) + self._seconds_in_phase()
        self._phase_since = time.monotonic()
        return progress.model_copy(update={"phase": phase})

    def _timings(self) -> dict[str, Any]:
        phases = {phase: round(seconds, 3) for phase, seconds in self._phases.items()}
        return {"phases": phases, "workers": self._workers}
