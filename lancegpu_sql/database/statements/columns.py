"""ALTER TABLE, REFRESH COLUMN and SHOW COLUMNS STATUS carried out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from lancegpu_sql.database.columns import add_columns, alter_column, columns_status, drop_columns
from lancegpu_sql.database.query_runs import QueryRuns
from lancegpu_sql.database.statements.context import Context, column_of, of_own_table
from lancegpu_sql.database.table import Table
from lancegpu_sql.errors import InvalidBinding, InvalidFunction, InvalidQuery
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.binding import col
from lancegpu_sql.functions.registry import get_function
from lancegpu_sql.query.in_place import signatures_of
from lancegpu_sql.query.readable import readable_type
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.request import RefreshOptions
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.names import choose
from lancegpu_sql.sql.places import query_error
from lancegpu_sql.sql.statements import model
from lancegpu_sql.tables import reshaping
from lancegpu_sql.tables.snapshot import Snapshot

OPTIONS = (*(name for name in RefreshOptions.model_fields if name != "where"), "wait")

_STATUS = pa.schema(
    [
        ("column", pa.string()),
        ("function", pa.string()),
        ("version", pa.int64()),
        ("fresh_rows", pa.int64()),
        ("stale_rows", pa.int64()),
        ("failed_rows", pa.int64()),
        ("never_computed_rows", pa.int64()),
    ]
)
_REFRESHED = pa.schema(
    [
        ("mode", pa.string()),
        ("rows_assigned", pa.int64()),
        ("rows_failed", pa.int64()),
        ("rows_remaining", pa.int64()),
        ("version", pa.int64()),
        ("job_id", pa.string()),
    ]
)
LEFT_TO_AGENTS = pa.schema([("job_id", pa.string()), ("state", pa.string())])


@of_own_table
def add_computed(context: Context, statement: model.AddComputedColumn) -> QueryResult:
    """Declare a computed column."""
    snapshot = context.snapshot(statement.table)
    if is_there(snapshot, statement.column, statement.if_not_exists):
        return context.done()
    function = get_function(context.services.catalog, statement.function)
    columns = [(parameter, col(column_of(snapshot, name))) for parameter, name in statement.columns]
    by_name: dict[str, Any] = {parameter: given for parameter, given in columns if isinstance(parameter, str)}
    by_position = [given for parameter, given in columns if isinstance(parameter, int)]
    binding = function(*by_position, **by_name, **dict(statement.values))
    if statement.type is not None:
        _check_type(context, statement.column, statement.type, parse_type(function.version.output_type))
    add_columns(context.services, snapshot, {statement.column: binding})
    return context.done()


@of_own_table
def add(context: Context, statement: model.AddColumn) -> QueryResult:
    """Add a plain column without values."""
    snapshot = context.snapshot(statement.table)
    if not is_there(snapshot, statement.column, statement.if_not_exists):
        reshaping.add_empty_column(snapshot, statement.column, context.types([(statement.column, statement.type)])[0])
    return context.done()


@of_own_table
def set_function(context: Context, statement: model.SetColumnFunction) -> QueryResult:
    """Point a computed column to another Function, or version of one."""
    function = get_function(context.services.catalog, statement.function, statement.version)
    _alter(context, statement.table, statement.column, function=function)
    return context.done()


@of_own_table
def set_type(context: Context, statement: model.SetColumnType) -> QueryResult:
    """Cast a column."""
    _alter(context, statement.table, statement.column, data_type=context.types([(statement.column, statement.type)])[0])
    return context.done()


@of_own_table
def drop(context: Context, statement: model.DropColumn) -> QueryResult:
    """Remove a column."""
    snapshot = context.snapshot(statement.table)
    if not (statement.if_exists and choose(statement.column, snapshot.schema.names) is None):
        drop_columns(context.services, snapshot, [column_of(snapshot, statement.column)])
    return context.done()


@of_own_table
def rename(context: Context, statement: model.RenameColumn) -> QueryResult:
    """Give a column another name."""
    _alter(context, statement.table, statement.column, rename=statement.new_name)
    return context.done()


def refresh(context: Context, statement: model.RefreshColumn) -> QueryResult:
    """Bring a computed column up to date, here or by the database's agents."""
    options = context.timed_options(statement.options, OPTIONS)
    snapshot = context.snapshot(statement.table)
    column = column_of(snapshot, statement.column)
    table = Table(context.services, snapshot.name)
    where_at = context.text_at + statement.text.find(statement.where or "")
    _refuse_calls(context, statement.where, where_at)
    try:
        if statement.wait:
            result = table.refresh_column(column, statement.where, **options)
            return context.rows(_REFRESHED, [result.model_dump()])
        job = table.refresh_column(column, statement.where, wait=False, **options)
    except InvalidQuery as exc:
        raise query_error(exc.message, context.text, where_at, **exc.facts) from exc.__cause__
    return context.rows(LEFT_TO_AGENTS, [{"job_id": job.id, "state": str(job.status())}])


def _refuse_calls(context: Context, where: str | None, where_at: int) -> None:
    """Refuse a condition that would need a Function to choose the rows that another is computed for."""
    for call in calls_in(where or "", signatures_of(QueryRuns(context.services).known())):
        raise query_error(
            "The condition of a refresh calls no Functions: make a computed column of this one, refresh it first, and write "
            "that column here.",
            context.text,
            where_at + call.start,
        )


def show_status(context: Context, statement: model.ShowColumnsStatus) -> QueryResult:
    """Tell of each computed column how many of its rows are current."""
    found = columns_status(context.services, context.snapshot(statement.table))
    return context.rows(_STATUS, [asdict(each) for each in found])


def _alter(context: Context, table: model.Name, column: str, **change: Any) -> None:
    snapshot = context.snapshot(table)
    wanted = {"function": None, "rename": None, "data_type": None} | change
    alter_column(context.services, snapshot, column_of(snapshot, column), **wanted)


def is_there(snapshot: Snapshot, column: str, if_not_exists: bool) -> bool:
    """Whether there is such a column, which is to stay."""
    return if_not_exists and choose(column, snapshot.schema.names) is not None


def _check_type(context: Context, column: str, written: str, output: pa.DataType) -> None:
    """Refuse a declared type that is not the Function's, in Arrow's words or in DuckDB's."""
    try:
        wanted = parse_type(written)
    except InvalidFunction:
        wanted = context.types([(column, written)])[0]
    if not _alike(wanted, output):
        raise InvalidBinding(
            f"Column {column!r} is declared as {written}, but its Function gives {output}: leave the type out, or write that "
            "one.",
            column=column,
        )


def _alike(wanted: pa.DataType, output: pa.DataType) -> bool:
    """Whether two types are one to DuckDB: names of list items and sizes of offsets aside."""
    first, other = (readable_type(each) for each in (wanted, output))
    if first.equals(other):
        return True
    if pa.types.is_fixed_size_list(first) and pa.types.is_fixed_size_list(other):
        return first.list_size == other.list_size and _alike(first.value_type, other.value_type)
    lists = (pa.types.is_list, pa.types.is_large_list)
    if any(kind(first) for kind in lists) and any(kind(other) for kind in lists):
        return _alike(first.value_type, other.value_type)
    if pa.types.is_struct(first) and pa.types.is_struct(other):
        names = [[field.name for field in each] for each in (first, other)]
        return names[0] == names[1] and all(_alike(a.type, b.type) for a, b in zip(first, other, strict=True))
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    binaries = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(any(kind(first) for kind in alike) and any(kind(other) for kind in alike) for alike in (texts, binaries))
