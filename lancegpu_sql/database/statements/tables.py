"""CREATE TABLE, INSERT, COPY FROM, DROP TABLE, SHOW TABLES and DESCRIBE carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import pyarrow as pa

from lancegpu_sql.database.statements.context import Context, column_of, of_own_table
from lancegpu_sql.database.tables import create_table, drop_table
from lancegpu_sql.errors import AlreadyExists, InvalidData, InvalidQuery, TableNotFound
from lancegpu_sql.query.casting import cast_rows
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.storable import check_stored
from lancegpu_sql.sql.statements import model
from lancegpu_sql.tables import changes
from lancegpu_sql.tables.fitting import refuse_computed
from lancegpu_sql.tables.snapshot import Snapshot


class Counted:
    """A stream of rows that knows how many have passed."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.rows = 0
        self.reader = pa.RecordBatchReader.from_batches(reader.schema, self._passed(reader))

    def _passed(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self.rows += batch.num_rows
            yield batch


@of_own_table
def create(context: Context, statement: model.CreateTable) -> QueryResult:
    """Make an empty table."""
    mode = _mode(context, statement)
    if mode is not None:
        kinds = context.types([(each.name, each.type) for each in statement.columns])
        schema = pa.schema(
            [pa.field(each.name, kind, each.nullable) for each, kind in zip(statement.columns, kinds, strict=True)]
        )
        _create(context, statement.table, schema.empty_table().to_reader(), mode)
    return context.done()


@of_own_table
def create_as(context: Context, statement: model.CreateTableAs) -> QueryResult:
    """Make a table of a query's rows."""
    mode = _mode(context, statement)
    if mode is None:
        return context.count(0)
    result = context.rows_of(statement.query)
    names = statement.columns or tuple(result.columns)
    if len(names) != len(result.columns):
        raise InvalidQuery(f"The table is to have {len(names)} columns, but the query gives {len(result.columns)}.")
    for name, kind in zip(names, result.types, strict=True):
        check_stored(kind, name)
    if not statement.with_data:
        result = context.rows_of(f"SELECT * FROM (\n{statement.query}\n) LIMIT 0", (statement.query,))  # noqa: S608
    with result.to_reader() as reader:
        counted = Counted(_storable(reader, names))
        _create(context, statement.table, counted.reader, mode)
    return context.count(counted.rows)


@of_own_table
def insert(context: Context, statement: model.Insert) -> QueryResult:
    """Add a query's rows to a table, cast to its types as DuckDB casts what it inserts."""
    snapshot = context.snapshot(statement.table)
    types = context.column_types(snapshot)
    if statement.query is None:
        counted = Counted(_one_empty_row(snapshot))
        changes.add(snapshot, counted.reader)
        return context.count(counted.rows)
    result = context.rows_of(statement.query, statement.query_parts)
    names = _written(snapshot, statement, list(types), result.columns)
    refuse_computed(snapshot, names)
    _check_complete(snapshot, names)
    casts = [None if types[name] == kind else types[name] for name, kind in zip(names, result.types, strict=True)]
    with result.to_reader() as reader:
        counted = Counted(cast_rows(reader, names, casts))
        changes.add(snapshot, counted.reader)
    return context.count(counted.rows)


@of_own_table
def copy_from(context: Context, statement: model.CopyFrom) -> QueryResult:
    """Add a file's rows to a table, as DuckDB reads them into one of these columns."""
    snapshot = context.snapshot(statement.table)
    types = context.column_types(snapshot)
    names = [column_of(snapshot, name) for name in statement.columns] or list(types)
    refuse_computed(snapshot, names)
    _check_complete(snapshot, names)
    columns = {name: types[name] or "VARCHAR" for name in names}
    with (
        context.told_of(f"\n{statement.source}", (statement.source,)),  # DuckDB's from the second line on
        context.session.copied(columns, statement.source, snapshot.name) as result,
        result.to_reader() as reader,
    ):
        counted = Counted(cast_rows(reader, names, [None] * len(names)))
        changes.add(snapshot, counted.reader)
    return context.count(counted.rows)


@of_own_table
def drop(context: Context, statement: model.DropTable) -> QueryResult:
    """Remove a table with all its versions."""
    name = context.table_name(statement.table)
    if name is None and not statement.if_exists:
        raise TableNotFound(context.session.no_table(statement.table[-1]).message, table=statement.table[-1])
    if name is not None:
        drop_table(context.services, name, missing_ok=statement.if_exists)
    return context.done()


def show(context: Context, statement: model.ShowTables) -> QueryResult:
    """List the tables, and what the session made."""
    return context.engine(statement)


def describe(context: Context, statement: model.Describe) -> QueryResult:
    """Tell the columns of a table or a query as DuckDB does, and of a table which take no null and which are computed."""
    described = context.engine(statement)
    meant = None if statement.table is None else context.table_name(statement.table)
    if meant is None:
        return described
    # To DuckDB a table is a view, of whose columns it knows types alone.
    snapshot = context.services.tables.open(meant)
    computed = {one.column: f"computed by {one.function} version {one.version}" for one in snapshot.computed}
    required = {field.name for field in snapshot.schema if not field.nullable}
    rows = described.to_arrow()
    known = [
        row | {"null": "NO" if row["column_name"] in required else "YES", "extra": computed.get(row["column_name"])}
        for row in rows.to_pylist()
    ]
    return context.rows(rows.schema, known)


def _mode(
    context: Context, statement: model.CreateTable | model.CreateTableAs
) -> Literal["create", "overwrite"] | None:
    """How to create the table; None where it is there and is to stay."""
    known = context.table_name(statement.table)
    if known is None:
        return "create"
    if statement.if_not_exists:
        return None
    if not statement.replace:
        raise AlreadyExists(
            f"There is a table {known!r}: write CREATE OR REPLACE TABLE, or CREATE TABLE IF NOT EXISTS.", table=known
        )
    return "overwrite"


def _create(
    context: Context, written: model.Name, reader: pa.RecordBatchReader, mode: Literal["create", "overwrite"]
) -> None:
    """Create a table, under the name as it is spelled already where it is taken."""
    create_table(context.services, context.table_name(written) or written[-1], reader, mode)


def _stored(field: pa.Field) -> pa.Field:
    """A column of a query as a table keeps it: one of nothing but nulls is INTEGER, as in DuckDB."""
    return field.with_type(pa.int32()) if pa.types.is_null(field.type) else field


def _storable(reader: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    fields = [_stored(field).with_name(name) for field, name in zip(reader.schema, names, strict=True)]
    schema = pa.schema(fields)
    if schema.types == reader.schema.types and schema.names == reader.schema.names:
        return reader
    return pa.RecordBatchReader.from_batches(
        schema,
        (
            pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
            )
            for batch in reader
        ),
    )


def _written(snapshot: Snapshot, statement: model.Insert, plain: Sequence[str], given: Sequence[str]) -> list[str]:
    """The column of the table for each column of the query."""
    if statement.by_name:
        return [column_of(snapshot, name) for name in given]
    names = [column_of(snapshot, name) for name in statement.columns] or list(plain)
    if len(names) != len(given):
        raise InvalidData(
            f"{'The statement names' if statement.columns else f'Table {snapshot.name!r} takes'} {len(names)} columns "
            f"({', '.join(names)}), but the query gives {len(given)}.",
            table=snapshot.name,
        )
    return names


def _one_empty_row(snapshot: Snapshot) -> pa.RecordBatchReader:
    _check_complete(snapshot, ())
    computed = {column.column for column in snapshot.computed}
    schema = pa.schema([field for field in snapshot.schema if field.name not in computed])
    columns = [pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatchReader.from_batches(schema, [pa.RecordBatch.from_arrays(columns, schema=schema)])


def _check_complete(snapshot: Snapshot, names: Collection[str]) -> None:
    missing = [field.name for field in snapshot.schema if not field.nullable and field.name not in names]
    if missing:
        raise InvalidData(
            f"Table {snapshot.name!r}: column {missing[0]!r} cannot be null, and the statement gives it no value.",
            table=snapshot.name,
            column=missing[0],
        )
