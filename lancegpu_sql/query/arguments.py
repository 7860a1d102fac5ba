"""Values on their way from DuckDB to a Function and back: types and arrays in each other's form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidData
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.casts import lossless_cast
from lancegpu_sql.query.readable import readable_type

# DuckDB's own measure of a month and a day where an interval is to be a length of time.
_MICROSECONDS_A_DAY = 24 * 60 * 60 * 1_000_000
_DAYS_A_MONTH = 30
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


class FunctionTypes:
    """The types of a Function on both sides.

    Attributes
    ----------
    parameters
        The columns that it takes.
    output
        What it gives.
    readable_output
        That, under a type that DuckDB has.
    """

    def __init__(self, version: FunctionVersion) -> None:
        self._name = version.name
        self.parameters = pa.schema([pa.field(each.name, parse_type(each.type)) for each in version.parameters])
        self.output: pa.DataType = parse_type(version.output_type)
        self.readable_output: pa.DataType = readable_type(self.output)

    @property
    def readable_parameters(self) -> list[pa.DataType]:
        """The types under which DuckDB has the parameters."""
        return [readable_type(kind) for kind in self.parameters.types]

    def arguments(self, columns: Sequence[Any]) -> pa.RecordBatch:
        """Columns as DuckDB gives them, in the types of the parameters.

        Raises
        ------
        InvalidData
            A value of theirs does not fit: a text of a wrong length, a time with more digits.
        """
        arrays = []
        for field, column in zip(self.parameters, columns, strict=True):
            try:
                arrays.append(_as_argument(_one_array(column), field.type))
            except (pa.ArrowException, ValueError, OverflowError) as exc:
                raise InvalidData(
                    f"{self._name} takes {field.name!r} as {field.type}, and a value of the query does not fit it: {exc}",
                    function=self._name,
                    parameter=field.name,
                ) from exc
        return pa.RecordBatch.from_arrays(arrays, schema=self.parameters)

    def readable_values(self, values: pa.Array) -> pa.Array:
        """A Function's values under the type that DuckDB has for them."""
        return values if values.type == self.readable_output else values.cast(self.readable_output)


def _one_array(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def as_booleans(array: pa.Array) -> pa.Array:
    """Booleans as Arrow has them; DuckDB may give a byte for each."""
    return array.storage.cast(pa.bool_()) if isinstance(array.type, pa.Bool8Type) else array


def _as_argument(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    array = as_booleans(array)
    if array.type.equals(wanted):
        return array
    if _holds(array.type, lambda kind: isinstance(kind, pa.BaseExtensionType)):
        return pa.array(array.to_pylist(), wanted)
    if _holds(array.type, pa.types.is_interval):
        if not pa.types.is_duration(wanted):
            return pa.array([_plain(value) for value in array.to_pylist()], wanted)
        array = _durations(array)
    return lossless_cast(array, wanted)


def _holds(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is such a one, or has such a one in it."""
    if wanted(kind):
        return True
    children = kind.num_fields if pa.types.is_nested(kind) else 0
    return any(_holds(kind.field(index).type, wanted) for index in range(children))


def _durations(intervals: pa.Array) -> pa.Array:
    """Intervals as lengths of time in microseconds, which is all that DuckDB keeps of them."""
    parts = np.frombuffer(intervals.buffers()[1], _INTERVAL)[intervals.offset : intervals.offset + len(intervals)]
    days = parts["months"].astype("i8") * _DAYS_A_MONTH + parts["days"]
    microseconds = days * _MICROSECONDS_A_DAY + parts["nanoseconds"] // 1000
    return pa.array(microseconds, pa.int64(), mask=np.asarray(intervals.is_null())).cast(pa.duration("us"))


def _plain(value: Any) -> Any:
    """A nested value with its intervals as numbers of microseconds: rare enough to be done one by one."""
    if isinstance(value, pa.MonthDayNano):
        days = value.months * _DAYS_A_MONTH + value.days
        return np.timedelta64(days * _MICROSECONDS_A_DAY + value.nanoseconds // 1000, "us").item()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return tuple(_plain(item) for item in value) if isinstance(value, tuple) else value
