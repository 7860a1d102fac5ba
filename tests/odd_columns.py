"""One small column of each type that a Lance table may hold, with the values at which meanings differ."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

NAN = float("nan")
ROWS = 5

ODD_COLUMNS: dict[str, pa.Array] = {
    "int8": pa.array([-128, 0, None, 127, 1], pa.int8()),
    "int64": pa.array([-(2**63), 0, None, 2**63 - 1, 1], pa.int64()),
    "uint8": pa.array([0, 255, None, 128, 1], pa.uint8()),
    "uint64": pa.array([0, 2**64 - 1, None, 2**63, 1], pa.uint64()),
    "bool": pa.array([True, False, None, True, False]),
    "float16": pa.array(np.array([0.0, -0.0, 1.5, NAN, 2.0], "float16")),
    "float32": pa.array([0.0, -0.0, None, -NAN, 3e38], pa.float32()),
    "float64": pa.array([0.0, -0.0, None, -NAN, 1e308], pa.float64()),
    "string": pa.array(["", "a", None, "é", "Z"]),
    "large_string": pa.array(["", "A", None, "\U0001f600", "\uffff"], pa.large_string()),
    "dictionary": pa.array(["a", "b", None, "a", "c"]).dictionary_encode(),
    "bytes": pa.array([b"", b"\xff", None, b"\0", b"a"], pa.binary()),
    "fixed_binary": pa.array([b"ab", b"\xff\0", None, b"\0\0", b"aa"], pa.binary(2)),
    "date": pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), None, dt.date(9999, 12, 31), dt.date(2020, 2, 29)]),
    "date_ms": pa.array([0, 86_400_000, None, -86_400_000, 864_000_000], pa.date64()),
    "timestamp_s": pa.array([0, 1, None, -1, 10**9], pa.timestamp("s")),
    "timestamp_us": pa.array([0, 1, None, -1, 10**15], pa.timestamp("us")),
    "timestamp_ns": pa.array([0, 1, None, -1, 10**18], pa.timestamp("ns")),
    "timestamp_tz": pa.array([0, 1, None, -1, 10**15], pa.timestamp("us", "Europe/Berlin")),
    "time_s": pa.array([0, 1, None, 86_399, 60], pa.time32("s")),
    "time_us": pa.array([0, 1, None, 86_399_999_999, 60], pa.time64("us")),
    "duration": pa.array([0, 1, None, -1, 10**9], pa.duration("us")),
    "decimal": pa.array(
        [Decimal("-1.50"), Decimal(0), None, Decimal("99999999.99"), Decimal("1.5")], pa.decimal128(10, 2)
    ),
    "decimal256": pa.array(
        [Decimal("-1.50"), Decimal(0), None, Decimal("99.99"), Decimal("1.5")], pa.decimal256(50, 2)
    ),
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"1" * 16, b"\xff" * 16, None, b"\0" * 16, b"a" * 16], pa.binary(16))
    ),
    "struct": pa.array([{"a": 1, "f": 1.0}, {"a": None, "f": NAN}, None, {"a": 0, "f": -0.0}, {"a": 5, "f": 0.0}]),
    "list": pa.array([[1], [], None, [None], [1, 2]], pa.list_(pa.int32())),
    "half_vector": pa.array([[1.0, 2.0], [0.0, 0.0], None, [3.0, 4.0], [1.0, 2.0]], pa.list_(pa.float16(), 2)),
    "map": pa.array([[("a", 1)], [], None, [("b", None)], [("a", 2)]], pa.map_(pa.string(), pa.int32())),
}


def table_of(*names: str) -> pa.Table:
    """A table of these columns (all of them where none is named) and a row number called ``row``."""
    chosen = names or tuple(ODD_COLUMNS)
    return pa.table({"row": pa.array(range(ROWS)), **{name: ODD_COLUMNS[name] for name in chosen}})
