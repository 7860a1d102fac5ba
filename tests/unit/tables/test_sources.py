"""Whatever users bring becomes one stream of record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.columns import COMPUTED_KEY
from lancegpu_sql.tables.sources import Stream, reader_of, without_declarations

ROWS = {"id": [1, 2], "text": ["a", None]}
TABLE = pa.table(ROWS)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_batches(),
        TABLE.to_reader(),
        ds.dataset(TABLE),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        ROWS,
        [{"id": 1, "text": "a"}, {"id": 2}],
    ],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}",
)
def test_rows_are_the_same_whatever_brings_them(data: Any) -> None:
    assert reader_of(data).read_all().to_pydict() == ROWS


def test_anything_with_an_arrow_stream_is_rows() -> None:
    class Foreign:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return TABLE.__arrow_c_stream__(requested_schema)

    assert reader_of(Foreign()).read_all() == TABLE


def test_a_key_that_only_a_later_dict_has_becomes_a_column() -> None:
    assert reader_of([{"a": 1}, {"b": "x"}]).read_all().to_pydict() == {"a": [1, None], "b": [None, "x"]}


def test_a_schema_says_how_to_read_dicts() -> None:
    schema = pa.schema([("id", pa.int16()), ("vector", pa.list_(pa.float32(), 2))])
    assert reader_of([{"id": 1, "vector": [1, 2]}], schema).read_all().schema == schema


def test_a_schema_makes_an_empty_list_an_empty_table() -> None:
    assert reader_of([], pa.schema([("id", pa.int64())])).read_all().num_rows == 0


def test_a_pandas_index_is_not_a_column() -> None:
    assert reader_of(pd.DataFrame(ROWS, index=[7, 8])).schema.names == ["id", "text"]


@pytest.mark.parametrize(
    "data", [[], [1, 2], 3, None, "missing.parquet", [{"a": 1}, {"a": "x"}], {"a": [1], "b": [1, 2]}]
)
def test_what_is_not_rows_is_refused_with_words(data: Any) -> None:
    with pytest.raises(InvalidData):
        reader_of(data)


def test_a_key_that_the_schema_lacks_is_refused() -> None:
    with pytest.raises(InvalidData, match="typo"):
        reader_of([{"id": 1, "typo": 2}], pa.schema([("id", pa.int64())]))


def test_a_new_table_takes_no_declaration_from_the_data() -> None:
    field = pa.field("y", pa.int64(), metadata={COMPUTED_KEY: "{}", "unit": "m"})
    assert without_declarations(pa.schema([field])).field("y").metadata == {b"unit": b"m"}


def test_a_stream_raises_its_own_failure_again() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise KeyError("lost")

    stream = Stream(TABLE.schema, batches())
    with pytest.raises(KeyError, match="lost"), stream.own_failures():
        stream.reader.read_all()
