"""From what user code returned to the Arrow array it declared, or to an error that names both types.

pyarrow is generous where it makes arrays: it cuts 1.5 to the integer 1, reads bytes as text, a number as a date, and
drops struct fields it does not know. A stored value must be what the Function gave, so that is refused here.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
from array import array as number_array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import CoroutineType, GeneratorType, NoneType
from typing import Any, NoReturn

import pyarrow as pa

from lancegpu_sql.functions.casts import is_lossless, lossless_cast
from lancegpu_sql.functions.faults import WrongResultError

_types = pa.types
_PLAIN_NUMBERS: dict[pa.DataType, tuple[type, str]] = {pa.int64(): (int, "q"), pa.float64(): (float, "d")}
_ARROW_REFUSES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def array_of(values: Sequence[Any], field: pa.Field, rows: Sequence[int] | None = None) -> pa.Array:
    """Make the array of a row Function's results.

    Parameters
    ----------
    values
        One result a row.
    field
        The declared type, and whether it may be null.
    rows
        Index of each in its batch, where they are not all of it.

    Raises
    ------
    WrongResultError
        A result is not of that type; `row_index` says which is the first.
    """
    values = _plain(values, field.type)
    try:
        numbers = _numbers(values, field.type)
        if numbers is not None:
            return numbers
        _check_values(values, field)
        array = pa.array(values, field.type)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        _check_nulls(array, field)
        return array
    except (_Refused, *_ARROW_REFUSES):
        _refuse_row(values, field, rows)


class _Refused(Exception):
    """A value does not suit; `got` says what it is."""


def _numbers(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Make an array of plain numbers, none of them None, without `pa.array`; None where they are something else.

    The first use of `pa.array` imports pandas where it is installed, which takes longer than most first calls.
    """
    kind, code = _PLAIN_NUMBERS.get(arrow_type, (None, ""))
    if kind is None or "pandas" in sys.modules or set(map(type, values)) != {kind}:
        return None
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(number_array(code, values))])


def _plain(values: Sequence[Any], arrow_type: pa.DataType) -> Sequence[Any]:
    """Turn dataclass instances and named tuples, which pyarrow does not read, into dicts."""
    if not _types.is_struct(arrow_type):
        return values
    kinds = set(map(type, values))
    if any(dataclasses.is_dataclass(kind) for kind in kinds):
        return [
            dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
            for value in values
        ]
    if any(hasattr(kind, "_asdict") for kind in kinds):
        return [value._asdict() if hasattr(value, "_asdict") else value for value in values]
    return values


def _refuse_row(values: Sequence[Any], field: pa.Field, rows: Sequence[int] | None) -> NoReturn:
    """Find the first row that does not suit, one by one: only a Function that failed pays for it."""
    for index, value in enumerate(values):
        try:
            _check_values([value], field)
            array = pa.array([value], field.type)
            _check_nulls(array, field)
        except (_Refused, *_ARROW_REFUSES) as problem:
            reason = "" if isinstance(problem, _Refused) and not problem.args else f" ({problem})"
            _refuse(field, _described(value), reason, row_index=index if rows is None else rows[index])
    _refuse(field, "results that make no array of it")


def _refuse(field: pa.Field, got: str, reason: str = "", **facts: Any) -> NoReturn:
    expected = f"{field.type}{'' if field.nullable else ' not null'}"
    advice = "" if got != "None" or field.nullable else " Declare it as T | None where it may give None."
    raise WrongResultError(
        f"It declares {expected} and returned {got}{reason}.{advice}", expected=expected, got=got, **facts
    )


def _described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, CoroutineType):
        value.close()  # or Python would warn, long after, that nobody awaited it
        return "a coroutine (the function it calls is asynchronous)"
    if isinstance(value, GeneratorType):
        return "a generator (return a list)"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = repr(value)
    except BaseException:
        return name
    return f"{name} {text if len(text) <= 80 else text[:77] + '...'}"


