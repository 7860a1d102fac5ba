"""How a schedule stands, decided from what is known of it and of its job: pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lancegpu_sql import errors
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.catalog.schedule_models import ScheduledJob, ScheduleRecord

_NEEDS_PEOPLE = (errors.NotFound, errors.InvalidInput, errors.StaleInput)
"""Errors that stay, however often the same refresh is tried, until somebody changes something."""


class ScheduleState(StrEnum):
    """The states of a schedule."""

    UP_TO_DATE = "up_to_date"
    WAITING_INTERVAL = "waiting_interval"
    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    BLOCKED = "blocked"
    DISABLED = "disabled"


@dataclass(frozen=True)
class ScheduleStatus:
    """A state, and its reason in words where there is one to tell."""

    state: ScheduleState
    reason: str | None = None


_JOBS = {
    JobState.QUEUED: ScheduleState.QUEUED,
    JobState.WAITING: ScheduleState.WAITING,
    JobState.RUNNING: ScheduleState.RUNNING,
}
_UNSERVED = "no agent serves this database: start one with lancegpu agent"


def status_of(held: ScheduledJob, now: datetime, *, has_news: bool, served: bool) -> ScheduleStatus:
    """Return how a schedule stands.

    Parameters
    ----------
    held
        The schedule, and its job.
    now
        The present time.
    has_news
        Whether a source has changed since a refresh last covered it.
    served
        Whether an agent runs jobs of its kind.
    """
    schedule = held.schedule
    if not schedule.enabled:
        return ScheduleStatus(ScheduleState.DISABLED)
    if held.state is JobState.PAUSED:
        told = f"its job {schedule.job_id} is paused: resume or cancel it"
        return ScheduleStatus(ScheduleState.BLOCKED, told)
    if held.state is JobState.QUEUED and not served:
        return ScheduleStatus(ScheduleState.BLOCKED, _UNSERVED)
    if held.state in _JOBS:
        return ScheduleStatus(_JOBS[held.state], held.waiting_on.message if held.waiting_on is not None else None)
    if schedule.next_run is not None and schedule.next_run <= now and not served:
        return ScheduleStatus(ScheduleState.BLOCKED, _UNSERVED)
    if schedule.next_run is not None and schedule.next_run <= now:
        return ScheduleStatus(ScheduleState.QUEUED, "it is due")
    if schedule.streak:
        return _failing(schedule)
    if schedule.rule.kind == "on_change" and schedule.next_run is not None:
        return ScheduleStatus(ScheduleState.WAITING_INTERVAL)
    if not has_news:
        return ScheduleStatus(ScheduleState.UP_TO_DATE)
    if schedule.rule.kind == "on_change" and not served:
        return ScheduleStatus(ScheduleState.BLOCKED, _UNSERVED)
    return ScheduleStatus(ScheduleState.WAITING_INTERVAL)


def needs_people(error_type: str) -> bool:
    """Tell whether an error of this name stays until somebody changes something."""
    kind = getattr(errors, error_type, None)
    return isinstance(kind, type) and issubclass(kind, _NEEDS_PEOPLE)


def _failing(schedule: ScheduleRecord) -> ScheduleStatus:
    error = schedule.last_error or {}
    reason = str(error.get("message") or "its last refresh failed")
    blocked = needs_people(str(error.get("type")))
    return ScheduleStatus(ScheduleState.BLOCKED if blocked else ScheduleState.BACKING_OFF, reason)
