"""What a table's handle does to columns: declare, alter, drop, tell their state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.catalog.schedule_models import column_subject
from lancegpu_sql.database import arguments
from lancegpu_sql.database.functions import registered
from lancegpu_sql.database.gpu_classes import check_runs_on
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import refuse_needed
from lancegpu_sql.errors import ColumnNotFound, InvalidInput, InvalidQuery
from lancegpu_sql.functions.binding import Binding
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.registry import RegisteredFunction
from lancegpu_sql.refresh.current import count_rows
from lancegpu_sql.refresh.declaration import declare_one, declare_spread, repointed
from lancegpu_sql.refresh.need import check_options
from lancegpu_sql.refresh.request import RefreshOptions
from lancegpu_sql.refresh.target import Target, declared_function, find_target
from lancegpu_sql.tables import reshaping
from lancegpu_sql.tables.reshaping import add_sql_columns, rename_column, retype_column
from lancegpu_sql.tables.snapshot import Snapshot


@dataclass(frozen=True)
class ColumnStatus:
    """A computed column's Function version, and its rows by state; every row is in exactly one."""

    column: str
    function: str
    version: int
    fresh_rows: int
    stale_rows: int
    failed_rows: int
    never_computed_rows: int


def columns_status(services: Services, snapshot: Snapshot) -> list[ColumnStatus]:
    """Return the state of each computed column."""
    found = []
    for column in snapshot.computed:
        counts = count_rows(snapshot, find_target(snapshot, column.column), services.catalog)
        found.append(
            ColumnStatus(
                column=column.column,
                function=column.function,
                version=column.version,
                fresh_rows=counts.fresh,
                stale_rows=counts.stale,
                failed_rows=counts.failed,
                never_computed_rows=counts.never,
            )
        )
    return found


def add_columns(services: Services, snapshot: Snapshot, added: Any) -> list[str]:
    """Declare bindings and fill SQL expressions; nothing is done if one of them is wrong.

    Returns of each binding one of its columns.
    """
    if isinstance(added, Binding):
        function = registered(services, added.function)
        columns, proof = declare_spread(snapshot, function, added.arguments, added.bound, added.columns)
        snapshot.declare(columns, proof)
        return [columns[0][0].name]
    if not isinstance(added, Mapping):
        raise InvalidInput(
            "add_columns() takes a mapping of names to bindings or SQL expressions, or a binding alone, "
            f"not {type(added).__name__}"
        )
    arguments.names(added, "the columns to add")
    bindings = {name: value for name, value in added.items() if isinstance(value, Binding)}
    expressions = {name: value for name, value in added.items() if isinstance(value, str)}
    for name, value in added.items():
        if name not in bindings and name not in expressions:
            raise InvalidInput(
                f'column {name!r} is given as {type(value).__name__}; write a binding such as f(x=col("text")) (a call '
                "without col(...) runs here at once, and gives its result), or an SQL expression as a string"
            )
    declared = [
        declare_one(snapshot, name, registered(services, binding.function), binding.arguments, binding.bound)
        for name, binding in bindings.items()
    ]
    if expressions:
        _add_expressions(snapshot, expressions)
    for columns, proof in declared:
        snapshot.declare(columns, proof)
    return list(bindings)


def _add_expressions(snapshot: Snapshot, expressions: Mapping[str, str]) -> None:
    """Fill plain columns; tell those apart who called a Function with a value, whose result is a string."""
    present = {column.casefold(): column for column in snapshot.schema.names}
    for name, expression in expressions.items():
        column = present.get(expression.strip().strip('`"').casefold())
        if column is not None:
            raise InvalidQuery(
                f"column {name!r}: the expression {expression!r} is only the name of a column. Where a Function was meant, "
                f"it was called with that name as a value: write f(x=col({column!r})). To copy the column as it is now, "
                f"write {f'(`{column}`)'!r}",
                column=name,
            )
    try:
        add_sql_columns(snapshot, expressions)
    except InvalidQuery as exc:
        raise InvalidQuery(
            f'{exc.message} A string is an expression in Lance\'s SQL; a Function is applied to a column by f(x=col("x")), '
            'whereas f(x="x") calls it here, with that text',
            **exc.facts,
        ) from exc.__cause__


def alter_column(
    services: Services,
    snapshot: Snapshot,
    name: str,
    *,
    function: Function | RegisteredFunction | FunctionVersion | None,
    rename: str | None,
    data_type: pa.DataType | None,
) -> None:
    """Point a computed column elsewhere, rename a column, or give it another type."""
    if function is None and rename is None and data_type is None:
        raise InvalidInput(f"alter_column({name!r}): say what to alter: function=, rename= or data_type=")
    if function is not None:
        if name in snapshot.schema.names and all(name != column.column for column in snapshot.computed):
            raise ColumnNotFound(
                f"column {name!r} of table {snapshot.name!r} is a plain one: there is no Function to replace. Drop it and "
                f"add it as a computed one, add_columns({{{name!r}: f(x=col(...))}}), or add that under another name",
                table=snapshot.name,
                column=name,
            )
        target = find_target(snapshot, name)
        snapshot.repoint(repointed(snapshot, target.columns, registered(services, function)))
    if data_type is not None or rename is not None:
        what = "renamed" if data_type is None else "given another type"
        refuse_needed(services, snapshot.name, what, [name])
    if data_type is not None:
        snapshot = retype_column(snapshot, name, data_type)
    if rename is not None:
        rename_column(snapshot, name, rename)
        services.catalog.rename_scheduled_column(snapshot.name, name, rename)


def drop_columns(services: Services, snapshot: Snapshot, names: Sequence[str]) -> None:
    """Remove columns, and the schedules of those that are computed."""
    refuse_needed(services, snapshot.name, "dropped", names)
    reshaping.drop_columns(snapshot, names)
    subjects = [column_subject(snapshot.name, name) for name in names]
    services.catalog.drop_schedules(subjects, "its column was dropped")


def check_refresh(services: Services, snapshot: Snapshot, target: Target, options: RefreshOptions) -> None:
    """Refuse a refresh that could not run, before it becomes a job."""
    function = declared_function(services.catalog, target.table, target.declaration)
    check_options(function, options)
    check_runs_on(services, function, options.gpu_class)
    if options.where is not None:
        # DuckDB, which alone knows whether a predicate is one, is loaded only for those who give one.
        from lancegpu_sql.query.filter import RowFilter

        RowFilter(snapshot, options.where).close()


def update_expressions(values: Mapping[str, Any] | None, values_sql: Mapping[str, str] | None) -> dict[str, str]:
    """Return what to set as SQL expressions."""
    if (values is None) == (values_sql is None):
        raise InvalidInput("update() takes either values={column: value} or values_sql={column: expression}")
    arguments.names(arguments.mapping(values_sql if values is None else values, "values"), "the columns of an update")
    if values_sql is not None:
        return dict(values_sql)
    # sqlglot takes 40 ms to load, and few programs update values.
    from lancegpu_sql.sql.literals import literal_of

    return {name: literal_of(value) for name, value in (values or {}).items()}
