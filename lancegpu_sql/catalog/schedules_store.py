"""The catalog's schedules: found by when they are due, changed by compare-and-set together with the jobs they queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.events_store import event_columns, insert_event
from lancegpu_sql.catalog.jobs_store import job_columns
from lancegpu_sql.catalog.models import EventDraft, JobState, WaitingOn
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schedule_models import (
    Backlog,
    ScheduleChange,
    ScheduledJob,
    ScheduleRecord,
    Watched,
    column_subject,
)
from lancegpu_sql.catalog.schema import events, jobs, schedules
from lancegpu_sql.errors import ScheduleNotFound

SCHEDULES = "schedules"
"""The subject of the events that tell which schedules were set, changed and dropped."""

_TIMES = frozenset({"created_at", "next_run", "last_run"})
_ENDED = tuple(state for state in JobState if state.ended)
_IN_FLIGHT = schedules.c.job_id > ""  # not null, said so that SQLite reads an index for it


class ScheduleStore:
    """Schedules by subject."""

    _connection: CatalogConnection

    def put_schedule(self, record: ScheduleRecord, event: EventDraft) -> None:
        """Keep a schedule in the place of the one that its subject may have; what is known of its last job stays."""
        told = columns_of(record)
        kept = {"job_id", "last_job_id", "last_run", "last_result", "skipped", "waiting_told"}
        again = {name: value for name, value in told.items() if name not in kept}

        def work(connection: sa.Connection) -> None:
            update = schedules.update().where(schedules.c.subject == record.subject).values(again)
            if not connection.execute(update).rowcount:
                connection.execute(schedules.insert().values(told))
            insert_event(connection, SCHEDULES, event, None)

        self._connection.write(work)

    def schedules(self, subjects: Collection[str] | None = None, table: str | None = None) -> list[ScheduledJob]:
        """Return schedules with the state of their jobs, by subject: all, or those that are named, or of one table."""
        query = _with_jobs(outer=True).order_by(schedules.c.subject)
        if subjects is not None:
            query = query.where(schedules.c.subject.in_(list(subjects)))
        if table is not None:
            query = query.where(schedules.c.table == table)
        return self._scheduled(query)

    def schedule(self, subject: str) -> ScheduledJob:
        """Return one schedule.

        Raises
        ------
        ScheduleNotFound
            The subject has none.
        """
        found = self.schedules([subject])
        if not found:
            raise no_schedule(subject)
        return found[0]

    def schedules_revision(self) -> int | None:
        """Return what is another number whenever schedules were set, changed or dropped by people."""
        query = sa.select(sa.func.max(events.c.id)).where(events.c.subject == SCHEDULES)
        with self._connection.reading() as connection:
            found: int | None = connection.execute(query).scalar_one()
        return found

    def watched_schedules(self, job_kinds: Collection[str]) -> list[Watched]:
        """Return the enabled schedules that are due on changes of their sources."""
        query = sa.select(schedules.c.subject, schedules.c.sources, schedules.c.seen).where(
            schedules.c.on_change.is_(True), schedules.c.enabled.is_(True), schedules.c.job_kind.in_(list(job_kinds))
        )
        with self._connection.reading() as connection:
            return [Watched(row.subject, tuple(row.sources), row.seen) for row in connection.execute(query)]

    def due_schedules(self, now: datetime, job_kinds: Collection[str], limit: int) -> list[ScheduledJob]:
        """Return schedules whose time has come, those that are due longest first."""
        query = (
            _with_jobs(outer=True)
            .where(
                schedules.c.next_run <= now,
                schedules.c.enabled.is_(True),
                schedules.c.job_kind.in_(list(job_kinds)),
            )
            .order_by(schedules.c.next_run)
            .limit(limit)
        )
        return self._scheduled(query)

    def schedules_backlog(self, now: datetime) -> Backlog:
        """Return how many schedules are due and not dealt with, and how many fail."""
        is_due = sa.and_(schedules.c.next_run <= now, schedules.c.enabled.is_(True))
        query = sa.select(
            sa.func.count().filter(is_due),
            sa.func.min(schedules.c.next_run).filter(is_due),
            sa.func.count().filter(schedules.c.streak > 0, schedules.c.enabled.is_(True)),
        )
        with self._connection.reading() as connection:
            due, due_since, failing = connection.execute(query).one()
        return Backlog(due, due_since, failing)

    def ended_schedules(self, limit: int) -> list[ScheduledJob]:
        """Return schedules whose job has ended, or is forgotten, which has not been noted yet."""
        over = jobs.c.state.is_(None) | jobs.c.state.in_(_ENDED)
        return self._scheduled(_with_jobs(outer=True).where(_IN_FLIGHT, over).limit(limit))

    def waiting_schedules(self, limit: int) -> list[ScheduledJob]:
        """Return schedules whose job waits, where someone is to be told of long waits and was not yet."""
        query = _with_jobs(outer=False).where(
            _IN_FLIGHT,
            schedules.c.waiting_limit_seconds.is_not(None),
            schedules.c.waiting_told.is_(False),
            jobs.c.state == str(JobState.WAITING),
        )
        return self._scheduled(query.limit(limit))

    def change_schedules(self, changes: Sequence[ScheduleChange]) -> set[str]:
        """Change schedules in one transaction; return the subjects of those that were as expected."""
        if not changes:
            return set()
        with self._connection.writing() as connection:
            # In one order for all, so that no two agents wait for each other.
            done = [change for change in sorted(changes, key=lambda one: one.subject) if _changed(connection, change)]
            new_jobs = [job_columns(change.job) for change in done if change.job is not None]
            told = [row for change in done for row in _events(change)]
            if new_jobs:
                connection.execute(jobs.insert(), new_jobs)
            if told:
                connection.execute(events.insert(), told)
        return {change.subject for change in done}

    def add_schedule_event(self, subject: str, kind: str, message: str) -> None:
        """Keep an event of a schedule's runs."""
        with self._connection.writing() as connection:
            insert_event(connection, subject_of_events(subject), EventDraft(kind=kind, message=message), None)

    def alter_schedule(self, subject: str, event: EventDraft, /, **values: Any) -> None:
        """Change a schedule as someone asked.

        Raises
        ------
        ScheduleNotFound
            The subject has none.
        """
        with self._connection.writing() as connection:
            if not connection.execute(schedules.update().where(schedules.c.subject == subject).values(values)).rowcount:
                raise no_schedule(subject)
            insert_event(connection, SCHEDULES, event, None)

    def drop_schedules(self, subjects: Iterable[str], why: str) -> list[str]:
        """Forget schedules; return the subjects that had one."""
        with self._connection.writing() as connection:
            gone = schedules.delete().where(schedules.c.subject.in_(list(subjects))).returning(schedules.c.subject)
            return _tell_dropped(connection, connection.execute(gone).scalars(), why)

    def drop_schedules_of_table(self, table: str) -> list[str]:
        """Forget the schedules of a table that is dropped or replaced."""
        with self._connection.reading() as connection:  # there is seldom one, and a look needs no lock
            if connection.execute(sa.select(schedules.c.subject).where(schedules.c.table == table)).first() is None:
                return []
        with self._connection.writing() as connection:
            gone = schedules.delete().where(schedules.c.table == table).returning(schedules.c.subject)
            return _tell_dropped(connection, connection.execute(gone).scalars(), f"table {table!r} was dropped")

    def rename_scheduled_column(self, table: str, column: str, new_name: str) -> None:
        """Let the schedules of a table know a column by its new name."""
        for held in self.schedules(table=table):
            record = held.schedule
            if column not in record.columns:
                continue
            values: dict[str, Any] = {"columns": [new_name if one == column else one for one in record.columns]}
            if record.subject == column_subject(table, column):
                values["subject"] = column_subject(table, new_name)
            told = f"{record.title} follows column {column!r} of table {table!r}, which is {new_name!r} now."
            self.alter_schedule(record.subject, EventDraft(kind="renamed", message=told), **values)

    def _scheduled(self, query: sa.Select[Any]) -> list[ScheduledJob]:
        with self._connection.reading() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [_scheduled_job(row) for row in rows]


