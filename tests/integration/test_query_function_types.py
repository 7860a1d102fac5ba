"""Every type that a Function may have, through a query: in a stage, in place, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from in_process_functions import InProcessFunctions
from lance_folder import LanceFolder
from odd_columns import ODD_COLUMNS

from lancegpu_sql.errors import InvalidData, InvalidQuery
from lancegpu_sql.query.session import QuerySession

MORE_COLUMNS: dict[str, pa.Array] = {
    "large_binary": pa.array([b"", b"\xff", None, b"\0", b"a"], pa.large_binary()),
    "string_view": pa.array(["", "a", None, "é", "a longer text than fits"], pa.string_view()),
    "time_ns": pa.array([0, 1_000, None, 86_399_999_999_000, 60_000], pa.time64("ns")),
    "time_ms": pa.array([0, 1, None, 86_399_999, 60], pa.time32("ms")),
    "duration_s": pa.array([0, 1, None, -1, 10**6], pa.duration("s")),
    "timestamp_ms": pa.array([0, 1, None, -1, 10**12], pa.timestamp("ms")),
    "timestamp_s_utc": pa.array([0, 1, None, -1, 10**9], pa.timestamp("s", "UTC")),
    "decimal_small": pa.array(
        [Decimal("-1.50"), Decimal(0), None, Decimal("9.99"), Decimal("1.5")], pa.decimal128(3, 2)
    ),
    "large_list": pa.array([[1], [], None, [None], [1, 2]], pa.large_list(pa.int64())),
    "vector": pa.array([[1.0, 2.0], [0.0, 0.0], None, [3.0, 4.0], [1.0, 2.0]], pa.list_(pa.float32(), 2)),
    "nested": pa.array(
        [{"a": [{"b": 1, "c": "x"}]}, {"a": []}, None, {"a": None}, {"a": [None, {"b": None, "c": None}]}],
        pa.struct([("a", pa.list_(pa.struct([("b", pa.int16()), ("c", pa.string())])))]),
    ),
    "durations": pa.array([[1], [], None, [None], [1, 2]], pa.list_(pa.duration("us"))),
    "flags": pa.array([[True], [], None, [None], [False, True]], pa.list_(pa.bool_())),
    "not_null_items": pa.array([[1], [], None, [3], [1, 2]], pa.list_(pa.field("item", pa.int32(), nullable=False))),
}
# No Function takes an extension type; a column of one comes as what DuckDB makes of it.
COLUMNS = {name: column for name, column in {**ODD_COLUMNS, **MORE_COLUMNS}.items() if name != "uuid"}
# Lance stores no views.
NOT_STORED = {"string_view"}


@pytest.fixture(scope="module")
def functions() -> InProcessFunctions:
    functions = InProcessFunctions()
    for name, column in COLUMNS.items():

        def same(batch: pa.RecordBatch) -> pa.Array:
            return batch.column(0)

        schema = pa.schema([("x", column.type)])
        functions.add(same, f"same_{name}", input_schema=schema, output_schema=schema)
    return functions


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, functions: InProcessFunctions) -> Iterator[QuerySession]:
    folder = LanceFolder(Path(tmp_path_factory.mktemp("tables")))
    stored = {name: column for name, column in COLUMNS.items() if name not in NOT_STORED}
    folder.write("everything", pa.table({"row": pa.array(range(5)), **stored}))
    session = QuerySession(folder.snapshot, folder.names, functions)
    session.sql("SET TimeZone = 'Asia/Tokyo'")
    yield session
    session.close()


STORED = [name for name in COLUMNS if name not in NOT_STORED]


@pytest.mark.parametrize("name", STORED)
def test_a_value_of_each_type_goes_to_a_function_and_back(
    session: QuerySession, functions: InProcessFunctions, name: str
):
    different = f"SELECT row, x FROM (SELECT row, {name} AS x, same_{name}({name}) AS y FROM everything) WHERE x IS DISTINCT FROM y"
    assert session.sql(different).fetchall() == []
    assert functions.rows[f"same_{name}"] > 0


@pytest.mark.parametrize("name", STORED)
def test_a_value_of_each_type_goes_to_a_function_in_place_and_back(session: QuerySession, name: str):
    different = f"SELECT row FROM everything WHERE [same_{name}(x) FOR x IN [{name}]][1] IS DISTINCT FROM {name}"
    assert session.sql(different).fetchall() == []


@pytest.mark.parametrize("name", STORED)
def test_a_result_has_the_type_that_duckdb_reads_a_column_of_it_as(session: QuerySession, name: str):
    read, computed = session.sql(f"SELECT {name}, same_{name}({name}) FROM everything").types
    assert computed == read


def test_a_text_goes_to_a_function_of_views(session: QuerySession):
    query = "SELECT same_string_view(string) IS NOT DISTINCT FROM string FROM everything"
    assert session.sql(query).fetchall() == [(True,)] * 5


HARD_VALUES = [
    "170141183460469231731687303715884105727::HUGEINT",
    "uuid()",
    "'101'::BIT",
    "'10:00:00+02'::TIMETZ",
    "'b'::ENUM('a', 'b')",
    "INTERVAL '1 month 3 days'",
    "{'a': 5::HUGEINT, 'b': ['x'::ENUM('x', 'y')], 'c': true}",
    "row(1, 'x')",
    "TIMESTAMP '2020-01-01 10:00:00'",
    "TIMESTAMPTZ '2020-01-01 10:00:00+00'",
    "'{\"a\": 1}'::JSON",
    "union_value(n := 3)",
    "MAP {'a': [1]}",
    "NULL",
]


@pytest.mark.parametrize("value", HARD_VALUES)
def test_what_is_carried_beside_a_call_keeps_its_type_and_value(session: QuerySession, value: str):
    query = f"SELECT v, v IS NOT DISTINCT FROM w, typeof(v) = typeof(w), same_bool(true) FROM (SELECT {value} AS v) a, (SELECT {value} AS w) b"
    if value == "uuid()":
        query = "SELECT v, v = w, typeof(v) = typeof(w), same_bool(true) FROM (SELECT x AS v, x AS w FROM (SELECT uuid() AS x))"
    (row,) = session.sql(query).fetchall()
    assert row[1:] == (True, True, True)
    assert session.sql(f"SELECT {value} AS v, same_bool(true)").types[0] == session.sql(f"SELECT {value} AS v").types[0]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("same_float64(1)", 1.0),
        ("same_float64(1.5::DECIMAL(5, 2))", 1.5),
        ("same_int64(7::TINYINT)", 7),
        ("same_int8(7)", 7),
        ("same_string('a'::ENUM('a', 'b'))", "a"),
        ("same_timestamp_us(DATE '2020-01-02')", dt.datetime.fromisoformat("2020-01-02")),
        ("same_timestamp_us('2020-01-02 03:04:05')", dt.datetime.fromisoformat("2020-01-02T03:04:05")),
        ("same_vector([1, 2])", (1.0, 2.0)),
        ("same_list([1, 2])", [1, 2]),
        ("same_duration(INTERVAL '1 day 2 seconds')", dt.timedelta(days=1, seconds=2)),
        ("same_decimal(1.5)", Decimal("1.50")),
        ("same_bool(1 = 1)", True),
        ("same_float64(NULL)", None),
    ],
)
@pytest.mark.parametrize("rows", ["", " FROM everything WHERE row = 1"])
def test_arguments_are_cast_as_duckdb_casts_them(session: QuerySession, call: str, value: object, rows: str):
    assert session.sql(f"SELECT {call}{rows}").fetchall() == [(value,)]


def test_a_time_without_a_zone_is_taken_for_one_of_the_sessions(session: QuerySession):
    query = "SELECT same_timestamp_tz(t) = TIMESTAMPTZ '2020-01-01 00:00:00+09' FROM (SELECT TIMESTAMP '2020-01-01' AS t FROM everything)"
    assert session.sql(query).fetchall() == [(True,)] * 5


@pytest.mark.parametrize("call", ["same_int64('a' || row)", "same_date(row)", "same_vector([1.0]::FLOAT[1])"])
def test_a_type_that_duckdb_does_not_cast_by_itself_is_refused(session: QuerySession, call: str):
    with pytest.raises(InvalidQuery, match="explicit type casts"):
        session.sql(f"SELECT {call} FROM everything")


def test_bytes_of_a_wrong_length_are_told(session: QuerySession):
    with pytest.raises(InvalidData, match="same_fixed_binary takes 'x' as fixed_size_binary"):
        session.sql("SELECT same_fixed_binary('abc'::BLOB)").fetchall()


def test_a_field_of_a_struct_and_the_items_of_a_list_are_read_from_a_result(session: QuerySession):
    assert session.sql("SELECT same_struct(struct).a FROM everything WHERE row = 0").fetchall() == [(1,)]
    assert session.sql("SELECT unnest(same_list(list)) FROM everything WHERE row = 4").fetchall() == [(1,), (2,)]
    assert session.sql("SELECT same_map(map)['a'] FROM everything WHERE row = 0").fetchall() == [(1,)]
