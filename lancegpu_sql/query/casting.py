"""Rows under other types, by DuckDB's casts: what it does with what is put into a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.engine import connect, duckdb_errors
from lancegpu_sql.sql.names import quote

_QUERY = re.compile(r"\s*\nLINE \d+: .*\Z", re.DOTALL)
_COLUMN = re.compile(r" when casting from source column c(\d+)")


def cast_rows(reader: pa.RecordBatchReader, names: Sequence[str], types: Sequence[str | None]) -> pa.RecordBatchReader:
    """Rows with their columns renamed and cast.

    Parameters
    ----------
    reader
        The rows; their columns may share names.
    names
        What the columns are to be called.
    types
        DuckDB's type for each; None: as it comes.

    Raises
    ------
    InvalidQuery
        From the stream: a value cannot be cast.
    """
    if not any(types):
        schema = pa.schema([field.with_name(name) for field, name in zip(reader.schema, names, strict=True)])
        return pa.RecordBatchReader.from_batches(
            schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)
        )
    batches = _batches(reader, names, types)
    return pa.RecordBatchReader.from_batches(next(batches), batches)


def _batches(
    reader: pa.RecordBatchReader, names: Sequence[str], types: Sequence[str | None]
) -> Iterator[pa.RecordBatch]:
    """First the schema, then the batches."""
    columns = [f"c{at}" for at in range(len(names))]
    values = [
        f"{column if kind is None else f'CAST({column} AS {kind})'} AS {quote(name)}"
        for column, name, kind in zip(columns, names, types, strict=True)
    ]
    query = f"SELECT {', '.join(values)} FROM given"  # noqa: S608 - names are quoted, types are DuckDB's own words
    engine = connect()
    zone = _time_zone(reader.schema.types)
    if zone is not None:
        engine.execute(f"SET TimeZone = '{zone}'")

    def cast(batch: pa.RecordBatch) -> pa.Table:
        try:
            with duckdb_errors():
                engine.register("given", pa.RecordBatch.from_arrays(batch.columns, columns))
                rows: pa.Table = engine.sql(query).to_arrow_table()
                engine.unregister("given")
        except InvalidQuery as exc:
            raise _of_column(exc, names) from exc.__cause__
        return rows

    try:
        schema = cast(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in reader.schema], columns)).schema
        yield schema
        for batch in reader:
            yield from cast(batch).cast(schema).to_batches()
    finally:
        engine.close()


def _time_zone(types: Iterable[pa.DataType]) -> str | None:
    """The zone of the session that the rows come from, where they say it."""
    for kind in types:
        if pa.types.is_timestamp(kind):
            found = kind.tz
        else:
            found = _time_zone(kind.field(at).type for at in range(kind.num_fields)) if kind.num_fields else None
        if found is not None:
            return str(found)
    return None


def _of_column(error: InvalidQuery, names: Sequence[str]) -> InvalidQuery:
    """The error, with the column that it is about, and without the query that the user did not write."""
    said = _QUERY.sub("", error.message)
    column = _COLUMN.search(said)
    if column is None:
        return InvalidQuery(said, **error.facts)
    name = names[int(column[1])]
    return InvalidQuery(f"Column {name!r}: {_COLUMN.sub('', said)}", column=name)
