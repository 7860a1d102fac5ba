"""Which Arrow type may stand for which other: the same values in another form, or in a wider type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.binding import ColumnRef

_types = pa.types
_UNITS = ("s", "ms", "us", "ns")
# Bits of an integer that a float holds exactly (IEEE 754: the significand).
_EXACT_BITS = {16: 11, 32: 24, 64: 53}


def is_lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether every value of `source` is a value of `target`.

    Large, view and dictionary forms count as the same values. A cast between two such types may still overflow
    (a finer unit of time, more than 2 GiB of text in one array); it then raises.
    """
    if source == target or _types.is_null(source):
        return True
    if isinstance(source, pa.BaseExtensionType) or isinstance(target, pa.BaseExtensionType):
        return False
    if _types.is_dictionary(source):
        return is_lossless(source.value_type, target)
    if _types.is_dictionary(target):
        return is_lossless(source, target.value_type)
    if _types.is_run_end_encoded(source):
        return is_lossless(source.value_type, target)
    return any(rule(source, target) for rule in (_numbers, _texts, _times, _decimals, _lists, _structs, _maps))


def _numbers(source: pa.DataType, target: pa.DataType) -> bool:
    if _types.is_floating(source):
        return bool(_types.is_floating(target)) and source.bit_width <= target.bit_width
    if not _types.is_integer(source):
        return False
    signed, unsigned = _types.is_signed_integer, _types.is_unsigned_integer
    value_bits = source.bit_width - (1 if signed(source) else 0)
    if _types.is_floating(target):
        return bool(value_bits <= _EXACT_BITS[target.bit_width])
    if signed(target):
        return bool(value_bits <= target.bit_width - 1)
    return bool(unsigned(source) and unsigned(target) and source.bit_width <= target.bit_width)


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(_types.is_string(arrow_type) or _types.is_large_string(arrow_type) or _types.is_string_view(arrow_type))


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return bool(_types.is_binary(arrow_type) or _types.is_large_binary(arrow_type) or _types.is_binary_view(arrow_type))


