"""What is shown of GPU classes and jobs, and what is asked of a job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.database.gpu_classes import gpu_class_infos
from lancegpu_sql.database.jobs import followed, requeue
from lancegpu_sql.database.jobs import resume as resume_job
from lancegpu_sql.database.jobs import show as show_job
from lancegpu_sql.database.row_errors import errors_of_table, errors_of_view
from lancegpu_sql.database.statements.columns import LEFT_TO_AGENTS
from lancegpu_sql.database.statements.context import Context, as_json, column_of
from lancegpu_sql.errors import TableNotFound
from lancegpu_sql.jobs.errors import RowError
from lancegpu_sql.jobs.housekeeping import settle_dead
from lancegpu_sql.jobs.job import ENDS_WITH_PROCESS
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.views.model import view_of
from lancegpu_sql.sql.statements import model

_TIME = pa.timestamp("us", "UTC")
_CLASSES = pa.schema(
    [
        ("name", pa.string()),
        ("resource_name", pa.string()),
        ("gpu_model", pa.string()),
        ("gpu_memory_bytes", pa.int64()),
        ("max_gpu_count_per_worker", pa.int64()),
        ("simulated", pa.bool_()),
    ]
)
_JOBS = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("table", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("state", pa.string()),
        ("waiting_on", pa.string()),
        ("reason", pa.string()),
        ("rows_planned", pa.int64()),
        ("rows_computed", pa.int64()),
        ("rows_reused", pa.int64()),
        ("rows_failed", pa.int64()),
        ("created_at", _TIME),
        ("started_at", _TIME),
        ("finished_at", _TIME),
        ("error", pa.string()),
    ]
)
_DESCRIBED = pa.schema(
    [
        *_JOBS,
        ("waiting_since", _TIME),
        ("phase", pa.string()),
        ("seconds_left", pa.float64()),
        ("request", pa.string()),
        ("result", pa.string()),
        ("timings", pa.string()),
    ]
)
_ERRORS = pa.schema(
    [
        ("type", pa.string()),
        ("message", pa.string()),
        ("function", pa.string()),
        ("version", pa.int64()),
        ("row_id", pa.uint64()),
        ("arguments", pa.string()),
        ("traceback", pa.string()),
        ("owner", pa.string()),
        ("digest", pa.string()),
        ("tries", pa.int64()),
        ("job_id", pa.string()),
        ("at", _TIME),
    ]
)
_COLUMN_ERRORS = pa.schema([("column", pa.string()), *_ERRORS])
_EVENTS = pa.schema([("at", _TIME), ("kind", pa.string()), ("message", pa.string()), ("detail", pa.string())])


def show_gpu_classes(context: Context, statement: model.ShowGpuClasses) -> QueryResult:  # noqa: ARG001 - one shape for all
    """List the GPU classes."""
    return context.rows(_CLASSES, [asdict(each) for each in gpu_class_infos(context.services.catalog)])


def show(context: Context, statement: model.ShowJobs) -> QueryResult:
    """List the jobs, newest first; queries that finished only if all are asked for."""
    catalog = context.services.catalog
    settle_dead(catalog)
    known = None if statement.table is None else context.table_name(statement.table)
    table = known or (statement.table[-1] if statement.table is not None else None)
    found = catalog.jobs(table=table, without_finished=() if statement.every else ENDS_WITH_PROCESS)
    if table is not None and known is None and not found:  # of a table that is gone the jobs are still known
        raise TableNotFound(context.session.no_table(table).message, table=table)
    return context.rows(_JOBS, [_row(each) for each in found])


def describe(context: Context, statement: model.DescribeJob) -> QueryResult:
    """Tell all of a job."""
    return context.rows(_DESCRIBED, [_row(record) | _details(record) for record in [_record(context, statement.job)]])


def show_errors(context: Context, statement: model.ShowErrors) -> QueryResult:
    """Tell why rows of a job failed and why it did, or why those rows of a table did that are failed now."""
    if statement.job is not None:
        return context.rows(_ERRORS, [_error(each) for each in followed(context.services, statement.job).errors()])
    assert statement.table is not None
    snapshot = context.snapshot(statement.table)
    view = view_of(snapshot) if statement.column is None else None
    if view is not None:
        errors = errors_of_view(context.services, view)
        return context.rows(_COLUMN_ERRORS, [{"column": None, **_error(each)} for each in errors])
    every = [each.column for each in snapshot.computed]
    columns = every if statement.column is None else [column_of(snapshot, statement.column)]
    found = errors_of_table(context.services, snapshot, columns)
    return context.rows(_COLUMN_ERRORS, [{"column": column, **_error(each)} for column, each in found])


def _error(error: RowError) -> dict[str, Any]:
    row = {name: getattr(error, name) for name in _ERRORS.names if name not in ("type", "arguments")}
    return {"type": error.error_type, "arguments": as_json(error.arguments), **row}


def show_events(context: Context, statement: model.ShowEvents) -> QueryResult:
    """Tell what happened to a job, oldest first."""
    events = followed(context.services, statement.job).events()
    rows = [
        {"at": each.at, "kind": each.kind, "message": each.message, "detail": as_json(each.detail or None)}
        for each in events
    ]
    return context.rows(_EVENTS, rows)


def cancel(context: Context, statement: model.CancelJob) -> QueryResult:
    """Ask a job to stop."""
    followed(context.services, statement.job).cancel()
    return _state(context, statement.job)


def pause(context: Context, statement: model.PauseJob) -> QueryResult:
    """Ask a job to hold."""
    followed(context.services, statement.job).pause()
    return _state(context, statement.job)


def resume(context: Context, statement: model.ResumeJob) -> QueryResult:
    """Go on with a job, here or by the database's agents."""
    services = context.services
    if statement.wait:
        show_job(services, resume_job(services, statement.job))
    else:
        requeue(services, statement.job)
    return _state(context, statement.job)


def _state(context: Context, job: str) -> QueryResult:
    record = _record(context, job)
    return context.rows(LEFT_TO_AGENTS, [{"job_id": record.id, "state": str(record.state)}])


def _record(context: Context, job: str) -> JobRecord:
    return followed(context.services, job).record


def _row(record: JobRecord) -> dict[str, Any]:
    waiting, progress = record.waiting_on, record.progress
    return {
        "id": record.id,
        "kind": record.kind,
        "table": record.table,
        "columns": list(record.columns),
        "state": str(record.state),
        "waiting_on": waiting and waiting.gpu_class,
        "reason": waiting and waiting.message,
        "rows_planned": progress and progress.rows_planned,
        "rows_computed": progress and progress.rows_computed,
        "rows_reused": progress and progress.rows_reused,
        "rows_failed": progress and progress.rows_failed,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "error": (record.error or {}).get("message"),
    }


def _details(record: JobRecord) -> dict[str, Any]:
    waiting, progress = record.waiting_on, record.progress
    return {
        "waiting_since": waiting and waiting.since,
        "phase": progress and progress.phase,
        "seconds_left": progress and progress.seconds_left,
        "request": as_json(record.request),
        "result": as_json(record.result),
        "timings": as_json(record.timings),
    }
