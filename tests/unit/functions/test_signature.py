from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, Optional, TypedDict

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.signature import InitParameter, Parameter, signature_of


class Found(TypedDict):
    label: str
    score: float | None


@dataclasses.dataclass
class Size:
    width: int
    height: int


class Pair(NamedTuple):
    left: str
    right: str


@pytest.mark.parametrize(
    ("annotation", "arrow_type", "nullable"),
    [
        (int, pa.int64(), False),
        (float, pa.float64(), False),
        (str, pa.utf8(), False),
        (bytes, pa.binary(), False),
        (bool, pa.bool_(), False),
        (datetime.date, pa.date32(), False),
        (datetime.datetime, pa.timestamp("us", "UTC"), False),
        (list[str], pa.list_(pa.utf8()), False),
        (list[list[int]], pa.list_(pa.list_(pa.int64())), False),
        (list[int | None], pa.list_(pa.int64()), False),
        (str | None, pa.utf8(), True),
        (Optional[int], pa.int64(), True),  # noqa: UP045
        (Annotated[list[float], pa.list_(pa.float32(), 384)], pa.list_(pa.float32(), 384), False),
        (Annotated[str | None, pa.large_utf8()], pa.large_utf8(), True),
        (Annotated[str, pa.large_utf8()] | None, pa.large_utf8(), True),
        (Annotated[Decimal, pa.decimal128(10, 2)], pa.decimal128(10, 2), False),
        (Annotated[int, "a remark"], pa.int64(), False),
        (Found, pa.struct([pa.field("label", pa.utf8(), nullable=False), ("score", pa.float64())]), False),
        (Size, pa.struct([pa.field(name, pa.int64(), nullable=False) for name in ("width", "height")]), False),
        (Pair, pa.struct([pa.field(name, pa.utf8(), nullable=False) for name in ("left", "right")]), False),
    ],
)
def test_a_result_has_the_type_of_its_annotation(annotation: Any, arrow_type: pa.DataType, nullable: bool) -> None:
    def f(x: int) -> Any: ...

    f.__annotations__["return"] = annotation
    signature = signature_of(f)
    assert (signature.output_type, signature.output_nullable) == (arrow_type, nullable)


def test_a_plain_function_is_called_once_per_row() -> None:
    def f(text: str, at: datetime.datetime | None) -> bool: ...

    signature = signature_of(f)
    assert signature.calling == "row"
    assert signature.parameters == (
        Parameter("text", pa.utf8(), nullable=False),
        Parameter("at", pa.timestamp("us", "UTC"), nullable=True),
    )


def test_arrow_arrays_are_called_once_per_batch() -> None:
    def f(text: pa.StringArray, vector: Annotated[pa.Array, pa.list_(pa.float32(), 4)]) -> pa.FloatArray: ...

    signature = signature_of(f)
    assert signature.calling == "arrays"
    assert [each.type for each in signature.parameters] == [pa.utf8(), pa.list_(pa.float32(), 4)]
    assert (signature.output_type, signature.output_nullable) == (pa.float32(), True)


def test_plain_arrays_take_their_types_from_schemas() -> None:
    def f(text: pa.Array) -> pa.Array: ...

    signature = signature_of(f, pa.schema([("text", pa.large_utf8())]), pa.schema([("size", pa.int32())]))
    assert (signature.parameters[0].type, signature.output_type) == (pa.large_utf8(), pa.int32())


def test_a_record_batch_has_the_columns_of_the_input_schema() -> None:
    def f(batch: pa.RecordBatch) -> pa.Int64Array: ...

    signature = signature_of(f, pa.schema([("a", pa.int8()), ("b", pa.utf8())]))
    assert signature.calling == "record_batch"
    assert [each.name for each in signature.parameters] == ["a", "b"]


def test_a_schema_says_the_type_where_an_annotation_names_none() -> None:
    def f(x: Any) -> dict[str, Any]:
        return {"label": str(x)}

    given = pa.schema([("x", pa.int64())])
    output = pa.schema([("label", pa.utf8()), ("score", pa.float32())])
    signature = signature_of(f, given, output)
    assert (signature.parameters[0].type, signature.output_type) == (pa.int64(), pa.struct(list(output)))


def test_an_output_schema_of_several_fields_makes_a_struct() -> None:
    def f(text: str): ...

    output = pa.schema([("label", pa.utf8()), ("score", pa.float32())])
    assert signature_of(f, output_schema=output).output_type == pa.struct(list(output))


def test_a_class_has_the_parameters_of_its_call_and_of_its_init() -> None:
    class Model:
        def __init__(self, size: str, layers: int = 3, device: object = object) -> None: ...
        def __call__(self, text: str) -> float: ...

    signature = signature_of(Model)
    assert signature.is_class
    assert [each.name for each in signature.parameters] == ["text"]
    assert signature.init_parameters == (
        InitParameter("size", required=True, type="str"),
        InitParameter("layers", required=False, default=3, type="int"),
        InitParameter("device", required=False, default=None),
    )


def test_an_annotation_may_name_what_only_a_closure_holds() -> None:
    Vector = Annotated[list[float], pa.list_(pa.float32(), 2)]

    def f(x: Vector) -> bool:
        return bool(Vector)

    assert signature_of(f).parameters[0].type == pa.list_(pa.float32(), 2)