def subject_of_events(subject: str) -> str:
    """Return the subject of the events that tell of one schedule's runs."""
    return f"schedule {subject}"[:300]


def no_schedule(subject: str) -> ScheduleNotFound:
    """Return the error for a subject without a schedule."""
    return ScheduleNotFound(
        f"There is no schedule of {subject}. Set one, or look at the list of schedules.", subject=subject
    )


def _tell_dropped(connection: sa.Connection, subjects: Iterable[str], why: str) -> list[str]:
    found = sorted(subjects)
    for subject in found:
        insert_event(
            connection, SCHEDULES, EventDraft(kind="dropped", message=f"The schedule of {subject}: {why}."), None
        )
    return found


def _with_jobs(*, outer: bool) -> sa.Select[Any]:
    about_job = [jobs.c[name].label(f"job_{name}") for name in ("state", "waiting_on", "result", "error")]
    joined = schedules.join(jobs, jobs.c.id == schedules.c.job_id, isouter=outer)
    return sa.select(schedules, *about_job).select_from(joined)


def _scheduled_job(row: dict[str, Any]) -> ScheduledJob:
    about = {name: row.pop(f"job_{name}") for name in ("state", "waiting_on", "result", "error")}
    row.pop("on_change")
    waiting = about["waiting_on"]
    return ScheduledJob(
        value_of(ScheduleRecord, row, table="schedules", subject=row["subject"]),
        None if about["state"] is None else JobState(about["state"]),
        None if waiting is None else WaitingOn.model_validate(waiting),
        about["result"],
        about["error"],
    )


def columns_of(record: ScheduleRecord) -> dict[str, Any]:
    """Return a schedule as the columns of its row."""
    dumped = record.model_dump(mode="json", exclude=set(_TIMES))
    times = {name: getattr(record, name) for name in _TIMES}
    return dumped | times | {"on_change": record.rule.kind == "on_change"}


def _changed(connection: sa.Connection, change: ScheduleChange) -> bool:
    """Change a schedule if it is as expected."""
    known = tuple((name, value is None) for name, value in change.expected.items())
    given = {f"expected_{name}": value for name, value in change.expected.items() if value is not None}
    told = {f"new_{name}": value for name, value in change.values.items()}
    statement = _update(known, tuple(change.values))
    return bool(connection.execute(statement, {"of": change.subject, **given, **told}).rowcount)


@cache
def _update(expected: tuple[tuple[str, bool], ...], values: tuple[str, ...]) -> sa.Update:
    """An update of one row. The same object each time: to build one takes longer than to run it."""
    as_expected = [
        schedules.c[name].is_(None) if is_null else schedules.c[name] == sa.bindparam(f"expected_{name}")
        for name, is_null in expected
    ]
    update = schedules.update().where(schedules.c.subject == sa.bindparam("of"), *as_expected)
    return update.values({name: sa.bindparam(f"new_{name}") for name in values})


def _events(change: ScheduleChange) -> list[dict[str, Any]]:
    if change.job is not None:
        return [event_columns("job", event, change.job.id) for event in change.events]
    return [event_columns(subject_of_events(change.subject), event, None) for event in change.events]