def _check_values(values: Iterable[Any], field: pa.Field) -> None:
    """Refuse what pyarrow would change silently. The kinds of values are few: only they are looked at."""
    arrow_type = field.type
    if _types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    accepts = _accepted(arrow_type)
    if accepts is None:
        return
    values = values if isinstance(values, (list, tuple)) else list(values)
    for kind in set(map(type, values)):
        if kind is not NoneType and not issubclass(kind, pa.Scalar) and not accepts(kind):
            raise _Refused
    if _types.is_struct(arrow_type):
        _check_structs(values, arrow_type)
    elif _types.is_map(arrow_type):
        pass  # pairs: pyarrow checks their shape, and their items' kinds as below
    elif _types.is_nested(arrow_type):
        _check_items(values, arrow_type)


def _check_items(values: Sequence[Any], arrow_type: pa.DataType) -> None:
    inner = arrow_type.value_field
    if _accepted(inner.type) is None:
        return
    arrays = [value for value in values if hasattr(value, "dtype")]
    for dtype in {value.dtype for value in arrays}:
        # An array of numbers knows the kind of all its items at once.
        if _types.is_integer(inner.type) and dtype.kind not in "iuO":
            raise _Refused
    lists = [value for value in values if value is not None and not hasattr(value, "dtype")]
    _check_values(list(chain.from_iterable(lists)), inner)


def _check_structs(values: Sequence[Any], arrow_type: pa.DataType) -> None:
    dicts = [value for value in values if isinstance(value, Mapping)]
    names = {field.name for field in arrow_type}
    for keys in set(map(tuple, dicts)):
        unknown = [str(key) for key in keys if key not in names]
        if unknown:
            raise _Refused(f"no field {', '.join(unknown)}")
        missing = [field.name for field in arrow_type if not field.nullable and field.name not in keys]
        if missing:
            raise _Refused(f"field {', '.join(missing)} is missing")
    for field in arrow_type:
        _check_values([value.get(field.name) for value in dicts], field)


def _accepted(arrow_type: pa.DataType) -> Callable[[type], bool] | None:
    """Give the test of a value's class; None where pyarrow itself refuses what does not suit."""
    if _types.is_integer(arrow_type):
        return lambda kind: hasattr(kind, "__index__")
    if _types.is_string(arrow_type) or _types.is_large_string(arrow_type) or _types.is_string_view(arrow_type):
        return lambda kind: issubclass(kind, str)
    if _types.is_binary(arrow_type) or _types.is_large_binary(arrow_type) or _types.is_binary_view(arrow_type):
        return lambda kind: issubclass(kind, (bytes, bytearray, memoryview))
    if _types.is_fixed_size_binary(arrow_type):
        return lambda kind: issubclass(kind, (bytes, bytearray, memoryview))
    if _types.is_date(arrow_type):
        return lambda kind: not hasattr(kind, "__index__") and not issubclass(kind, datetime.datetime)
    if _types.is_temporal(arrow_type):
        return lambda kind: not hasattr(kind, "__index__")
    if _types.is_struct(arrow_type):
        return lambda kind: issubclass(kind, Mapping)
    if _types.is_map(arrow_type):
        return lambda kind: not issubclass(kind, (str, bytes))
    if _types.is_nested(arrow_type):
        return lambda kind: not issubclass(kind, (str, bytes, bytearray, Mapping, set, frozenset))
    return None


