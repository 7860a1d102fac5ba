from __future__ import annotations

import dataclasses
import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from lancegpu_sql.functions.faults import WrongResultError
from lancegpu_sql.functions.results import array_of, checked_batch

LABELLED = pa.struct([pa.field("label", pa.utf8(), nullable=False), ("score", pa.float64())])


@dataclasses.dataclass
class Labelled:
    label: str
    score: float | None = None


class Pair(NamedTuple):
    label: str
    score: float


@pytest.mark.parametrize(
    ("values", "arrow_type", "expected"),
    [
        ([1, None, np.int32(3)], pa.int64(), [1, None, 3]),
        ([1, 2.5, np.float32(0.5)], pa.float64(), [1.0, 2.5, 0.5]),
        ([np.arange(2, dtype="float32"), [2, 3.5]], pa.list_(pa.float32(), 2), [[0.0, 1.0], [2.0, 3.5]]),
        ([["a"], None, []], pa.list_(pa.utf8()), [["a"], None, []]),
        ([b"a", bytearray(b"b")], pa.binary(), [b"a", b"b"]),
        ([{"label": "x", "score": 1}, {"label": "y"}], LABELLED, [{"label": "x", "score": 1.0}, {"label": "y", "score": None}]),
        ([Labelled("x"), None], LABELLED, [{"label": "x", "score": None}, None]),
        ([Pair("x", 0.5)], LABELLED, [{"label": "x", "score": 0.5}]),
        ([pa.scalar(4)], pa.int64(), [4]),
        ([{"a": 1}], pa.map_(pa.utf8(), pa.int64()), [[("a", 1)]]),
        (["a", "b", "a"], pa.dictionary(pa.int32(), pa.utf8()), ["a", "b", "a"]),
    ],
)  # fmt: skip
def test_results_of_the_declared_type_are_taken(
    values: list[Any], arrow_type: pa.DataType, expected: list[Any]
) -> None:
    array = array_of(values, pa.field("value", arrow_type))
    assert array.type == arrow_type
    assert array.to_pylist() == expected


@pytest.mark.parametrize(
    ("value", "arrow_type"),
    [
        (1.5, pa.int64()),
        (2.0, pa.int64()),
        (True, pa.int64()),
        ("1", pa.int64()),
        (300, pa.int8()),
        (1, pa.bool_()),
        (b"a", pa.utf8()),
        (1, pa.utf8()),
        ("a", pa.binary()),
        ("ab", pa.list_(pa.utf8())),
        ({1, 2}, pa.list_(pa.int64())),
        ([1.5], pa.list_(pa.int64())),
        (np.array([1.5]), pa.list_(pa.int64())),
        ([[b"a"]], pa.list_(pa.list_(pa.utf8()))),
        ([1, 2, 3], pa.list_(pa.float32(), 2)),
        (1, pa.timestamp("us")),
        (datetime.datetime(2020, 1, 1, 5), pa.date32()),  # noqa: DTZ001
        ({"label": "x", "other": 1}, LABELLED),
        ({"score": 1.0}, LABELLED),
        ({"label": None, "score": 1.0}, LABELLED),
        ({"label": b"x"}, LABELLED),
        (("x", 1.0), LABELLED),
        ([None], pa.list_(pa.field("item", pa.int64(), nullable=False))),
        (object(), pa.utf8()),
    ],
)  # fmt: skip
def test_a_result_that_would_be_changed_is_refused(value: Any, arrow_type: pa.DataType) -> None:
    with pytest.raises(WrongResultError) as refused:
        array_of([None, value], pa.field("value", arrow_type))
    assert refused.value.row_index == 1
    assert str(arrow_type) in refused.value.expected
    assert type(value).__name__ in refused.value.got


def test_none_where_none_was_declared_says_how_to_declare_it() -> None:
    with pytest.raises(WrongResultError, match=r"T \| None") as refused:
        array_of([1, None], pa.field("value", pa.int64(), nullable=False))
    assert refused.value.row_index == 1


def test_a_generator_is_refused() -> None:
    with pytest.raises(WrongResultError, match="return a list"):
        array_of([(x for x in [1])], pa.field("value", pa.list_(pa.int64())))


def test_a_coroutine_is_refused_and_leaves_no_warning_behind() -> None:
    async def later() -> int:
        return 1

    with pytest.raises(WrongResultError, match="asynchronous"):
        array_of([later()], pa.field("value", pa.int64()))


def test_the_row_of_a_wrong_result_is_counted_in_its_batch() -> None:
    with pytest.raises(WrongResultError) as refused:
        array_of([1, "x"], pa.field("value", pa.int64()), rows=[3, 8])
    assert refused.value.row_index == 8


