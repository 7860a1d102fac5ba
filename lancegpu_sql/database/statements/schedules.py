"""SET SCHEDULE, DROP SCHEDULE and SHOW SCHEDULES carried out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.schedule_models import ScheduleRule, column_subject
from lancegpu_sql.database import schedules
from lancegpu_sql.database.schedule_infos import ScheduleInfo, schedule_infos
from lancegpu_sql.database.statements.columns import OPTIONS, add_computed, is_there
from lancegpu_sql.database.statements.context import Context, column_of, of_own_table
from lancegpu_sql.errors import InvalidInput, InvalidQuery, TableNotFound
from lancegpu_sql.jobs.schedules import rule as rules
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.sql.statements import model
from lancegpu_sql.sql.statements.fault import fault

_TIME = pa.timestamp("us", "UTC")
_SCHEDULES = pa.schema(
    [
        ("schedule", pa.string()),
        ("kind", pa.string()),
        ("table", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("rule", pa.string()),
        ("enabled", pa.bool_()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("last_run", _TIME),
        ("next_run", _TIME),
        ("job_id", pa.string()),
        ("mode", pa.string()),
        ("rows", pa.int64()),
        ("streak", pa.int64()),
        ("error", pa.string()),
        ("skipped", pa.int64()),
        ("on_failure", pa.string()),
        ("on_waiting", pa.string()),
        ("waiting_limit_seconds", pa.float64()),
    ]
)
_OF_REFRESH = tuple(name for name in OPTIONS if name != "wait")
HOOKS = ("on_failure", "on_waiting", "on_waiting_longer_than")


@of_own_table
def set_column(context: Context, statement: model.SetColumnSchedule) -> QueryResult:
    """Let a computed column be refreshed by a schedule."""
    rule, given = rule_of(context, statement.schedule), _given(context, statement.options)
    return _set(context, statement.table, statement.column, rule, given)


@of_own_table
def add_column(context: Context, statement: model.AddComputedColumn) -> QueryResult:
    """Declare a computed column, and when it is refreshed if that is said along with it."""
    if statement.schedule is None or is_there(
        context.snapshot(statement.table), statement.column, statement.if_not_exists
    ):
        return add_computed(context, statement)
    rule, given = rule_of(context, statement.schedule), _given(context, statement.options)
    add_computed(context, statement)
    return _set(context, statement.table, statement.column, rule, given)


@of_own_table
def drop_column(context: Context, statement: model.DropColumnSchedule) -> QueryResult:
    """Forget the schedule of a column."""
    schedules.drop_schedule(context.services, _subject(context, statement.table, statement.column))
    return context.done()


@of_own_table
def enable_column(context: Context, statement: model.EnableColumnSchedule) -> QueryResult:
    """Switch the schedule of a column on or off."""
    subject = _subject(context, statement.table, statement.column)
    schedules.switch_schedule(context.services, subject, enabled=statement.enabled)
    return context.done()


def show(context: Context, statement: model.ShowSchedules) -> QueryResult:
    """List the schedules."""
    known = None if statement.table is None else context.table_name(statement.table)
    table = known or (statement.table[-1] if statement.table is not None else None)
    found = schedule_infos(context.services, table)
    if table is not None and known is None and not found:  # one that another program removed may still have some
        raise TableNotFound(context.session.no_table(table).message, table=table)
    return context.rows(_SCHEDULES, [_row(one) for one in found])


def rule_of(context: Context, clause: model.ScheduleClause) -> ScheduleRule:
    """Return the rule that a clause says.

    Raises
    ------
    ParseError
        It says none; the message shows where.
    """
    try:
        if clause.every is not None:
            return rules.every(clause.every, clause.jitter)
        if clause.cron is not None:
            return rules.cron(clause.cron, clause.time_zone, clause.jitter)
        return rules.on_change()
    except InvalidInput as exc:
        raise fault(context.text, clause.position, exc.message[:1].upper() + exc.message[1:]) from exc


def _given(context: Context, options: model.Options) -> dict[str, Any]:
    """Read the options of a schedule and who is to be called, as `schedule_column` takes them."""
    given = context.timed_options(options, (*_OF_REFRESH, *HOOKS))
    on_failure, waits = hooks_of(given)
    return {"on_failure": on_failure, "on_waiting_longer_than": waits, "options": given}


def _set(context: Context, table: model.Name, column: str, rule: ScheduleRule, given: dict[str, Any]) -> QueryResult:
    snapshot = context.snapshot(table)
    schedules.schedule_column(context.services, snapshot, column_of(snapshot, column), rule, **given)
    return context.done()


def _subject(context: Context, table: model.Name, column: str) -> str:
    snapshot = context.snapshot(table)
    return column_subject(snapshot.name, column_of(snapshot, column))


def hooks_of(options: dict[str, Any]) -> tuple[str | None, tuple[float, str] | None]:
    """Take who is to be called out of the options. In SQL that is a webhook: a command is set in Python alone."""
    on_failure, on_waiting, limit = (options.pop(name, None) for name in HOOKS)
    if (on_waiting is None) != (limit is None):
        raise InvalidQuery(
            "on_waiting and on_waiting_longer_than go together: WITH (on_waiting_longer_than = '10 minutes', on_waiting = "
            "'https://…')."
        )
    return on_failure, None if on_waiting is None else (limit, on_waiting)


def _row(info: ScheduleInfo) -> dict[str, Any]:
    return asdict(info) | {"state": str(info.state), "columns": list(info.columns)}
