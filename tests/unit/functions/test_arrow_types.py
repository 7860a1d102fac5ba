from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.arrow_types import format_type, parse_type

SIMPLE = [
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
    *(pa.utf8(), pa.large_utf8(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("s", "+02:00"), pa.timestamp("ms", "Europe/Paris")),
    *(pa.time32("s"), pa.time64("ns"), pa.duration("us"), pa.binary(16)),
    *(pa.decimal32(5, 2), pa.decimal64(12, 0), pa.decimal128(10, 2), pa.decimal256(40, -3)),
]
FIELD_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def fields(inner: st.SearchStrategy[pa.DataType], name: str = "item") -> st.SearchStrategy[pa.Field]:
    return st.builds(pa.field, st.just(name), inner, st.booleans())


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    items = fields(inner)
    structs = st.lists(st.tuples(FIELD_NAMES, inner, st.booleans()), max_size=3)
    return st.one_of(
        st.builds(pa.list_, items),
        st.builds(pa.large_list, items),
        st.builds(pa.list_, items, st.integers(1, 4096)),
        st.builds(lambda key, item: pa.map_(key, item), inner, fields(inner, "value")),
        structs.map(lambda given: pa.struct([pa.field(*each) for each in given])),
    )


TYPES = st.recursive(st.sampled_from(SIMPLE), nested, max_leaves=5)


@given(TYPES)
def test_a_type_comes_back_from_its_text(arrow_type: pa.DataType) -> None:
    assert parse_type(format_type(arrow_type)) == arrow_type


@pytest.mark.parametrize(
    ("arrow_type", "text"),
    [
        (pa.utf8(), "utf8"),
        (pa.list_(pa.float32(), 384), "fixed_size_list<float32, 384>"),
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), "list<int64 not null>"),
        (pa.struct([pa.field("a b", pa.utf8()), pa.field("n", pa.int8(), nullable=False)]),
         'struct<"a b": utf8, n: int8 not null>'),
        (pa.timestamp("us", "UTC"), "timestamp[us, UTC]"),
        (pa.dictionary(pa.int32(), pa.utf8()), "dictionary<int32, utf8>"),
        (pa.map_(pa.utf8(), pa.int64(), keys_sorted=True), "map<utf8, int64, keys_sorted>"),
    ],
)  # fmt: skip
def test_the_text_is_in_arrows_words(arrow_type: pa.DataType, text: str) -> None:
    assert format_type(arrow_type) == text
    assert parse_type(text) == arrow_type


@pytest.mark.parametrize(
    "arrow_type",
    [*SIMPLE, pa.list_(pa.utf8(), 3), pa.list_(pa.field("x", pa.int8(), nullable=False)),
     pa.struct([("a b", pa.int8())]), pa.map_(pa.utf8(), pa.int8()), pa.dictionary(pa.int8(), pa.utf8())],
)  # fmt: skip
def test_what_pyarrow_prints_is_understood(arrow_type: pa.DataType) -> None:
    assert parse_type(str(arrow_type)) == arrow_type


@pytest.mark.parametrize("text", ["", "list<", "list<int64>>", "int64 x", "int65", "struct<a>", "map<utf8>", "null"])
def test_other_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidFunction, match="Arrow's words"):
        parse_type(text)


@pytest.mark.parametrize(("text", "word"), [("BIGINT", "int64"), ("varchar", "utf8"), ("Timestamp", "timestamp.us.")])
def test_a_word_of_sql_is_answered_with_arrows(text: str, word: str) -> None:
    with pytest.raises(InvalidFunction, match=f"write '{word}'"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "says"), [("decimal128(99, 2)", "precision"), ("fixed_size_list<int8, 0>", "at least 1")]
)
def test_what_arrow_cannot_make_says_why(text: str, says: str) -> None:
    with pytest.raises(InvalidFunction, match=says):
        parse_type(text)


@pytest.mark.parametrize("arrow_type", [pa.uuid(), pa.list_(pa.json_()), pa.struct([("a", pa.bool8())])])
def test_extension_types_are_refused_with_their_storage(arrow_type: pa.DataType) -> None:
    with pytest.raises(InvalidFunction, match="storage type"):
        format_type(arrow_type)


def test_a_list_view_is_answered_with_the_list() -> None:
    with pytest.raises(InvalidFunction, match="use list<int8>"):
        parse_type("list_view<int8>")
