"""The catalog's jobs: what is known of each, changed by compare-and-set, each change together with its event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.events_store import insert_event
from lancegpu_sql.catalog.models import OWNED, EventDraft, JobRecord, JobState, ProcessIdentity
from lancegpu_sql.catalog.rows import value_of
from lancegpu_sql.catalog.schema import jobs
from lancegpu_sql.errors import AlreadyExists, Conflict, JobNotFound

_TIMES = frozenset({"created_at", "started_at", "finished_at"})
_ENDED = tuple(state for state in JobState if state.ended)
_BESIDE_THE_RECORD = frozenset({"heartbeat"})
"""Columns that say nothing about the job itself, and change all the time."""

_LEAST_PART = 4
_NAMED_JOBS = 5


class JobStore:
    """Jobs by id; ids sort by time."""

    _connection: CatalogConnection

    def add_job(self, record: JobRecord, events: Iterable[EventDraft] = ()) -> None:
        """Keep a new job, and the events that tell of it, in one transaction.

        Raises
        ------
        AlreadyExists
            The catalog has a job of that id.
        """
        with self._connection.writing() as connection:
            if connection.execute(sa.select(jobs.c.id).where(jobs.c.id == record.id)).first():
                raise AlreadyExists(f"Job {record.id} stands in the catalog already.", job_id=record.id)
            connection.execute(jobs.insert().values(job_columns(record)))
            for event in events:
                insert_event(connection, "job", event, record.id)

    def job(self, job_id: str) -> JobRecord:
        """Return a job.

        Raises
        ------
        JobNotFound
            No such job, or it has been pruned.
        """
        with self._connection.reading() as connection:
            return _job(connection, job_id)

    def find_job(self, id_or_part: str) -> JobRecord:
        """Return the job of that id, or the one whose id alone begins or ends so (from 4 characters on).

        Raises
        ------
        JobNotFound
            No such job, or it has been pruned.
        Conflict
            Several ids begin or end so.
        """
        whole = jobs.c.id == id_or_part
        part = jobs.c.id.startswith(id_or_part, autoescape=True) | jobs.c.id.endswith(id_or_part, autoescape=True)
        wanted = whole | part if len(id_or_part) >= _LEAST_PART else whole
        with self._connection.reading() as connection:
            rows = connection.execute(sa.select(jobs).where(wanted).order_by(jobs.c.id).limit(_NAMED_JOBS)).mappings()
            found = [_record(row) for row in rows]
        exact = [record for record in found if record.id == id_or_part]
        if len(exact or found) > 1:
            named = ", ".join(record.id for record in found)
            raise Conflict(
                f"{id_or_part!r} is part of the ids of several jobs ({named}{', …' if len(found) == _NAMED_JOBS else ''}); "
                "write more of the one you mean.",
                job_ids=[record.id for record in found],
            )
        if not found:
            raise _no_job(id_or_part)
        return (exact or found)[0]

    def jobs(
        self,
        table: str | None = None,
        states: Collection[JobState] | None = None,
        limit: int | None = None,
        without_finished: Collection[str] = (),
    ) -> list[JobRecord]:
        """Return jobs, newest first, but none of the kinds `without_finished` that has finished."""
        query = sa.select(jobs).order_by(jobs.c.id.desc()).limit(limit)
        if table is not None:
            query = query.where(jobs.c.table == table)
        if states is not None:
            query = query.where(jobs.c.state.in_([str(state) for state in states]))
        if without_finished:
            query = query.where(~_finished(without_finished))
        with self._connection.reading() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def queued_jobs(self, kinds: Collection[str], limit: int) -> list[JobRecord]:
        """Return queued jobs of these kinds, oldest first."""
        queued = (jobs.c.state == str(JobState.QUEUED)) & jobs.c.kind.in_(list(kinds))
        with self._connection.reading() as connection:
            rows = connection.execute(sa.select(jobs).where(queued).order_by(jobs.c.id).limit(limit)).mappings()
            return [_record(row) for row in rows]

    def update_job(
        self,
        job_id: str,
        *,
        expected_states: Collection[JobState] | None = None,
        expected_owner: ProcessIdentity | None = None,
        expected_lease: str | None = None,
        expected_heartbeat: int | None = None,
        events: Iterable[EventDraft] = (),
        **changes: Any,
    ) -> JobRecord:
        """Change fields of a job, and keep the events that tell of it, in one transaction; return the job as changed.

        Parameters
        ----------
        expected_states, expected_owner, expected_lease, expected_heartbeat
            Change nothing unless the job is in one of these states, belongs to this process, is in this run of it, or has
            given no sign of life since this one.

        Raises
        ------
        JobNotFound
            No such job.
        Conflict
            The job is not as expected: another process was first. `state` and `owner` say how it is.
        """
        with self._connection.writing() as connection:
            present = _job(connection, job_id, for_update=True)
            if expected_states is not None and present.state not in expected_states:
                wanted = " or ".join(sorted(expected_states))
                raise Conflict(
                    f"Job {job_id} is {present.state}, not {wanted}: it changed in the meantime.",
                    job_id=job_id,
                    state=present.state,
                    owner=present.owner,
                )
            if expected_owner is not None and present.owner != expected_owner:
                holder = "nobody" if present.owner is None else f"process {present.owner.pid} on {present.owner.host}"
                raise Conflict(
                    f"Job {job_id} belongs to {holder}, no longer to process {expected_owner.pid}.",
                    job_id=job_id,
                    state=present.state,
                    owner=present.owner,
                )
            if (expected_lease is not None and present.lease != expected_lease) or (
                expected_heartbeat is not None and _heartbeat(connection, job_id) != expected_heartbeat
            ):
                raise Conflict(
                    f"Job {job_id} was taken again, or gave a sign of life, in the meantime.",
                    job_id=job_id,
                    state=present.state,
                    owner=present.owner,
                )
            changed = JobRecord.model_validate(dict(present) | changes)
            if changes:
                columns = job_columns(changed, changes.keys())
                connection.execute(jobs.update().where(jobs.c.id == job_id).values(columns))
            for event in events:
                insert_event(connection, "job", event, job_id)
        return changed

    def request_cancel(self, job_id: str) -> JobRecord:
        """Ask a job's owner, whichever process that is, to stop; a job that has ended is left as it is.

        Raises
        ------
        JobNotFound
            No such job.
        """
        return self._request(job_id, "cancel_requested", "Someone asked the job to stop.")

    def request_pause(self, job_id: str) -> JobRecord:
        """Ask a job's owner, whichever process that is, to hold it; a job that has ended is left as it is.

        Raises
        ------
        JobNotFound
            No such job.
        """
        return self._request(job_id, "pause_requested", "Someone asked the job to pause.")

    def _request(self, job_id: str, flag: str, message: str) -> JobRecord:
        """Set a flag that is not set yet, and keep the event of that name."""
        column = jobs.c[flag]
        change = (
            jobs.update()
            .where(jobs.c.id == job_id, jobs.c.state.not_in(_ENDED), column.is_(False))
            .values({column: True})
        )
        with self._connection.writing() as connection:
            record = _job(connection, job_id, for_update=True)
            if connection.execute(change).rowcount:
                insert_event(connection, "job", EventDraft(kind=flag, message=message), job_id)
                record = record.model_copy(update={flag: True})
        return record

    def pauses_requested(self, job_ids: Iterable[str]) -> set[str]:
        """Return which of these jobs someone asked to pause."""
        query = sa.select(jobs.c.id).where(jobs.c.id.in_(list(job_ids)), jobs.c.pause_requested.is_(True))
        with self._connection.reading() as connection:
            return set(connection.execute(query).scalars())

    def beat_jobs(self, leases: Mapping[str, str]) -> set[str]:
        """Give a sign of life of jobs, by id with the lease of their run; return those that are in another run, or in none."""
        mine = jobs.c.lease.in_(list(leases.values())) & jobs.c.state.in_(OWNED)
        beat = jobs.update().where(mine).values(heartbeat=jobs.c.heartbeat + 1).returning(jobs.c.id)
        with self._connection.writing() as connection:
            return set(leases) - set(connection.execute(beat).scalars())

    def heartbeats(self) -> dict[str, tuple[str | None, int]]:
        """Return of each job that a process works on its lease and how many signs of life it gave."""
        query = sa.select(jobs.c.id, jobs.c.lease, jobs.c.heartbeat).where(jobs.c.state.in_(OWNED))
        with self._connection.reading() as connection:
            return {row.id: (row.lease, row.heartbeat) for row in connection.execute(query)}

    def count_jobs(self) -> dict[JobState, int]:
        """Return how many jobs there are in each state."""
        query = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        with self._connection.reading() as connection:
            counted = {JobState(state): number for state, number in connection.execute(query).tuples()}
        return {state: counted.get(state, 0) for state in JobState}

    def cancels_requested(self, job_ids: Iterable[str]) -> set[str]:
        """Return which of these jobs someone asked to stop."""
        query = sa.select(jobs.c.id).where(jobs.c.id.in_(list(job_ids)), jobs.c.cancel_requested.is_(True))
        with self._connection.reading() as connection:
            return set(connection.execute(query).scalars())

    def prune_finished(self, kinds: Collection[str], keep: int) -> list[str]:
        """Forget all but the newest finished jobs of these kinds, with their events, once there are a quarter too many.

        Return their ids.
        """
        with self._connection.reading() as connection:
            newest = sa.select(jobs.c.id).where(_finished(kinds)).order_by(jobs.c.id.desc()).limit(keep + keep // 4 + 1)
            found = list(connection.execute(newest).scalars())
        if len(found) <= keep + keep // 4:
            return []
        old = _finished(kinds) & (jobs.c.id <= found[keep])
        with self._connection.writing() as connection:
            return list(connection.execute(jobs.delete().where(old).returning(jobs.c.id)).scalars())

    def prune_jobs(self, ended_before: datetime) -> list[str]:
        """Forget jobs that ended before a time, with their events; return their ids."""
        old = sa.and_(jobs.c.state.in_(_ENDED), jobs.c.finished_at < ended_before)
        with self._connection.reading() as connection:  # there is seldom one, and a look needs no lock
            if connection.execute(sa.select(jobs.c.id).where(old).limit(1)).first() is None:
                return []
        with self._connection.writing() as connection:
            return list(connection.execute(jobs.delete().where(old).returning(jobs.c.id)).scalars())


def _job(connection: sa.Connection, job_id: str, *, for_update: bool = False) -> JobRecord:
    query = sa.select(jobs).where(jobs.c.id == job_id)
    row = connection.execute(query.with_for_update() if for_update else query).mappings().one_or_none()
    if row is None:
        raise _no_job(job_id)
    return _record(row)


def _finished(kinds: Collection[str]) -> sa.ColumnElement[bool]:
    return jobs.c.kind.in_(list(kinds)) & (jobs.c.state == str(JobState.FINISHED))


def _no_job(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"No job {job_id!r} in this database. lancegpu jobs list --all, or db.list_jobs(), tells those there are; those that "
        "ended long ago are forgotten.",
        job_id=job_id,
    )


def _record(row: sa.RowMapping) -> JobRecord:
    fields = {name: value for name, value in row.items() if name not in _BESIDE_THE_RECORD}
    return value_of(JobRecord, fields, table="jobs", id=row["id"])


def _heartbeat(connection: sa.Connection, job_id: str) -> int:
    found: int = connection.execute(sa.select(jobs.c.heartbeat).where(jobs.c.id == job_id)).scalar_one()
    return found


def job_columns(record: JobRecord, fields: Collection[str] | None = None) -> dict[str, Any]:
    """Return a job's fields as columns: JSON values, and times as times."""
    times = _TIMES if fields is None else _TIMES & set(fields)
    rest = None if fields is None else set(fields) - _TIMES
    dumped = record.model_dump(mode="json", include=rest, exclude=set(_TIMES))
    return dumped | {name: getattr(record, name) for name in times}
