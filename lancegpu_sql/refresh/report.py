"""What a refresh tells its job: rows, phases, what it waits for, how its workers spend their time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from lancegpu_sql.apply import WorkerTimings
from lancegpu_sql.apply.watch import on_backup
from lancegpu_sql.catalog.models import WaitingOn, utc_now
from lancegpu_sql.placement.request import Lost, PlacementEvent, Preparing, Ready, Starting, Waiting


class RefreshJob(Protocol):
    """What a refresh needs of the job it runs in."""

    @property
    def id(self) -> str:
        """The job's id."""

    @property
    def cancelled(self) -> threading.Event:
        """Set when the work should stop."""

    @property
    def grace_seconds(self) -> float:
        """How long calls in flight may take to finish once `cancelled` is set."""

    def waiting(self, waiting_on: WaitingOn) -> None:
        """Say for what the job waits."""

    def running(self, phase: str) -> None:
        """Say what the job does now."""

    def progress(
        self,
        *,
        rows_planned: int | None = None,
        rows_computed: int | None = None,
        rows_reused: int | None = None,
        rows_failed: int | None = None,
    ) -> None:
        """Say how far the job is."""

    def event(self, kind: str, message: str, detail: Mapping[str, Any] | None = None) -> None:
        """Keep an event."""

    def log(self, line: str) -> None:
        """Add a line to the job's log."""

    def timings(self, worker: str, *, gpu_class: str | None = None, **spent: float) -> None:
        """Say how one worker spent its time, how many calls it did, and on which GPU class."""


class Report:
    """Turns what `apply` sees into what a job says; an `ApplyWatch`."""

    def __init__(self, job: RefreshJob, gpu_class: str | None) -> None:
        self._job = job
        self._gpu_class = gpu_class
        self._planned = 0
        self._computed = 0
        self._reused = 0
        self._failed = 0

    def planned(self, rows: int) -> None:
        """Add rows that a pass will look at."""
        self._planned += rows
        self._job.progress(rows_planned=self._planned)

    def computed(self, rows: int) -> None:
        """Add rows that were computed."""
        self._computed += rows
        self._job.progress(rows_computed=self._computed)

    def failed(self, rows: int) -> None:
        """Add rows that were tried and have no value."""
        self._failed += rows
        self._job.progress(rows_failed=self._failed)

    def reused(self, rows: int) -> None:
        """Add rows whose value was current, or stood in a checkpoint."""
        self._reused += rows
        self._job.progress(rows_reused=self._reused)

    def rows_left(self) -> int:
        """Return how many of the planned rows are neither computed nor found current."""
        return max(0, self._planned - self._computed - self._reused - self._failed)

    def publishing(self) -> None:
        """Say that column files are being written and committed."""
        self._job.running("publishing")

    def placement_event(self, event: PlacementEvent) -> None:
        """Say what becomes of the worker without which nothing is computed."""
        match event:
            case Waiting():
                self._job.waiting(
                    WaitingOn(
                        gpu_class=self._gpu_class,
                        since=utc_now(),
                        reason=event.reason,
                        message=event.message,
                        detail=dict(event.detail),
                        can_be_met=event.can_be_met,
                    )
                )
            case Preparing():
                self._job.running("preparing")
                self._job.log(f"[{event.message}]")
            case Starting():
                self._job.running("starting worker")
            case Ready():
                self._job.event("worker ready", self._ready(event), {"gpu_class": event.backup or self._gpu_class})
                self._job.running("computing")
            case Lost():
                self._job.event("worker lost", event.message)

    def call_done(self, rows: int, seconds: float, worker: str) -> None:
        """Rows count when they come out in their turn; see `computed`."""

    def worker_timings(self, timings: WorkerTimings) -> None:
        """Say how a worker spent its time."""
        self._job.timings(
            timings.worker,
            gpu_class=timings.gpu_class,
            starting_seconds=timings.starting_seconds,
            computing_seconds=timings.computing_seconds,
            waiting_for_rows_seconds=timings.waiting_for_rows_seconds,
            idle_seconds=timings.idle_seconds,
            calls=timings.calls,
        )

    def log(self, line: str) -> None:
        """Keep a line that user code printed."""
        self._job.log(line)

    def event(self, kind: str, message: str) -> None:
        """Keep an event."""
        self._job.event(kind, message)

    def _ready(self, event: Ready) -> str:
        devices = f" on {', '.join(event.devices)}" if event.devices else ""
        process = f"process {event.worker_pid}" if event.worker_pid is not None else "a worker"
        where = f", {on_backup(event.backup, str(self._gpu_class))}" if event.backup is not None else ""
        return f"{process}{devices} has loaded the Function{where}"
