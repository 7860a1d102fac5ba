"""Arrow types from Python annotations."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.arrow_types import check_supported

_PYTHON_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us", "UTC"),
}
_KNOWN = "int, float, str, bytes, bool, date, datetime, list[T], T | None"
# Arrow array classes whose name says the whole type; of the others the unit, size or item type is missing.
_ARRAY_TYPES: dict[Any, pa.DataType] = {
    pa.BooleanArray: pa.bool_(),
    pa.HalfFloatArray: pa.float16(),
    pa.FloatArray: pa.float32(),
    pa.DoubleArray: pa.float64(),
    pa.StringArray: pa.utf8(),
    pa.LargeStringArray: pa.large_utf8(),
    pa.StringViewArray: pa.string_view(),
    pa.BinaryArray: pa.binary(),
    pa.LargeBinaryArray: pa.large_binary(),
    pa.BinaryViewArray: pa.binary_view(),
    pa.Date32Array: pa.date32(),
    pa.Date64Array: pa.date64(),
    **{getattr(pa, f"{sign}Int{bits}Array"): getattr(pa, f"{sign.lower()}int{bits}")()
       for sign in ("", "U") for bits in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class Annotation:
    """What one annotation says.

    Attributes
    ----------
    type
        The Arrow type; None where the annotation leaves it open.
    nullable
        Nulls are among the values.
    shape
        `value`, `array` or `record_batch`; None where there is no annotation.
    is_numpy
        It is a numpy array: one value, or, as the result of a Function that takes batches, a whole batch.
    """

    type: pa.DataType | None = None
    nullable: bool = True
    shape: str | None = None
    is_numpy: bool = False


NO_ANNOTATION = Annotation()


def read_annotation(hint: Any, where: str) -> Annotation:
    """Read one evaluated annotation.

    Parameters
    ----------
    hint
        A type, as `typing.get_type_hints(..., include_extras=True)` gives it.
    where
        Words for the message of an error, such as "parameter 'text' of embed".

    Raises
    ------
    InvalidFunction
        No Arrow type is known for it.
    """
    annotation = _read(hint, where)
    if annotation.type is not None:
        try:
            check_supported(annotation.type)
        except InvalidFunction as problem:
            raise InvalidFunction(f"{where}: {problem.message}") from None
    return annotation


def _read(hint: Any, where: str) -> Annotation:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _read_annotated(args[0], args[1:], where)
    if origin in (typing.Union, types.UnionType):
        present = [arg for arg in args if arg is not type(None)]
        if len(present) != 1 or len(present) == len(args):
            raise InvalidFunction(f"{where} is {_words(hint)}: of several types write one, or T | None.")
        return dataclasses.replace(_read(present[0], where), nullable=True)
    _refuse_type_factory(hint, where)
    if hint is pa.RecordBatch:
        return Annotation(shape="record_batch")
    if isinstance(hint, type) and issubclass(hint, pa.Array):
        return Annotation(_ARRAY_TYPES.get(hint), nullable=True, shape="array")
    if isinstance(hint, type) and issubclass(hint, (pa.ChunkedArray, pa.Table, pa.Scalar)):
        raise InvalidFunction(
            f"{where} is {_words(hint)}: a batch Function takes and gives arrays, such as pa.StringArray, or takes "
            "one pa.RecordBatch."
        )
    return Annotation(_type_of(hint, where), nullable=False, shape="value")


def _read_annotated(hint: Any, extras: Sequence[Any], where: str) -> Annotation:
    for extra in extras:
        _refuse_type_factory(extra, where)
    said = [extra for extra in extras if isinstance(extra, (pa.DataType, pa.Field))]
    if not said:
        return _read(hint, where)
    if len(said) > 1:
        raise InvalidFunction(f"{where} is annotated with {len(said)} Arrow types: write one.")
    arrow_type = said[0].type if isinstance(said[0], pa.Field) else said[0]
    optional = _is_optional(hint)
    inner = next(arg for arg in typing.get_args(hint) if arg is not type(None)) if optional else hint
    if isinstance(inner, type) and issubclass(inner, pa.Array):
        return Annotation(arrow_type, nullable=True, shape="array")
    return Annotation(arrow_type, nullable=optional, shape="value", is_numpy=_is_numpy(inner))


def _is_numpy(hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and (origin.__module__, origin.__name__) == ("numpy", "ndarray")


def _refuse_type_factory(hint: Any, where: str) -> None:
    """Refuse `pa.int64` where `pa.int64()` is meant; without a word the type would be that of the Python annotation."""
    name = getattr(hint, "__name__", "")
    if isinstance(hint, type) or not callable(hint) or getattr(pa, name, None) is not hint:
        return
    raise InvalidFunction(
        f"{where} is annotated with pa.{name}, the maker of a type, not a type: write "
        f"Annotated[<Python type>, pa.{name}(...)]."
    )


def _is_optional(hint: Any) -> bool:
    args = typing.get_args(hint)
    return typing.get_origin(hint) in (typing.Union, types.UnionType) and len(args) == 2 and type(None) in args


def _type_of(hint: Any, where: str) -> pa.DataType:
    if isinstance(hint, pa.DataType):
        raise InvalidFunction(
            f"{where} is {hint}, an Arrow type itself: write Annotated[<Python type>, <that type>], such as "
            "Annotated[int, pa.int64()]."
        )
    if typing.is_typeddict(hint) or dataclasses.is_dataclass(hint):
        return _struct_of(hint, where)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _struct_of(hint, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, Sequence) and len(args) == 1:
        item = _read(args[0], where)
        if item.type is None or item.shape != "value":
            raise InvalidFunction(f"{where} is {_words(hint)}: the items of a list are Python values.")
        # Arrow's lists hold nulls unless they say otherwise; a stricter type would make most columns unsuitable.
        return pa.list_(item.type)
    if isinstance(hint, typing.NewType):
        return _type_of(hint.__supertype__, where)
    if hint in _PYTHON_TYPES:
        return _PYTHON_TYPES[hint]
    raise InvalidFunction(f"{where} is {_words(hint)}, for which no Arrow type is known: {_advice(hint)}.")


def _struct_of(hint: Any, where: str) -> pa.DataType:
    fields = []
    for name, inner in evaluated_hints(hint, where).items():
        field = _read(inner, f"{where}, field {name!r},")
        if field.type is None or field.shape != "value":
            raise InvalidFunction(f"{where}: field {name!r} is {_words(inner)}; the fields of a struct are values.")
        fields.append(pa.field(name, field.type, field.nullable))
    if not fields:
        raise InvalidFunction(f"{where} is {_words(hint)}, which has no fields with types.")
    return pa.struct(fields)


def evaluated_hints(target: Any, where: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Give the annotations of a function or a class, strings evaluated.

    Parameters
    ----------
    namespace
        Names besides the module's, such as those a closure holds.

    Raises
    ------
    InvalidFunction
        A name in an annotation means nothing here.
    """
    try:
        return typing.get_type_hints(target, localns=namespace, include_extras=True)
    except Exception as problem:  # an annotation is an expression: evaluating it may raise anything
        raise InvalidFunction(
            f"{where}: its annotations cannot be read here ({type(problem).__name__}: {problem}). Import what they "
            "name at the top of the module (not under TYPE_CHECKING), or write Annotated[...] with names it has."
        ) from problem


def _advice(hint: Any) -> str:
    if hint is Any or hint is object:
        return f"write one of {_KNOWN}, or Annotated[<Python type>, pa.<type>()]"
    if hint is None or hint is type(None):
        return "a Function gives a value for each row"
    origin = typing.get_origin(hint) or hint
    if origin is list:
        return "say what is in it, such as list[float]"
    if origin is dict:
        return "write a TypedDict, or Annotated[dict, pa.struct(...)] or Annotated[dict, pa.map_(...)]"
    if origin is decimal.Decimal:
        return "write Annotated[Decimal, pa.decimal128(<precision>, <scale>)]"
    if origin in (tuple, set, frozenset):
        return "write list[T]"
    if getattr(origin, "__module__", "") == "numpy":
        return f"write Annotated[{getattr(origin, '__name__', 'ndarray')}, pa.list_(pa.float32(), 384)] with its type"
    return f"the known ones are {_KNOWN}; for others write Annotated[{_words(hint)}, pa.<type>()]"


def _words(hint: Any) -> str:
    return (
        hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
    )
