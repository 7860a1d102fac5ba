"""Conditions on every type of column mean what they mean in a table of DuckDB's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_folder import LanceFolder
from odd_columns import ODD_COLUMNS, table_of

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.filter import RowFilter
from lancegpu_sql.query.session import QuerySession

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> LanceFolder:
    folder = LanceFolder(Path(tmp_path_factory.mktemp("tables")))
    folder.write("everything", table_of())
    for name in ODD_COLUMNS:
        folder.write(f"only_{name}", table_of(name))
    return folder


@pytest.fixture(scope="module")
def session(folder: LanceFolder) -> Iterator[QuerySession]:
    session = folder.session()
    session.sql("SET TimeZone = 'UTC'")
    yield session
    session.close()


def conditions(session: QuerySession, column: str) -> list[str]:
    """Comparisons of a column with each of its own values, and some shapes around them."""
    expression = f"{column}.f" if column == "struct" else column
    kind = session.sql(f"SELECT {expression} FROM only_{column}").types[0]
    texts = session.sql(f"SELECT DISTINCT {expression}::VARCHAR FROM only_{column} WHERE {expression} IS NOT NULL")
    literals = ["'{}'::{}".format(text.replace("'", "''"), kind) for (text,) in sorted(texts.fetchall())[:3]]
    first, last = literals[0], literals[-1]
    return [
        *(f"{expression} {operator} {literal}" for operator in OPERATORS for literal in literals),
        f"{expression} IS NULL",
        f"{expression} IS NOT NULL",
        f"{expression} IN ({first}, {last}, NULL)",
        f"{expression} NOT IN ({first})",
        f"NOT ({expression} < {last})",
        f"{expression} BETWEEN {first} AND {last}",
        f"{expression} = {first} OR row = 3",
        f"row > 1 AND {expression} <= {last}",
        f"({expression} = {first}) IS TRUE",
    ]


# Beside some types Lance refuses every condition, so that a table of one column takes another way than one of all.
@pytest.mark.parametrize(("table", "share"), [("everything", 4), ("only", 1)])
@pytest.mark.parametrize("column", list(ODD_COLUMNS))
def test_a_condition_finds_the_rows_that_duckdb_would(session: QuerySession, column: str, table: str, share: int):
    name = "everything" if table == "everything" else f"only_{column}"
    session.sql(f"CREATE OR REPLACE TEMP TABLE native AS SELECT row, {column} FROM {name}")
    differing = [
        condition
        for condition in conditions(session, column)[::share]
        if session.sql(f"SELECT row FROM {name} WHERE {condition}").fetchall()
        != session.sql(f"SELECT row FROM native WHERE {condition} ORDER BY row").fetchall()
    ]
    assert differing == []


@pytest.mark.parametrize("column", list(ODD_COLUMNS))
def test_the_rows_of_a_fragment_are_found_as_duckdb_would(session: QuerySession, folder: LanceFolder, column: str):
    session.sql(f"CREATE OR REPLACE TEMP TABLE native AS SELECT row, {column} FROM everything")
    snapshot = folder.snapshot("everything")
    assert snapshot is not None
    differing = []
    for condition in conditions(session, column)[::4]:
        with RowFilter(snapshot, condition) as row_filter:
            found = [int(a) for fragment in snapshot.fragments for a in row_filter.addresses(fragment.id)]
        rows = session.sql(f"SELECT row FROM native WHERE {condition} ORDER BY row").fetchall()
        if found != [(row // 2) << 32 | row % 2 for (row,) in rows]:
            differing.append(condition)
    assert differing == []


def test_all_types_come_through_whole(session: QuerySession):
    table = session.sql("SELECT * FROM everything").to_arrow()
    assert table.num_rows == 5
    assert table["float16"].type == pa.float32()
    assert table["half_vector"].to_pylist()[3] == [3.0, 4.0]
    assert table["dictionary"].to_pylist() == ["a", "b", None, "a", "c"]


def test_blobs_are_their_bytes(folder: LanceFolder, session: QuerySession):
    blobs = pa.table(
        [lance.blob_array([b"aa", b"bb", None]), pa.array([1, 2, 3])],
        schema=pa.schema([lance.blob_field("b"), pa.field("id", pa.int64())]),
    )
    folder.write("blobs", blobs)
    assert session.sql("SELECT * FROM blobs").fetchall() == [(b"aa", 1), (b"bb", 2), (None, 3)]
    assert session.sql("SELECT id FROM blobs WHERE b = 'bb' OR b IS NULL").fetchall() == [(2,), (3,)]
    assert session.sql("SELECT count(*), max(octet_length(b)) FROM blobs").fetchall() == [(3, 2)]


def test_only_live_rows_for_which_the_condition_is_true_are_found(folder: LanceFolder):
    folder.write("part", {"id": [0, 1, 2, 3], "flag": [True, None, False, True]}, rows_per_file=4)
    lance.dataset(str(folder.folder / "part.lance")).delete("id = 0")
    snapshot = folder.snapshot("part")
    assert snapshot is not None
    for condition, rows in (("flag", [3]), ("flag IS NULL OR part.id = 2", [1, 2]), ("true", [1, 2, 3])):
        with RowFilter(snapshot, condition) as row_filter:
            assert row_filter.addresses(0).tolist() == rows


@pytest.mark.parametrize(
    "predicate",
    ["nope = 1", "sum(row) > 1", "row IN (SELECT 1)", "row = 1) OR (true", "_lancegpu_x IS NULL", "row = ?"],
)
def test_a_condition_that_cannot_be_is_refused_before_anything_is_read(folder: LanceFolder, predicate: str):
    snapshot = folder.snapshot("everything")
    assert snapshot is not None
    with pytest.raises(InvalidQuery):
        RowFilter(snapshot, predicate)
