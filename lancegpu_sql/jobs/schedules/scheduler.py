"""Queues a job for each schedule that is due. Any number of agents may look at once: the catalog lets one of them win."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lancegpu_sql.catalog.models import EventDraft, JobRecord, JobState, utc_now
from lancegpu_sql.catalog.schedule_models import Hook, ScheduleChange, ScheduledJob, ScheduleRecord
from lancegpu_sql.errors import CatalogError, LanceGpuError
from lancegpu_sql.jobs.schedules.counts import ScheduleCounts
from lancegpu_sql.jobs.schedules.hooks import HookCaller, hook_told
from lancegpu_sql.jobs.schedules.rule import back_off_seconds, next_run, span_told
from lancegpu_sql.jobs.schedules.watching import SourceWatch

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog

MOST_AT_ONCE = 50
"""Schedules dealt with in one transaction: the catalog is locked for a few hundredths of a second at most."""

_TURN_SECONDS = 0.01
"""No new batch is begun after this much work: jobs are to be looked after, too. Now and then
Python's collection of what is not used any more comes on top, which takes 40 ms."""

_SETTLE_SECONDS = 0.015
"""Nor is any more table opened, to learn what a refresh that ended has covered."""

_log = logging.getLogger("lancegpu_sql.agent")


class Sources(Protocol):
    """Knows the tables that schedules are about."""

    def stamp(self, table: str) -> str | None:
        """Return, without opening it, what is another text after each commit to a table; None where there is none."""

    def has_news(self, schedule: ScheduleRecord) -> bool:
        """Tell whether a refresh would find something to do, by what is known without reading rows."""

    def seen_after(self, schedule: ScheduleRecord, result: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the stamps of the sources where a refresh with this result covers them; None where more came meanwhile."""


class Scheduler:
    """Looks after the schedules whose kinds of jobs this process runs.

    A due schedule's next time and its job are written in one transaction, on condition that nobody else was first: a
    process may die at any moment, and the run is either queued or still due.

    Parameters
    ----------
    catalog, sources
        Of the database.
    job_kinds
        The kinds of jobs that can be run here.
    hooks
        Calls those who want to know.
    debounce_seconds
        How long after a change a refresh is due, so that several changes are one refresh.
    facts
        Of the database, told with each call of a hook.
    now
        The clock.
    """

    def __init__(
        self,
        catalog: Catalog,
        sources: Sources,
        *,
        job_kinds: Collection[str],
        hooks: HookCaller,
        debounce_seconds: float,
        facts: Mapping[str, Any] | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._catalog = catalog
        self._sources = sources
        self._job_kinds = tuple(job_kinds)
        self._hooks = hooks
        self._debounce = timedelta(seconds=debounce_seconds)
        self._facts = dict(facts or {})
        self._now = now
        self.counts = ScheduleCounts()
        self._watch = SourceWatch(catalog, sources.stamp, self._job_kinds)

    def look(self) -> bool:
        """Note what has ended, and queue what is due; return whether more is left to be done at once."""
        until = time.monotonic() + _TURN_SECONDS
        more = self._settle()
        self._tell_of_waits()
        self._notice_changes()
        while (more_due := self._queue_due(until)) and time.monotonic() < until:
            pass
        return more or more_due

    def close(self, timeout_seconds: float) -> None:
        """Let pending calls of hooks go out."""
        self._hooks.close(timeout_seconds)

    # What has ended

    def _settle(self) -> bool:
        ended = self._catalog.ended_schedules(MOST_AT_ONCE)
        until = time.monotonic() + _SETTLE_SECONDS
        changes = [self._settled(held, until) for held in ended]
        won = self._catalog.change_schedules(changes)
        for held, change in zip(ended, changes, strict=True):
            if change.subject in won and held.state is JobState.FAILED:
                self.counts.failed(held.schedule)
                self._tell_of_failure(held.schedule.model_copy(update=dict(change.values)), held.error or {})
        return len(ended) == MOST_AT_ONCE

    def _settled(self, held: ScheduledJob, until: float) -> ScheduleChange:
        schedule, now = held.schedule, self._now()
        values: dict[str, Any] = {"job_id": None, "skipped": 0}
        events: tuple[EventDraft, ...] = ()
        if held.state is JobState.FAILED:
            streak = schedule.streak + 1
            seconds = back_off_seconds(streak)
            error = {name: (held.error or {}).get(name) for name in ("type", "message")}
            values |= {"streak": streak, "last_error": error, "next_run": now + timedelta(seconds=seconds)}
            told = (
                f"The refresh failed, {streak} time{'' if streak == 1 else 's'} in a row; it is tried again in "
                f"{span_told(seconds)}. {error['message']}"
            )
            detail = {"job_id": schedule.job_id, "streak": streak}
            events = (EventDraft(kind="backs_off", message=told, detail=detail),)
        elif held.state is JobState.FINISHED:
            values |= {"streak": 0, "last_error": None, "last_result": dict(held.result or {})}
            if schedule.streak:
                times = f"{schedule.streak} failure{'' if schedule.streak == 1 else 's'}"
                told = f"The refresh ended well after {times} in a row."
                events = (EventDraft(kind="recovered", message=told, detail={"job_id": schedule.job_id}),)
            # What a refresh published is a change itself: only what others wrote meanwhile is to be refreshed again.
            seen = self._seen_after(schedule, held.result or {}) if time.monotonic() < until else None
            if seen is not None:
                values["seen"] = seen
            if schedule.rule.kind == "on_change":
                values["next_run"] = now + self._debounce if seen is None else None
        elif schedule.rule.kind != "on_change":
            values["seen"] = {}  # what that job was to do is still to be done
        return ScheduleChange(schedule.subject, {"job_id": schedule.job_id}, values, events=events)

    def _seen_after(self, schedule: ScheduleRecord, result: Mapping[str, Any]) -> dict[str, str] | None:
        try:
            return self._sources.seen_after(schedule, result)
        except LanceGpuError:
            return None

    # What is due

    def _queue_due(self, until: float) -> bool:
        """Deal with some schedules that are due; return whether more may be."""
        due = self._catalog.due_schedules(self._now(), self._job_kinds, MOST_AT_ONCE)
        changes: list[ScheduleChange] = []
        for held in due:
            try:
                changes.append(self._due(held))
            except LanceGpuError as problem:
                changes.append(self._impossible(held.schedule, problem))
            if held.schedule.rule.kind == "on_change" and time.monotonic() >= until:
                break  # its table was opened, which may take its time
        won, now = self._catalog.change_schedules(changes), self._now()
        for held, change in zip(due, changes, strict=False):  # the last few may be left for the next turn
            if change.subject in won and held.schedule.next_run is not None:
                self.counts.dealt_with(held.schedule, change, (now - held.schedule.next_run).total_seconds())
        return len(due) == MOST_AT_ONCE or len(changes) < len(due)

    def _due(self, held: ScheduledJob) -> ScheduleChange:
        schedule, now = held.schedule, self._now()
        expected = {"next_run": schedule.next_run, "job_id": schedule.job_id, "enabled": True}
        following = _next(schedule, now)
        if schedule.job_id is not None:
            values = {"next_run": following, "skipped": schedule.skipped + 1}
            return ScheduleChange(schedule.subject, expected, values, events=self._skipped(held))
        # The stamps first: what is committed after this look is another change.
        fired: dict[str, Any] = {"next_run": following, "seen": self._watch.stamps(schedule.sources)}
        if self._is_covered(schedule, fired["seen"]):
            return ScheduleChange(schedule.subject, expected, fired)
        job = JobRecord.new(
            schedule.job_kind, table=schedule.table, columns=schedule.columns, request=dict(schedule.request)
        )
        fired |= {"job_id": job.id, "last_job_id": job.id, "last_run": now, "skipped": 0, "waiting_told": False}
        due = {
            "schedule": schedule.subject,
            "due": None if schedule.next_run is None else schedule.next_run.isoformat(),
        }
        told = EventDraft(kind="queued", message=f"Its schedule was due ({schedule.title}).", detail=due)
        return ScheduleChange(schedule.subject, expected, fired, job=job, events=(told,))

    def _impossible(self, schedule: ScheduleRecord, problem: LanceGpuError) -> ScheduleChange:
        """A schedule that cannot be dealt with here, such as for a time zone that this machine lacks: it alone backs off."""
        streak = schedule.streak + 1
        values = {
            "streak": streak,
            "last_error": {"type": type(problem).__name__, "message": problem.message},
            "next_run": self._now() + timedelta(seconds=back_off_seconds(streak)),
        }
        event = EventDraft(kind="backs_off", message=problem.message)
        return ScheduleChange(schedule.subject, {"next_run": schedule.next_run}, values, events=(event,))

    def _is_covered(self, schedule: ScheduleRecord, stamps: Mapping[str, str]) -> bool:
        """Whether a refresh would do nothing, so that none is queued."""
        if schedule.streak:
            return False
        if schedule.rule.kind == "on_change":
            return not self._has_news(schedule)
        left = (schedule.last_result or {}).get("rows_remaining")
        return bool(schedule.sources) and stamps == schedule.seen and left == 0

    def _skipped(self, held: ScheduledJob) -> tuple[EventDraft, ...]:
        if held.schedule.skipped:
            return ()  # said once for each job that takes so long; how often it was is counted
        told = f"A due refresh was skipped: job {held.schedule.job_id} of the last one is {held.state}."
        detail = {"job_id": held.schedule.job_id}
        return (EventDraft(kind="skipped", message=told, detail=detail),)

    def _has_news(self, schedule: ScheduleRecord) -> bool:
        try:
            return self._sources.has_news(schedule)
        except LanceGpuError:
            return True  # the refresh meets the same, and says so

    def _notice_changes(self) -> None:
        due_at = self._now() + self._debounce
        expected = {"next_run": None, "job_id": None, "enabled": True}
        self._catalog.change_schedules(
            [ScheduleChange(subject, expected, {"next_run": due_at}) for subject in self._watch.changed()]
        )

    # Who wants to know

    def _tell_of_failure(self, schedule: ScheduleRecord, error: Mapping[str, Any]) -> None:
        if schedule.on_failure is not None:
            facts = {"event": "failure", "streak": schedule.streak, "next_run": schedule.next_run, "error": error}
            self._call(schedule, schedule.on_failure, facts | {"job_id": schedule.last_job_id})

    def _tell_of_waits(self) -> None:
        now = self._now()
        late = [
            held
            for held in self._catalog.waiting_schedules(MOST_AT_ONCE)
            if held.waiting_on is not None
            and now - held.waiting_on.since >= timedelta(seconds=held.schedule.waiting_limit_seconds or 0.0)
        ]
        changes = [
            ScheduleChange(
                one.schedule.subject, {"job_id": one.schedule.job_id, "waiting_told": False}, {"waiting_told": True}
            )
            for one in late
        ]
        won = self._catalog.change_schedules(changes)
        for held in late:
            if held.schedule.subject in won and held.schedule.on_waiting is not None and held.waiting_on is not None:
                facts = {
                    "event": "waiting",
                    "job_id": held.schedule.job_id,
                    "waiting_on": held.waiting_on.model_dump(mode="json"),
                    "waiting_seconds": round((now - held.waiting_on.since).total_seconds(), 1),
                }
                self._call(held.schedule, held.schedule.on_waiting, facts)

    def _call(self, schedule: ScheduleRecord, hook: Hook, facts: Mapping[str, Any]) -> None:
        about = {"schedule": schedule.title, "subject": schedule.subject, "table": schedule.table}
        name = hook_told(hook)

        def told(problem: str | None) -> None:
            kind = "hook_called" if problem is None else "hook_failed"
            message = f"{name} was called." if problem is None else f"{name} could not be called: {problem}"
            if problem is not None:
                _log.warning("Schedule %s: %s", schedule.title, message)
            try:
                self._catalog.add_schedule_event(schedule.subject, kind, message)
            except CatalogError as refused:
                _log.warning("The catalog does not answer: %s", refused)

        self._hooks.call(hook, {**self._facts, **about, **facts}, told)


def _next(schedule: ScheduleRecord, now: datetime) -> datetime | None:
    """When it is due after this time: later than now and than what it was due at, whosoever's clock is slow."""
    after = now if schedule.next_run is None else max(now, schedule.next_run)
    return next_run(schedule.rule, schedule.subject, anchor=schedule.created_at, after=after)