def _bad_functions() -> list[tuple[Callable[..., Any], str]]:
    def no_type(text) -> int: ...  # type: ignore[no-untyped-def]
    def no_result(text: str): ...  # type: ignore[no-untyped-def]
    def nothing(text: str) -> None: ...
    def anything(text: Any) -> int: ...
    def two_types(text: str | int) -> int: ...
    def bare_list(items: list) -> int: ...  # type: ignore[type-arg]
    def a_dict(items: dict[str, int]) -> int: ...
    def a_decimal(x: Decimal) -> int: ...
    def arrow_type(x: pa.int64()) -> int: ...  # type: ignore[valid-type]
    def extension(x: Annotated[str, pa.uuid()]) -> int: ...
    def many(*texts: str) -> int: ...
    def none_at_all() -> int: ...
    def mixed(a: pa.StringArray, b: str) -> pa.Int64Array: ...
    def values_to_array(a: str) -> pa.Int64Array: ...
    def arrays_to_value(a: pa.StringArray) -> int: ...
    def plain_array(a: pa.Array) -> pa.Int64Array: ...
    def plain_result(a: pa.StringArray) -> pa.Array: ...
    def chunked(a: pa.ChunkedArray) -> pa.Int64Array: ...
    def batch(a: pa.RecordBatch) -> pa.Int64Array: ...
    def batch_and_more(a: pa.RecordBatch, b: str) -> pa.Int64Array: ...
    def unknown_name(a: Missing) -> int: ...  # type: ignore[name-defined]  # noqa: F821
    async def later(text: str) -> int: ...
    def yields(text: str) -> int:  # type: ignore[misc]
        yield 1

    class NoCall: ...

    class Twice:
        def __init__(self, text: str) -> None: ...
        def __call__(self, text: str) -> int: ...

    class Async:
        async def __call__(self, text: str) -> int: ...

    class Instance:
        def __call__(self, text: str) -> int: ...

    return [
        (no_type, "has no type: annotate it"),
        (no_result, "result of no_result has no type"),
        (nothing, "gives a value for each row"),
        (anything, "Annotated"),
        (two_types, "of several types write one"),
        (bare_list, r"such as list\[float\]"),
        (a_dict, "write a TypedDict"),
        (a_decimal, "pa.decimal128"),
        (arrow_type, "Annotated"),
        (extension, "storage type"),
        (many, "name each parameter"),
        (none_at_all, "at least one column"),
        (mixed, "annotate every parameter"),
        (values_to_array, "takes single values"),
        (arrays_to_value, "its result is an array"),
        (plain_array, "pa.StringArray"),
        (plain_result, "pa.FloatArray"),
        (chunked, "takes and gives arrays"),
        (batch, "input_schema"),
        (batch_and_more, "alone"),
        (unknown_name, "TYPE_CHECKING"),
        (later, "asynchronous"),
        (yields, "return one value"),
        (NoCall, "without __call__"),
        (Twice, "rename one"),
        (Async, "asynchronous"),
        (Instance(), "decorate its class"),
    ]


@pytest.mark.parametrize(("target", "says"), _bad_functions(), ids=lambda each: getattr(each, "__name__", None))
def test_a_definition_that_cannot_be_says_what_to_write(target: Callable[..., Any], says: str) -> None:
    with pytest.raises(InvalidFunction, match=says):
        signature_of(target)


def test_an_input_schema_has_a_field_for_each_parameter() -> None:
    def f(text: str) -> int: ...

    with pytest.raises(InvalidFunction, match="one field for each"):
        signature_of(f, pa.schema([("body", pa.utf8())]))


def test_an_annotation_without_none_stands_against_a_nullable_schema() -> None:
    def f(text: str) -> int: ...

    assert not signature_of(f, pa.schema([("text", pa.large_utf8())])).parameters[0].nullable


@pytest.mark.parametrize("hint", [np.ndarray, NDArray[np.float32]])
def test_a_batch_may_be_given_as_a_numpy_array(hint: Any) -> None:
    def f(text): ...

    f.__annotations__ = {"text": pa.StringArray, "return": Annotated[hint, pa.list_(pa.float32(), 3)]}
    signature = signature_of(f)
    assert (signature.calling, signature.output_type) == ("arrays", pa.list_(pa.float32(), 3))


def test_a_single_value_is_still_no_batch() -> None:
    def f(text: pa.StringArray) -> Annotated[list, pa.list_(pa.float32(), 3)]: ...

    with pytest.raises(InvalidFunction, match="takes whole batches"):
        signature_of(f)


@pytest.mark.parametrize(
    "hint", [pa.int64, Annotated[int, pa.int8], Annotated[list[float], pa.list_], Annotated[pa.Array, pa.timestamp]]
)
def test_the_maker_of_a_type_is_no_type(hint: Any) -> None:
    def f(x): ...

    f.__annotations__ = {"x": hint, "return": int}
    with pytest.raises(InvalidFunction, match=r"the maker of a type, not a type: write Annotated\[.*\(\.\.\.\)\]"):
        signature_of(f)
