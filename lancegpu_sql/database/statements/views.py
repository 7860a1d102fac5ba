"""CREATE, ALTER, REFRESH, SHOW, DESCRIBE and DROP MATERIALIZED VIEW, and EXPLAIN REFRESH, carried out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.schedule_models import view_subject
from lancegpu_sql.database import schedules, views
from lancegpu_sql.database.statements.columns import LEFT_TO_AGENTS
from lancegpu_sql.database.statements.context import Context, as_json
from lancegpu_sql.database.statements.schedules import HOOKS, hooks_of, rule_of
from lancegpu_sql.database.view import MaterializedView
from lancegpu_sql.database.view_needs import list_views
from lancegpu_sql.database.view_status import ViewStatus, explained, status_of
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.request import RefreshResult
from lancegpu_sql.refresh.views.model import View, open_view
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.sql.statements import model

OPTIONS = (*ViewOptions.model_fields, "wait")
_OF_SCHEDULE = tuple(name for name in ViewOptions.model_fields if name != "full")

_REFRESHED = pa.schema(
    [
        ("mode", pa.string()),
        ("rows_assigned", pa.int64()),
        ("rows_removed", pa.int64()),
        ("rows_failed", pa.int64()),
        ("calls_made", pa.int64()),
        ("calls_reused", pa.int64()),
        ("source_versions", pa.string()),
        ("version", pa.int64()),
        ("job_id", pa.string()),
    ]
)
_SHOWN = pa.schema(
    [
        ("view", pa.string()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("rows", pa.int64()),
        ("version", pa.int64()),
        ("refreshed_at", pa.timestamp("us", "UTC")),
        ("source_versions", pa.string()),
        ("calls_failed", pa.int64()),
    ]
)
_DESCRIBED = pa.schema(
    [
        *_SHOWN,
        ("query", pa.string()),
        ("refresh", pa.string()),
        ("why_full", pa.string()),
        ("sources", pa.list_(pa.string())),
        ("functions", pa.list_(pa.string())),
        ("created_at", pa.timestamp("us", "UTC")),
    ]
)
_PLANNED = pa.schema(
    [
        ("mode", pa.string()),
        ("reason", pa.string()),
        ("rows_to_compute", pa.int64()),
        ("rows_to_remove", pa.int64()),
        ("calls_expected", pa.int64()),
        ("calls_at_most", pa.int64()),
        ("results_kept", pa.int64()),
    ]
)


def create(context: Context, statement: model.CreateView) -> QueryResult:
    """Make a view, and fill it."""
    name = _own_name(context, statement.view)
    hooks = () if statement.schedule is None else HOOKS
    options = context.timed_options(statement.options, (*_OF_SCHEDULE, *hooks))
    on_failure, waits = hooks_of(options)
    ViewOptions.of(**options)
    rule = None if statement.schedule is None else rule_of(context, statement.schedule)
    if statement.if_not_exists and context.table_name(statement.view) is not None:
        views.view_named(context.services, name)  # a table of that name is no view that is there already
        return context.done()
    with context.told_of(f"FROM (\n{statement.query}\n) LIMIT 0", (statement.query,)):
        view = views.create_view(context.services, name, statement.query)
    assert view is not None
    if rule is not None:
        view.set_schedule(rule, on_failure=on_failure, on_waiting_longer_than=waits, **options)
    return _refreshed(context, views.fill(context.services, view, options)) if statement.with_data else context.done()


def set_schedule(context: Context, statement: model.SetViewSchedule) -> QueryResult:
    """Let a view be refreshed by a schedule."""
    view = _view(context, statement.view)
    options = context.timed_options(statement.options, (*_OF_SCHEDULE, *HOOKS))
    on_failure, waits = hooks_of(options)
    rule = rule_of(context, statement.schedule)
    view.set_schedule(rule, on_failure=on_failure, on_waiting_longer_than=waits, **options)
    return context.done()


def drop_schedule(context: Context, statement: model.DropViewSchedule) -> QueryResult:
    """Forget the schedule of a view."""
    _view(context, statement.view).set_schedule(None)
    return context.done()


def enable_schedule(context: Context, statement: model.EnableViewSchedule) -> QueryResult:
    """Switch the schedule of a view on or off."""
    subject = view_subject(_view(context, statement.view).name)
    schedules.switch_schedule(context.services, subject, enabled=statement.enabled)
    return context.done()


def refresh(context: Context, statement: model.RefreshView) -> QueryResult:
    """Bring a view up to date, here or by the database's agents."""
    view = _view(context, statement.view)
    options = context.timed_options(statement.options, OPTIONS)
    if statement.wait:
        return _refreshed(context, view.refresh(**options))
    job = view.refresh(wait=False, **options)
    return context.rows(LEFT_TO_AGENTS, [{"job_id": job.id, "state": str(job.status())}])


def show(context: Context, statement: model.ShowViews) -> QueryResult:  # noqa: ARG001 - one shape for all
    """List the views."""
    found = list_views(context.services)
    return context.rows(_SHOWN, [_row(status_of(context.services, one)) for one in found])


def describe(context: Context, statement: model.DescribeView) -> QueryResult:
    """Tell all of a view."""
    view = open_view(context.services.tables, _view(context, statement.view).name)
    return context.rows(_DESCRIBED, [_row(status_of(context.services, view)) | _details(view)])


def drop(context: Context, statement: model.DropView) -> QueryResult:
    """Remove a view with all its versions."""
    if statement.if_exists and context.table_name(statement.view) is None:
        return context.done()
    views.drop_view(context.services, _view(context, statement.view).name)
    return context.done()


def explain_refresh(context: Context, statement: model.ExplainRefresh) -> QueryResult:
    """Tell what a refresh would do."""
    told = explained(context.services, _view(context, statement.view).name)
    return context.rows(_PLANNED, [told])


def _own_name(context: Context, name: model.Name) -> str:
    if not context.is_ours(name):
        raise InvalidQuery(f"A materialized view lives in this database, and {'.'.join(name)!r} is the session's.")
    return name[-1]


def _view(context: Context, name: model.Name) -> MaterializedView:
    return MaterializedView(context.services, views.view_named(context.services, _own_name(context, name)))


def _refreshed(context: Context, result: RefreshResult) -> QueryResult:
    row = result.model_dump() | {"source_versions": as_json(result.source_versions)}
    return context.rows(_REFRESHED, [row])


def _row(status: ViewStatus) -> dict[str, Any]:
    return {
        "view": status.view,
        "state": status.state,
        "reason": status.reason,
        "rows": status.rows,
        "version": status.version,
        "refreshed_at": status.refreshed_at,
        "source_versions": as_json(dict(status.source_versions)),
        "calls_failed": status.calls_failed,
    }


def _details(view: View) -> dict[str, Any]:
    definition = view.definition
    return {
        "query": definition.query,
        "refresh": "incremental" if definition.way == "rows" else "full",
        "why_full": definition.reason,
        "sources": list(definition.reads),
        "functions": list(definition.functions),
        "created_at": definition.created_at,
    }
