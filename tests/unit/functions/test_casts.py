from __future__ import annotations

import pyarrow as pa
import pytest

from lancegpu_sql.catalog.models import Parameter
from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions import ColumnRef
from lancegpu_sql.functions.casts import argument_cast, check_arguments, is_lossless, lossless_cast

LOSSLESS = [
    (pa.int8(), pa.int64()),
    (pa.uint32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.int16(), pa.float32()),
    (pa.float16(), pa.float32()),
    (pa.float32(), pa.float64()),
    (pa.large_utf8(), pa.utf8()),
    (pa.string_view(), pa.utf8()),
    (pa.utf8(), pa.large_utf8()),
    (pa.dictionary(pa.int32(), pa.utf8()), pa.utf8()),
    (pa.binary(16), pa.binary()),
    (pa.binary_view(), pa.binary()),
    (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "Europe/Paris"), pa.timestamp("us", "UTC")),
    (pa.decimal128(5, 2), pa.decimal128(10, 3)),
    (pa.list_(pa.float32(), 4), pa.list_(pa.float64())),
    (pa.large_list(pa.int8()), pa.list_(pa.int64())),
    (pa.list_(pa.float32(), 4), pa.list_(pa.float64(), 4)),
    (pa.struct([("a", pa.int8()), ("b", pa.large_utf8())]), pa.struct([("a", pa.int64()), ("b", pa.utf8())])),
    (pa.map_(pa.utf8(), pa.int8()), pa.map_(pa.utf8(), pa.int64())),
    (pa.null(), pa.utf8()),
    (pa.list_view(pa.int8()), pa.list_(pa.int64())),
    (pa.dictionary(pa.int8(), pa.utf8()), pa.string_view()),
    (pa.utf8(), pa.dictionary(pa.int32(), pa.utf8())),
]
LOSSY = [
    (pa.list_(pa.list_view(pa.int8())), pa.list_(pa.list_(pa.int8()))),
    (pa.int64(), pa.int32()),
    (pa.int64(), pa.float64()),
    (pa.uint64(), pa.int64()),
    (pa.int8(), pa.uint64()),
    (pa.float64(), pa.float32()),
    (pa.float64(), pa.int64()),
    (pa.bool_(), pa.int64()),
    (pa.int64(), pa.utf8()),
    (pa.binary(), pa.utf8()),
    (pa.utf8(), pa.binary()),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
    (pa.date32(), pa.timestamp("us")),
    (pa.decimal128(10, 2), pa.decimal128(10, 3)),
    (pa.list_(pa.float32()), pa.list_(pa.float32(), 4)),
    (pa.list_(pa.float32(), 3), pa.list_(pa.float32(), 4)),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
    (pa.uuid(), pa.binary(16)),
]


@pytest.mark.parametrize(("source", "target"), LOSSLESS, ids=str)
def test_a_wider_type_or_another_form_holds_every_value(source: pa.DataType, target: pa.DataType) -> None:
    assert is_lossless(source, target)
    assert lossless_cast(pa.nulls(2, source), target) == pa.nulls(2, target)


@pytest.mark.parametrize(("source", "target"), LOSSY, ids=str)
def test_a_type_that_could_lose_something_is_not_cast(source: pa.DataType, target: pa.DataType) -> None:
    assert not is_lossless(source, target)


def test_the_same_type_needs_no_cast() -> None:
    assert argument_cast(pa.utf8(), pa.utf8()) is None


def test_another_form_is_cast_to_the_parameters_type() -> None:
    assert argument_cast(pa.large_utf8(), pa.utf8()) == pa.utf8()


def test_an_unsuitable_column_names_both_types() -> None:
    with pytest.raises(InvalidBinding, match="type int64 does not suit a parameter of type string"):
        argument_cast(pa.int64(), pa.utf8())


def test_times_without_a_zone_say_how_to_annotate_them() -> None:
    with pytest.raises(InvalidBinding, match=r'pa.timestamp\("us"\)'):
        argument_cast(pa.timestamp("us"), pa.timestamp("us", "UTC"))


TEXT = (Parameter(name="text", type="utf8", nullable=True),)


def test_a_binding_to_a_missing_column_lists_those_there_are() -> None:
    with pytest.raises(InvalidBinding, match=r"no column 'body'.*id, text"):
        check_arguments(
            "embed", TEXT, {"text": ColumnRef("body")}, pa.schema([("id", pa.int64()), ("text", pa.utf8())])
        )


def test_a_binding_to_a_column_of_another_type_names_it() -> None:
    with pytest.raises(InvalidBinding, match=r"column 'id' cannot be 'text': .*int64"):
        check_arguments("embed", TEXT, {"text": ColumnRef("id")}, pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize(
    ("column", "parameter", "ways"),
    [
        (pa.int64(), pa.float64(), ["annotate the parameter with int,", "CAST(<column> AS DOUBLE)"]),
        (pa.float64(), pa.int64(), ["annotate the parameter with float,", "AS BIGINT)"]),
        (pa.uint64(), pa.int64(), ["Annotated[int, pa.uint64()]"]),
        (pa.utf8(), pa.float64(), ["with str,", "AS DOUBLE)"]),
        (pa.list_(pa.utf8()), pa.utf8(), []),
    ],
)
def test_a_column_that_does_not_suit_is_answered_with_ways_out(
    column: pa.DataType, parameter: pa.DataType, ways: list[str]
) -> None:
    with pytest.raises(InvalidBinding, match="does not suit") as caught:
        argument_cast(column, parameter)
    assert all(way in caught.value.message for way in ways)


def test_a_list_view_keeps_its_values() -> None:
    views = pa.array([[1, 2], None, [3]], pa.list_view(pa.int8()))
    assert lossless_cast(views, pa.list_(pa.int64())).to_pylist() == [[1, 2], None, [3]]
    assert lossless_cast(views.slice(1), pa.list_(pa.int8())).to_pylist() == [None, [3]]


def test_a_binding_without_a_column_for_a_parameter_is_refused() -> None:
    with pytest.raises(InvalidBinding, match="lacks text"):
        check_arguments("embed", TEXT, {}, pa.schema([("text", pa.utf8())]))
