"""Rows that users bring, made to suit a table: its columns, its types, and none of what only a refresh may write."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lancegpu_sql.errors import ComputedColumnWrite, InvalidData, InvalidName
from lancegpu_sql.tables.naming import is_hidden
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.sources import Stream, converted


def refuse_computed(snapshot: Snapshot, names: Iterable[str]) -> None:
    """Raise where a write names a hidden, an unknown or a computed column."""
    computed = {column.column for column in snapshot.computed}
    for name in names:
        if is_hidden(name):
            raise InvalidName(f"Column {name!r} of table {snapshot.name!r} is kept for this package.", name=name)
        snapshot.field_id(name)
        if name in computed:
            raise _written_by_hand(snapshot, name)


def fit_rows(snapshot: Snapshot, reader: pa.RecordBatchReader) -> Stream:
    """Return the rows with the table's types, without computed columns.

    Raises
    ------
    InvalidData, InvalidName
        Here, for columns that do not suit.
    InvalidData, ComputedColumnWrite
        Later, from the stream, for values that do not suit.
    """
    table = snapshot.full_schema
    computed = {column.column for column in snapshot.computed}
    given = reader.schema.names
    for name in given:
        if is_hidden(name):
            raise InvalidName(f"Column {name!r}: names that start so are kept for this package.", name=name)
    if len(set(given)) < len(given):
        raise InvalidData(f"The rows for table {snapshot.name!r} name a column twice.", table=snapshot.name)
    unknown = [name for name in given if name not in table.names]
    if unknown:
        raise InvalidData(
            f"Table {snapshot.name!r} has no column {', '.join(map(repr, unknown))}; its columns are "
            f"{', '.join(snapshot.schema.names)}.",
            table=snapshot.name,
            columns=tuple(unknown),
        )
    target = pa.schema([table.field(name) for name in table.names if name in given and name not in computed])
    for field in target:
        _check_type(snapshot, field, reader.schema.field(field.name).type)
    held_back = [name for name in given if name in computed]

    def fit(batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in held_back:
            if batch.column(name).null_count < batch.num_rows:
                raise _written_by_hand(snapshot, name)
        columns = [fit_column(snapshot, field, batch.column(field.name)) for field in target]
        return pa.RecordBatch.from_arrays(columns, schema=target)

    return converted(reader, target, fit)


def castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of one type may be stored as another: the same kind of thing, in another form.

    Text is not read as numbers, nor numbers as times. Whether each value fits is seen when it is cast.
    """
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_dictionary(given):
        return castable(given.value_type, wanted)
    if pa.types.is_dictionary(wanted):
        return castable(given, wanted.value_type)
    if _is_list(given) and _is_list(wanted):
        return castable(given.value_type, wanted.value_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return {field.name for field in given} <= {field.name for field in wanted} and all(
            castable(field.type, wanted.field(field.name).type) for field in given
        )
    return any(is_kind(given) and is_kind(wanted) for is_kind in _KINDS)


def fit_column(snapshot: Snapshot, field: pa.Field, values: pa.Array) -> pa.Array:
    """Return a column's values in its type.

    Raises
    ------
    InvalidData
        A value does not fit.
    """
    if values.type == field.type:
        return values
    try:
        if pa.types.is_dictionary(field.type):
            return values.cast(field.type.value_type).dictionary_encode().cast(field.type)
        return values.cast(field.type)
    except pa.ArrowException as exc:
        raise InvalidData(
            f"Table {snapshot.name!r}: column {field.name!r} is of type {field.type}; a value does not fit: {exc}",
            table=snapshot.name,
            column=field.name,
        ) from exc


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
    )


def _is_day_or_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


_KINDS = (
    _is_text, _is_bytes, _is_number, _is_day_or_moment,
    pa.types.is_time, pa.types.is_duration, pa.types.is_map,
)  # fmt: skip


def _check_type(snapshot: Snapshot, field: pa.Field, given: pa.DataType) -> None:
    if not castable(given, field.type) and not isinstance(field.type, pa.BaseExtensionType):
        raise InvalidData(
            f"Table {snapshot.name!r}: column {field.name!r} is of type {field.type}; the rows bring {given}.",
            table=snapshot.name,
            column=field.name,
        )


def _written_by_hand(snapshot: Snapshot, name: str) -> ComputedColumnWrite:
    return ComputedColumnWrite(
        f"Column {name!r} of table {snapshot.name!r} is computed; leave it out and refresh it instead.",
        table=snapshot.name,
        columns=(name,),
    )