@pytest.mark.parametrize(
    ("result", "arrow_type"),
    [
        (pa.array([1, 2], pa.int8()), pa.int64()),
        (pa.array(["a", "b"], pa.large_utf8()), pa.utf8()),
        (pa.array(["a", "b"], pa.string_view()), pa.utf8()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.utf8()),
        (pa.array(["a", "b"]), pa.dictionary(pa.int32(), pa.utf8())),
        (pa.chunked_array([["a"], ["b"]]), pa.utf8()),
        (pa.nulls(2), pa.utf8()),
        (pa.record_batch({"a": [1, 2]}), pa.struct([("a", pa.int64())])),
        (pa.array([[1.0], [2.0]], pa.list_(pa.float32(), 1)), pa.list_(pa.float32())),
        (np.array([1, 2]), pa.int64()),
        (np.array([1, 2], dtype="int32"), pa.float64()),
        (np.array([1, 2], dtype=">i4"), pa.int32()),
        (np.array([1.0, 9.0, 2.0])[::2], pa.float64()),
        (np.array([True, False]), pa.bool_()),
        (np.array(["a", "bc"]), pa.utf8()),
        (np.array(["a", None], dtype=object), pa.utf8()),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[us]"), pa.timestamp("us")),
        (np.ones((2, 3), dtype="float32"), pa.list_(pa.float32(), 3)),
        (np.asfortranarray(np.ones((2, 3), dtype="float32")), pa.list_(pa.float64())),
        (np.ones((2, 3, 4), dtype="float16"), pa.list_(pa.list_(pa.float32(), 4), 3)),
    ],
)
def test_other_forms_and_narrower_types_are_cast(result: Any, arrow_type: pa.DataType) -> None:
    array = checked_batch(result, pa.field("value", arrow_type), 2)
    assert (array.type, len(array)) == (arrow_type, 2)


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (pa.array([1.0, 2.0]), "an array of double"),
        (pa.array([True, False]), "an array of bool"),
        ([1, 2], "list"),
        (np.array([1.0, 2.0]), "a numpy array of float64 with shape (2,)"),
        (np.array([[1], [2]]), "a numpy array of int64 with shape (2, 1)"),
        (np.array(1), "a numpy array of int64 with shape ()"),
        (np.array([1j, 2j]), "a numpy array of complex128 with shape (2,)"),
        (np.array([1, "x"], dtype=object), "str 'x'"),
        (None, "None"),
    ],
)
def test_another_result_of_a_batch_is_refused_with_both_types(result: Any, got: str) -> None:
    with pytest.raises(WrongResultError) as refused:
        checked_batch(result, pa.field("value", pa.int64()), 2)
    assert refused.value.expected == "int64"
    assert refused.value.got.startswith(got)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            np.ones((2, 4), dtype="float32"),
            r"float32, 3>|\[3\] and returned a numpy array of float32 with shape \(2, 4\)",
        ),
        (np.ones((2, 3)), r'float64 with shape \(2, 3\).*\.astype\("float32"\)'),
        (np.ones((2, 0), dtype="float32"), r"shape \(2, 0\)"),
        (np.ones(2, dtype="float32"), r"shape \(2,\)"),
        (np.ma.masked_array(np.ones((2, 3), dtype="float32"), True), "shape"),
    ],
)
def test_vectors_of_another_shape_are_refused_with_both(result: Any, says: str) -> None:
    with pytest.raises(WrongResultError, match=says):
        checked_batch(result, pa.field("value", pa.list_(pa.float32(), 3)), 2)


def test_a_numpy_array_may_be_written_again_once_it_is_given() -> None:
    buffer = np.array([1, 2])
    array = checked_batch(buffer, pa.field("value", pa.int64()), 2)
    buffer[:] = 9
    assert array.to_pylist() == [1, 2]


def test_masked_values_are_nulls() -> None:
    masked = np.ma.masked_array([1, 2], [False, True])
    assert checked_batch(masked, pa.field("value", pa.int64()), 2).to_pylist() == [1, None]


def test_numpy_arrays_of_another_length_are_told_apart() -> None:
    with pytest.raises(WrongResultError, match="3 rows and returned 2"):
        checked_batch(np.ones((2, 3), dtype="float32"), pa.field("value", pa.list_(pa.float32(), 3)), 3)


def test_a_batch_of_another_length_is_told_apart() -> None:
    with pytest.raises(WrongResultError, match="3 rows and returned 2") as refused:
        checked_batch(pa.array([1, 2]), pa.field("value", pa.int64()), 3)
    assert refused.value.kind == "wrong_length"


def test_nulls_of_a_batch_are_refused_where_none_were_declared() -> None:
    with pytest.raises(WrongResultError, match="nulls"):
        checked_batch(pa.array([1, None]), pa.field("value", pa.int64(), nullable=False), 2)
