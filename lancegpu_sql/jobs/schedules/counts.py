"""What an agent's scheduler did since it began, in numbers that only grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from threading import Lock
from typing import Literal

from lancegpu_sql.catalog.schedule_models import ScheduleChange, ScheduleRecord

Counted = Literal["runs", "failures", "skipped", "late_seconds"]


class ScheduleCounts:
    """Adds up what became of schedules, by kind of subject; read by other threads than the scheduler's."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals: defaultdict[tuple[Counted, str], float] = defaultdict(float)

    def dealt_with(self, schedule: ScheduleRecord, change: ScheduleChange, late_seconds: float) -> None:
        """Count what was done with a schedule that was due, so long after its time."""
        if change.job is not None:
            self._add(schedule, runs=1, late_seconds=max(late_seconds, 0.0))
        elif change.values.get("skipped"):
            self._add(schedule, skipped=1)
        elif change.values.get("streak"):
            self.failed(schedule)

    def failed(self, schedule: ScheduleRecord) -> None:
        """Count a refresh that failed, or could not be queued."""
        self._add(schedule, failures=1)

    def totals(self) -> Mapping[tuple[Counted, str], float]:
        """Return the sums up to now, by what was counted and by kind of subject, such as ``column``."""
        with self._lock:
            return dict(self._totals)

    def _add(
        self, schedule: ScheduleRecord, runs: int = 0, failures: int = 0, skipped: int = 0, late_seconds: float = 0.0
    ) -> None:
        with self._lock:
            self._totals["runs", schedule.kind] += runs
            self._totals["failures", schedule.kind] += failures
            self._totals["skipped", schedule.kind] += skipped
            self._totals["late_seconds", schedule.kind] += late_seconds
