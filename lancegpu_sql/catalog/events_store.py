"""The catalog's events: what happened, in words for people, numbered in the order it was kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.models import EventDraft, EventRecord, utc_now
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schema import events, jobs
from lancegpu_sql.errors import JobNotFound


class EventStore:
    """Events of jobs and of other subjects."""

    _connection: CatalogConnection

    def add_event(
        self,
        subject: str,
        kind: str,
        message: str,
        detail: Mapping[str, Any] | None = None,
        job_id: str | None = None,
    ) -> None:
        """Keep an event.

        Raises
        ------
        JobNotFound
            `job_id` names no job.
        """
        draft = EventDraft(kind=kind, message=message, detail=dict(detail or {}))
        with self._connection.writing() as connection:
            known = job_id is None or connection.execute(sa.select(jobs.c.id).where(jobs.c.id == job_id)).first()
            if not known:
                raise JobNotFound(f"No job {job_id!r} in this database.", job_id=job_id)
            insert_event(connection, subject, draft, job_id)

    def events(self, job_id: str | None = None, subject: str | None = None, after_id: int = 0) -> list[EventRecord]:
        """Return events, oldest first; of one job, of one subject, or after one that the caller has seen."""
        query = sa.select(events).where(events.c.id > after_id).order_by(events.c.id)
        if job_id is not None:
            query = query.where(events.c.job_id == job_id)
        if subject is not None:
            query = query.where(events.c.subject == subject)
        with self._connection.reading() as connection:
            rows = connection.execute(query).mappings()
            return [value_of(EventRecord, dict(row), table="events", id=row["id"]) for row in rows]

    def prune_events(self, before: datetime) -> None:
        """Forget events that belong to no job and are older than a time; those of a job go with it."""
        old = events.c.job_id.is_(None) & (events.c.at < before)
        with self._connection.reading() as connection:
            if connection.execute(sa.select(events.c.id).where(old).limit(1)).first() is None:
                return
        with self._connection.writing() as connection:
            connection.execute(events.delete().where(old))


def insert_event(connection: sa.Connection, subject: str, draft: EventDraft, job_id: str | None) -> None:
    """Keep an event inside the caller's transaction."""
    connection.execute(events.insert().values(event_columns(subject, draft, job_id)))


def event_columns(subject: str, draft: EventDraft, job_id: str | None) -> dict[str, Any]:
    """Return an event that happens now as the columns of its row."""
    return {
        "job_id": job_id,
        "subject": subject,
        "at": utc_now(),
        "kind": draft.kind,
        "message": draft.message,
        "detail": draft.model_dump(mode="json")["detail"],
    }