def _texts(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_text(source):
        return _is_text(target)
    return (_is_bytes(source) or bool(_types.is_fixed_size_binary(source))) and _is_bytes(target)


def _times(source: pa.DataType, target: pa.DataType) -> bool:
    if _types.is_timestamp(source) and _types.is_timestamp(target):
        # A time with a zone is an instant; one without is not, and guessing its zone would change it.
        return (source.tz is None) == (target.tz is None) and _is_finer(source, target)
    if _types.is_duration(source) and _types.is_duration(target):
        return _is_finer(source, target)
    if _types.is_time(source) and _types.is_time(target):
        return _is_finer(source, target)
    return bool(_types.is_date32(source) and _types.is_date64(target))


def _is_finer(source: pa.DataType, target: pa.DataType) -> bool:
    return _UNITS.index(source.unit) <= _UNITS.index(target.unit)


def _decimals(source: pa.DataType, target: pa.DataType) -> bool:
    if not (_types.is_decimal(source) and _types.is_decimal(target)):
        return False
    return bool(source.scale <= target.scale and source.precision - source.scale <= target.precision - target.scale)


def _is_list_view(arrow_type: pa.DataType) -> bool:
    return bool(_types.is_list_view(arrow_type) or _types.is_large_list_view(arrow_type))


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(_types.is_list(arrow_type) or _types.is_large_list(arrow_type)) or _is_list_view(arrow_type)


def _lists(source: pa.DataType, target: pa.DataType) -> bool:
    fixed = bool(_types.is_fixed_size_list(source))
    if not (fixed or _is_list(source)):
        return False
    if _types.is_fixed_size_list(target):
        if not fixed or source.list_size != target.list_size:
            return False
    elif not _is_list(target) or _is_list_view(target):
        return False
    return _is_lossless_field(source.value_field, target.value_field)


def _structs(source: pa.DataType, target: pa.DataType) -> bool:
    if not (_types.is_struct(source) and _types.is_struct(target)):
        return False
    fields, wanted = list(source), list(target)
    return [each.name for each in fields] == [each.name for each in wanted] and all(
        _is_lossless_field(each, want) for each, want in zip(fields, wanted, strict=True)
    )


def _maps(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(_types.is_map(source) and _types.is_map(target)) and (
        is_lossless(source.key_type, target.key_type) and _is_lossless_field(source.item_field, target.item_field)
    )


def _is_lossless_field(source: pa.Field, target: pa.Field) -> bool:
    # A field that may be null suits one that may not as long as none is: that is the values' matter. List views are
    # cast by hand, and only where the whole column is one.
    return not _is_list_view(source.type) and is_lossless(source.type, target.type)


def argument_cast(column_type: pa.DataType, parameter_type: pa.DataType) -> pa.DataType | None:
    """Tell to what a column must be cast to suit a parameter.

    Returns
    -------
    pyarrow.DataType or None
        The parameter's type; None if the column has it already.

    Raises
    ------
    InvalidBinding
        The column's values are not all values of the parameter; both types are named.
    """
    if column_type == parameter_type:
        return None
    if not is_lossless(column_type, parameter_type):
        hint = ""
        times = _types.is_timestamp(column_type) and _types.is_timestamp(parameter_type)
        if times and (column_type.tz is None) != (parameter_type.tz is None):
            zone = f', "{column_type.tz}"' if column_type.tz else ""
            hint = f'; for such times annotate it with Annotated[datetime, pa.timestamp("{column_type.unit}"{zone})]'
        else:
            hint = _ways_out(column_type, parameter_type)
        raise InvalidBinding(
            f"a column of type {column_type} does not suit a parameter of type {parameter_type}{hint}",
            column_type=str(column_type),
            parameter_type=str(parameter_type),
        )
    return parameter_type


def _ways_out(column_type: pa.DataType, parameter_type: pa.DataType) -> str:
    """Say how a column and a parameter come together after all, for the types that people mix up most."""
    annotation = next((word for word, is_kind in _PYTHON_WORDS.items() if is_kind(column_type)), None)
    sql = _SQL_WORDS.get(parameter_type)
    ways = []
    if annotation is not None:
        ways.append(f"annotate the parameter with {annotation}")
    if sql is not None and not _types.is_nested(column_type):
        ways.append(f'add a column for it, add_columns({{"<name>": "CAST(<column> AS {sql})"}})')
    return f". To bind it, {', or '.join(ways)}" if ways else ""


_PYTHON_WORDS = {
    "Annotated[int, pa.uint64()]": _types.is_uint64,
    "int": _types.is_integer,
    "float": _types.is_floating,
    "str": _is_text,
    "bytes": _is_bytes,
    "bool": _types.is_boolean,
    "date": _types.is_date32,
}
# Lance's words, in which `add_columns` takes an expression.
_SQL_WORDS = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.utf8(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}


def lossless_cast(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast an array to a type for which `is_lossless` holds.

    Raises
    ------
    pyarrow.ArrowInvalid
        A value does not fit after all: a finer unit of time overflows, a null stands where none may, or one array
        would hold more than 2 GiB of text.
    """
    if array.type == arrow_type:
        return array
    if _types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _types.is_dictionary(arrow_type):
        return lossless_cast(array, arrow_type.value_type).dictionary_encode().cast(arrow_type)
    if _is_list_view(array.type):
        array = _as_large_list(array)
    return array.cast(arrow_type)


def _as_large_list(views: pa.Array) -> pa.Array:
    """Turn a list view into a list by hand: pyarrow 26 casts one with offsets that lose items."""
    lengths = pc.fill_null(pc.list_value_length(views), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    return pa.LargeListArray.from_arrays(offsets, views.flatten(), mask=views.is_null())


class NamedType(Protocol):
    """A parameter as the catalog keeps it."""

    @property
    def name(self) -> str:
        """The parameter's name."""

    @property
    def type(self) -> str:
        """Its Arrow type, as text."""


def check_arguments(
    function: str, parameters: Sequence[NamedType], arguments: Mapping[str, ColumnRef], schema: pa.Schema
) -> None:
    """Refuse a binding that does not suit a table.

    Parameters
    ----------
    function
        Its name, for the message.
    parameters
        Of the Function version that is bound.
    arguments
        The column of each.
    schema
        Of the table.

    Raises
    ------
    InvalidBinding
        A column is not in the table, or has a type that does not suit its parameter.
    """
    missing = [parameter.name for parameter in parameters if parameter.name not in arguments]
    if missing:
        raise InvalidBinding(f"{function} lacks {', '.join(missing)}: give each a column.", function=function)
    for parameter in parameters:
        column = arguments[parameter.name].name
        if column not in schema.names:
            raise InvalidBinding(
                f"{function}: there is no column {column!r} for {parameter.name!r}. "
                f"The table has {', '.join(schema.names)}.",
                function=function,
                column=column,
            )
        try:
            argument_cast(schema.field(column).type, parse_type(parameter.type))
        except InvalidBinding as problem:
            raise InvalidBinding(
                f"{function}: column {column!r} cannot be {parameter.name!r}: {problem.message}.",
                function=function,
                column=column,
                **problem.facts,
            ) from None