def checked_batch(result: Any, field: pa.Field, rows: int) -> pa.Array:
    """Give a batch Function's result as an array of the declared type.

    Parameters
    ----------
    result
        What it returned: an array, a chunked array, a numpy array, or, for a struct, a record batch.
    field
        The declared type, and whether it may be null.
    rows
        Of the batch it was called with.

    Raises
    ------
    WrongResultError
        It is no array, or has another length or type.
    """
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
        if isinstance(result, pa.ChunkedArray):  # too large for one array of its own type
            result = pa.concat_arrays(result.chunks)
    if isinstance(result, pa.RecordBatch) and _types.is_struct(field.type):
        result = result.to_struct_array()
    got = ""
    if _is_numpy(result):
        got = f"a numpy array of {result.dtype} with shape {result.shape}"
        result = _from_numpy(result, field, got)
    if not isinstance(result, pa.Array):
        _refuse(
            field,
            _described(result),
            ", where an array of the whole batch belongs, such as pa.array(values, type) or a numpy array",
        )
    if len(result) != rows:
        raise WrongResultError(
            f"It was called with {rows} rows and returned {len(result)} values: give one for each row.",
            kind="wrong_length",
            expected=str(rows),
            got=str(len(result)),
        )
    got = got or f"an array of {result.type}"
    if result.type != field.type:
        if not is_lossless(result.type, field.type):
            _refuse(field, got, _narrowing(result.type, field.type) if "numpy" in got else "")
        try:
            result = lossless_cast(result, field.type)
        except _ARROW_REFUSES as problem:
            _refuse(field, got, f" ({problem})")
    try:
        _check_nulls(result, field)
    except _Refused as problem:
        _refuse(field, "nulls", f" ({problem})" if problem.args else "")
    return result


def _is_numpy(result: Any) -> bool:
    numpy = sys.modules.get("numpy")  # a Function that has not imported it gives no array of it
    return numpy is not None and isinstance(result, numpy.ndarray)


def _from_numpy(result: Any, field: pa.Field, got: str) -> pa.Array:
    """Make an Arrow array of a numpy array: of each row a value, or, from two dimensions on, a list of a fixed size."""
    masked = hasattr(result, "mask")
    if result.ndim == 0 or 0 in result.shape[1:] or (masked and result.ndim > 1):
        _refuse(field, got, ", which has no value for each row" if result.ndim == 0 else "")
    if result.dtype.kind == "O":
        return array_of(result.tolist(), field)
    try:
        # A copy: the Function may write the next batch into the same memory while this one is being sent.
        owned = result.copy() if masked else result.astype(result.dtype.newbyteorder("="), order="C", copy=True)
        array = pa.array(owned.reshape(-1) if owned.ndim > 1 else owned)
        for size in reversed(owned.shape[1:]):
            array = pa.FixedSizeListArray.from_arrays(array, size)
    except _ARROW_REFUSES as problem:
        _refuse(field, got, f" ({problem})")
    return array


def _narrowing(source: pa.DataType, target: pa.DataType) -> str:
    """Say how numbers of another kind become those declared, which numpy would do without a word."""
    while _types.is_fixed_size_list(source) and hasattr(target, "value_type"):
        source, target = source.value_type, target.value_type
    if _types.is_floating(source) and _types.is_floating(target):
        return f'; where the declared precision will do, return it as .astype("float{target.bit_width}")'
    return ""


def _check_nulls(array: pa.Array, field: pa.Field) -> None:
    """Refuse nulls where the declared type, at any depth, has none."""
    if not field.nullable and array.null_count:
        raise _Refused
    if _types.is_struct(array.type):
        for index, inner in enumerate(array.type):
            if _has_not_null(inner):
                _check_nulls(array.flatten()[index].filter(array.is_valid()), inner)
    elif _types.is_map(array.type):
        if _has_not_null(array.type.item_field):
            _check_nulls(array.items, array.type.item_field)
    elif hasattr(array.type, "value_field") and _has_not_null(array.type.value_field):
        _check_nulls(array.flatten(), array.type.value_field)


def _has_not_null(field: pa.Field) -> bool:
    if not field.nullable:
        return True
    if _types.is_nested(field.type) and not _types.is_dictionary(field.type):
        return any(_has_not_null(field.type.field(index)) for index in range(field.type.num_fields))
    return False
