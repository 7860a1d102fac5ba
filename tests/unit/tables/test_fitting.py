"""Which types of users' rows suit a table's column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancegpu_sql.tables.fitting import castable


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int32(), pa.int64()),
        (pa.float64(), pa.int64()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary(), pa.large_binary()),
        (pa.null(), pa.list_(pa.int8())),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.list_(pa.float64()), pa.list_(pa.float32(), 3)),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())])),
        (pa.timestamp("s"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us")),
    ],
    ids=str,
)
def test_the_same_kind_of_thing_may_be_cast(given: pa.DataType, wanted: pa.DataType) -> None:
    assert castable(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.int64(), pa.timestamp("us")),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.list_(pa.string()), pa.list_(pa.int64())),
        (pa.struct([("z", pa.int32())]), pa.struct([("a", pa.int64())])),
    ],
    ids=str,
)
def test_one_kind_is_not_read_as_another(given: pa.DataType, wanted: pa.DataType) -> None:
    assert not castable(given, wanted)
