"""What the catalog keeps of a schedule: when its refresh is due, what is queued then, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lancegpu_sql.catalog.models import EventDraft, JobRecord, JobState, Model, UtcTime, WaitingOn

SUBJECT_KINDS = ("column", "view")
"""What schedules can be about: the first word of their subjects."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class ScheduleRule(Model):
    """When refreshes are due: every so many seconds, by a cron expression in a time zone, or when a source has changed.

    `jitter_seconds` moves all due times of one subject by the same part of it, another one for each subject.
    """

    kind: Literal["interval", "cron", "on_change"]
    every_seconds: float | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    jitter_seconds: float = 0.0


class Hook(Model):
    """What is called when something befalls a schedule: a URL (POST of JSON), or a command (JSON on its standard input)."""

    url: str | None = None
    command: tuple[str, ...] | None = None


class ScheduleRecord(Model):
    """A schedule, as the catalog keeps it.

    Attributes
    ----------
    subject
        What it is about, e.g. ``column docs.vec``; its key.
    job_kind, table, columns, request
        Of the job that is queued when it is due.
    sources
        The tables whose versions say all of what a refresh reads: their changes make it due, where its rule says so, and without
        one a due time makes no job. None where no versions say so: then each due time makes one.
    created_at
        When its rule was set: from where intervals count.
    next_run
        When it is due; None: not before a source changes, or never while it is disabled.
    seen
        Of each source what told its version apart when that was last found to be covered by a refresh.
    job_id
        The job that was queued last, until its end has been noted.
    streak
        How many refreshes failed one after the other, up to now.
    skipped
        How many due times passed while the job of `job_id` still ran or waited.
    waiting_told
        Whether `on_waiting` was called for that job.
    """

    subject: str
    job_kind: str
    table: str
    columns: tuple[str, ...] = ()
    request: dict[str, Any] = Field(default_factory=dict)
    sources: tuple[str, ...] = ()
    rule: ScheduleRule
    enabled: bool = True
    created_at: UtcTime
    next_run: UtcTime | None = None
    seen: dict[str, str] = Field(default_factory=dict)
    job_id: str | None = None
    last_job_id: str | None = None
    last_run: UtcTime | None = None
    last_result: dict[str, Any] | None = None
    last_error: dict[str, Any] | None = None
    streak: int = 0
    skipped: int = 0
    on_failure: Hook | None = None
    on_waiting: Hook | None = None
    waiting_limit_seconds: float | None = None
    waiting_told: bool = False

    @property
    def title(self) -> str:
        """How people name it: its subject without the kind, such as ``docs.vec``."""
        return self.subject.partition(" ")[2]

    @property
    def kind(self) -> str:
        """What it is about: ``column`` or ``view``."""
        return self.subject.partition(" ")[0]


@dataclass(frozen=True)
class ScheduleChange:
    """What becomes of one schedule, where it still is as `expected`; the job and the events are kept along with it."""

    subject: str
    expected: Mapping[str, Any]
    values: Mapping[str, Any]
    job: JobRecord | None = None
    events: tuple[EventDraft, ...] = ()


@dataclass(frozen=True)
class ScheduledJob:
    """A schedule, and how its last job stands; `state` is None where that is forgotten, or where there was none."""

    schedule: ScheduleRecord
    state: JobState | None
    waiting_on: WaitingOn | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Backlog:
    """What schedules have before them: how many are due, since when the one that is due longest, and how many fail."""

    due: int = 0
    due_since: datetime | None = None
    failing: int = 0


@dataclass
class Watched:
    """Of a schedule that is due on changes: its sources, and what was seen of them."""

    subject: str
    sources: tuple[str, ...]
    seen: Mapping[str, str] = field(default_factory=dict)


def column_subject(table: str, column: str) -> str:
    """Return the subject of a computed column's schedule; names that could be mistaken stand in quotes."""
    return f"column {_quoted(table)}.{_quoted(column)}"


def view_subject(view: str) -> str:
    """Return the subject of a materialized view's schedule."""
    return f"view {_quoted(view)}"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
