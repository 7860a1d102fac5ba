"""Runs a text: each statement by whoever carries its kind out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lancegpu_sql.database.services import Services
from lancegpu_sql.database.statements import changing, columns, functions, jobs, maintenance, schedules, tables, views
from lancegpu_sql.database.statements.context import Context, is_own_name
from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.session import Parameters, QuerySession
from lancegpu_sql.sql.statements import model, split

Carried = Callable[[Context, Any], QueryResult]


def run_each(
    services: Services, session: QuerySession, text: str, parameters: Parameters | None = None
) -> Iterator[QueryResult]:
    """Run a text of one or more statements; yield the result of each, which is carried out when it is asked for.

    A text with a statement that is not understood is refused as a whole. Of several statements those behind one that fails
    are not run; the error says which it was (`statement`, from 1, and the line it begins on).

    Parameters
    ----------
    parameters
        Values for ``?``, ``$1`` or ``$name`` in the last statement.

    Raises
    ------
    ParseError
        A statement is not understood; nothing was run.
    """
    statements = split(text, lambda name: not is_own_name(name, session))
    if not statements:
        raise InvalidQuery("There is no statement to run.")
    return _each(services, session, text, parameters, statements)


def _each(
    services: Services,
    session: QuerySession,
    text: str,
    parameters: Parameters | None,
    statements: Sequence[model.Statement],
) -> Iterator[QueryResult]:
    for number, statement in enumerate(statements, start=1):
        given = parameters if number == len(statements) else None
        try:
            result = carry_out(Context(services, session, text, given, statement))
        except LanceGpuError as exc:
            if len(statements) == 1:
                raise
            where = f"Statement {number} of {len(statements)}, at line {statement.place.line}"
            raise type(exc)(f"{where}: {exc.message}", **{**exc.facts, "statement": number}) from exc
        yield result


def carry_out(context: Context) -> QueryResult:
    """Carry one statement out."""
    if context.parameters and not isinstance(context.statement, _TAKES_VALUES):
        raise InvalidQuery(
            "Values were given as parameters, and this statement has no place for them: they stand for ?, $1 or $name in "
            "queries, INSERT, UPDATE, DELETE, MERGE and CREATE TABLE AS."
        )
    return _CARRIED[type(context.statement)](context, context.statement)


def _query(context: Context, statement: model.Statement) -> QueryResult:
    return context.engine(statement)


def _explain(context: Context, statement: model.Explain) -> QueryResult:
    inner = statement.statement
    table = getattr(inner, "table", None)
    if isinstance(inner, model.Query | model.Engine | model.Describe) or (table and not context.is_ours(table)):
        return context.engine(statement)
    query = inner.query if isinstance(inner, model.Insert | model.CreateTableAs) else None
    if query is None or statement.analyze:
        raise InvalidQuery(
            "EXPLAIN tells how a query runs: give it the query of the statement, without the statement"
            + (", which ANALYZE would have to carry out." if query is not None else ".")
        )
    explained = replace(statement, text=f"EXPLAIN (FORMAT {statement.format}) {query}")
    return context.engine(explained, inner.query_parts if isinstance(inner, model.Insert) else (query,))


def _transaction(context: Context, statement: model.Transaction) -> QueryResult:  # noqa: ARG001 - one shape for all
    raise InvalidQuery(
        "Each statement is a transaction of its own here, with one commit for each table it writes: leave BEGIN, COMMIT and "
        "ROLLBACK out. MERGE INTO does several things to a table at once."
    )


_TAKES_VALUES = (
    model.Query
    | model.Engine
    | model.Describe
    | model.Explain
    | model.Insert
    | model.CreateTableAs
    | model.Update
    | model.Delete
    | model.Merge
)
_CARRIED: Mapping[type[model.Statement], Carried] = {
    model.Query: _query,
    model.Engine: _query,
    model.Describe: tables.describe,
    model.Explain: _explain,
    model.Transaction: _transaction,
    model.CreateFunction: functions.create,
    model.CreateFunctionFromFile: functions.create_from_file,
    model.ShowFunctions: functions.show,
    model.DescribeFunction: functions.describe,
    model.DropFunction: functions.drop,
    model.CreateTable: tables.create,
    model.CreateTableAs: tables.create_as,
    model.Insert: tables.insert,
    model.CopyFrom: tables.copy_from,
    model.DropTable: tables.drop,
    model.ShowTables: tables.show,
    model.Update: changing.update,
    model.Delete: changing.delete,
    model.Merge: changing.merge,
    model.AddComputedColumn: schedules.add_column,
    model.AddColumn: columns.add,
    model.SetColumnFunction: columns.set_function,
    model.SetColumnType: columns.set_type,
    model.DropColumn: columns.drop,
    model.RenameColumn: columns.rename,
    model.RefreshColumn: columns.refresh,
    model.ShowColumnsStatus: columns.show_status,
    model.SetColumnSchedule: schedules.set_column,
    model.DropColumnSchedule: schedules.drop_column,
    model.EnableColumnSchedule: schedules.enable_column,
    model.ShowSchedules: schedules.show,
    model.CreateView: views.create,
    model.SetViewSchedule: views.set_schedule,
    model.DropViewSchedule: views.drop_schedule,
    model.EnableViewSchedule: views.enable_schedule,
    model.RefreshView: views.refresh,
    model.ExplainRefresh: views.explain_refresh,
    model.ShowViews: views.show,
    model.DescribeView: views.describe,
    model.DropView: views.drop,
    model.OptimizeTable: maintenance.optimize,
    model.ExplainOptimize: maintenance.explain,
    model.ShowGpuClasses: jobs.show_gpu_classes,
    model.ShowJobs: jobs.show,
    model.DescribeJob: jobs.describe,
    model.ShowErrors: jobs.show_errors,
    model.ShowEvents: jobs.show_events,
    model.CancelJob: jobs.cancel,
    model.PauseJob: jobs.pause,
    model.ResumeJob: jobs.resume,
}
