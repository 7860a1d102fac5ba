"""Types that Lance stores and DuckDB cannot read, and what it reads instead."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.tables.naming import alike_names, is_blob

_MOST_DECIMAL_DIGITS = 38


def readable_type(stored: pa.DataType) -> pa.DataType:
    """The type under which DuckDB reads a stored one: itself, or the next wider that DuckDB has.

    ``halffloat`` becomes ``float``, at any depth; ``decimal256`` becomes ``decimal128`` where its scale allows.
    """
    if pa.types.is_float16(stored):
        return pa.float32()
    if pa.types.is_decimal256(stored) and stored.scale <= _MOST_DECIMAL_DIGITS:
        return pa.decimal128(min(stored.precision, _MOST_DECIMAL_DIGITS), stored.scale)
    if pa.types.is_struct(stored):
        return pa.struct([_readable_child(field) for field in stored])
    if pa.types.is_map(stored):
        return pa.map_(readable_type(stored.key_type), readable_type(stored.item_type))
    if pa.types.is_fixed_size_list(stored):
        return pa.list_(_readable_child(stored.value_field), stored.list_size)
    if pa.types.is_large_list(stored):
        return pa.large_list(_readable_child(stored.value_field))
    if pa.types.is_list(stored):
        return pa.list_(_readable_child(stored.value_field))
    return stored


def readable_field(field: pa.Field) -> pa.Field:
    """A column as DuckDB reads it."""
    kind = pa.large_binary() if is_blob(field) else readable_type(field.type)
    return pa.field(field.name, kind, field.nullable)


def _readable_child(field: pa.Field) -> pa.Field:
    return field.with_type(readable_type(field.type))


def to_readable(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows under the types that DuckDB reads."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_distinct(table: str, fields: Iterable[pa.Field]) -> None:
    """Refuse columns that DuckDB would take for one another.

    Raises
    ------
    InvalidQuery
        Two of them, or two fields of a struct, are apart by case only; another tool made the table.
    """
    alike = alike_names(fields)
    if alike is None:
        return
    way = (
        f"Rename one: table.alter_column({alike[1]!r}, rename={alike[1] + '_2'!r})."
        if "." not in alike[1]
        else "Write the table anew with another name for one."
    )
    raise InvalidQuery(
        f"Table {table!r} has {alike[0]!r} and {alike[1]!r}, which SQL does not tell apart, so that it would read one for "
        f"the other. {way}",
        table=table,
        columns=alike,
    )
