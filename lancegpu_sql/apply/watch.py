"""What the caller of `apply` is told while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from lancegpu_sql.apply.patience import Patience
from lancegpu_sql.placement.request import PlacementEvent


@dataclass(frozen=True)
class WorkerTimings:
    """How one worker spent its time so far, and how many calls it did.

    `idle` is waiting for room behind the caller, or for calls of others. `gpu_class` is the one that it ran on, None for a
    CPU worker.
    """

    worker: str
    starting_seconds: float = 0.0
    computing_seconds: float = 0.0
    waiting_for_rows_seconds: float = 0.0
    idle_seconds: float = 0.0
    calls: int = 0
    gpu_class: str | None = None


class ApplyWatch(Protocol):
    """Told from several threads, never from two at once. What it does delays the work."""

    def placement_event(self, event: PlacementEvent) -> None:
        """What becomes of the request for the first worker; without it nothing is computed."""

    def call_done(self, rows: int, seconds: float, worker: str) -> None:
        """A call succeeded; its rows come out in their turn."""

    def worker_timings(self, timings: WorkerTimings) -> None:
        """How a worker spent its time up to now; about once a second, and when it is given back."""

    def log(self, line: str) -> None:
        """A line that user code printed."""

    def event(self, kind: str, message: str) -> None:
        """Something worth keeping.

        `worker_added`, `worker_lost`, `worker_outgrown`, `worker_not_added`, `device_avoided`, `batch_halved`,
        `call_timed_out`.
        """


class SilentWatch:
    """A watch that nobody looks at."""

    def placement_event(self, event: PlacementEvent) -> None:
        """Say nothing."""

    def call_done(self, rows: int, seconds: float, worker: str) -> None:
        """Say nothing."""

    def worker_timings(self, timings: WorkerTimings) -> None:
        """Say nothing."""

    def log(self, line: str) -> None:
        """Say nothing."""

    def event(self, kind: str, message: str) -> None:
        """Say nothing."""


class OneAtATime:
    """Passes everything on to a watch, one thread at a time."""

    def __init__(self, watch: ApplyWatch, patience: Patience) -> None:
        self._watch = watch
        self._patience = patience
        self._turn = threading.Lock()

    def placement_event(self, event: PlacementEvent) -> None:
        """Pass it on."""
        with self._turn:
            self._patience.hear(event, time.monotonic())
            self._watch.placement_event(event)

    def call_done(self, rows: int, seconds: float, worker: str, log: Iterable[str]) -> None:
        """Pass on a call, and what it printed before."""
        with self._turn:
            for line in log:
                self._watch.log(line)
            self._watch.call_done(rows, seconds, worker)

    def worker_timings(self, timings: WorkerTimings) -> None:
        """Pass them on."""
        with self._turn:
            self._watch.worker_timings(timings)

    def log(self, lines: Iterable[str]) -> None:
        """Pass lines on."""
        with self._turn:
            for line in lines:
                self._watch.log(line)

    def event(self, kind: str, message: str) -> None:
        """Pass it on."""
        with self._turn:
            self._watch.event(kind, message)


def on_backup(gpu_class: str, own: str) -> str:
    """Say where a worker is that is not of the class that was asked for."""
    return f"on GPU class {gpu_class!r} (a backup of {own!r})"
