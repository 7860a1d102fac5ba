"""Calls whose value stands in a computed column: it is read there, and only rows that are out of date are computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import Calls, noting, open_database, reference

import lancegpu_sql as lg
from lancegpu_sql.database import Database, Table

ROWS = 40
FAILS = 13


@pytest.fixture(scope="module")
def db(folder: Path, calls: Calls) -> Iterator[Database]:
    with open_database(folder, worker_idle_seconds=600) as db:
        db.create_function(noting(calls))
        db.create_function(noting(calls, "twentyfold", times=20))
        yield db


@pytest.fixture
def table(db: Database, calls: Calls) -> Table:
    """Two computed columns, refreshed; then three of the rows are written again."""
    rows = pa.table({"key": range(ROWS), "x": range(ROWS), "name": [f"row {key}" for key in range(ROWS)]})
    table = db.create_table(f"t{len(db.table_names())}", rows)
    arguments = {"key": lg.col("key"), "x": lg.col("x")}
    table.add_columns({"y": db.get_function("noting")(**arguments), "z": db.get_function("twentyfold")(**arguments)})
    table.refresh_column("y")
    table.refresh_column("z")
    table.update(where="key < 3", values={"x": 8})
    calls.take()
    return table


def expected(key: int, times: int = 10) -> int | None:
    return reference(8 if key < 3 else key, times)


def test_only_rows_that_were_written_since_are_computed(db: Database, calls: Calls, table: Table):
    rows = db.sql(f"SELECT key, noting(key, x) FROM {table.name}").fetchall()
    assert sorted(rows) == [(key, expected(key)) for key in range(ROWS)]
    assert calls.take() == {0: 1, 1: 1, 2: 1}


def test_a_query_that_is_asked_again_computes_what_is_out_of_date_then(db: Database, calls: Calls, table: Table):
    query = f"SELECT sum(noting(key, x)) FROM {table.name}"
    ((total,),) = db.sql(query).fetchall()
    table.refresh_column("y")
    calls.take()
    assert (db.sql(query).fetchall(), calls.take()) == ([(total,)], {})
    table.update(where="key = 5", values={"x": 8})
    changed = total - expected(5) + reference(8, 10)
    assert (db.sql(query).fetchall(), calls.take()) == ([(changed,)], {5: 1})


def test_rows_that_were_added_are_computed(db: Database, calls: Calls, table: Table):
    table.refresh_column("y")
    calls.take()
    table.add(pa.table({"key": [50, 51], "x": [50, 51], "name": ["", ""]}))
    ((total,),) = db.sql(f"SELECT sum(noting(key, x)) FROM {table.name}").fetchall()
    assert total == sum(expected(key) or 0 for key in [*range(ROWS), 50, 51])
    assert calls.take() == {50: 1, 51: 1}


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (SELECT key AS k, x FROM {} ORDER BY key) SELECT k, noting(k, x) FROM a",
        "SELECT * FROM (SELECT key, noting(key, x) AS v FROM (SELECT * FROM {}))",
        "SELECT any_value(key), noting(key, x) FROM {} GROUP BY key, noting(key, x)",
    ],
)
def test_a_query_in_from_and_a_group_hand_the_value_on(db: Database, calls: Calls, table: Table, query: str):
    rows = db.sql(query.format(table.name)).fetchall()
    assert sorted(rows) == [(key, expected(key)) for key in range(ROWS)]
    assert calls.take() == {0: 1, 1: 1, 2: 1}


def test_an_older_version_has_its_own_rows_that_are_out_of_date(db: Database, calls: Calls, table: Table):
    behind = table.version
    table.refresh_column("y")
    calls.take()
    db.sql(f"SELECT noting(key, x) FROM {table.name}").fetchall()
    assert calls.take() == {}
    db.sql(f"SELECT noting(key, x) FROM {table.name} AT (VERSION => {behind})").fetchall()
    assert calls.take() == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(
    ("where", "keys", "computed"),
    [
        ("key IN (1, 2, 30) AND noting(key, x) > 0", {1, 2, 30}, {1, 2}),
        ("noting(key, x) = 80", {0, 1, 2, 8}, {0, 1, 2}),
        ("noting(key, x) IS NULL AND key > 30", {35}, set()),
        ("y = 10 AND noting(key, x) = 80", {1}, {1}),
        ("name = 'row 2' AND y IS NOT DISTINCT FROM 20 AND twentyfold(key, x) = 160", {2}, {2}),
    ],
)
def test_conditions_are_kept(db: Database, calls: Calls, table: Table, where: str, keys: set[int], computed: set[int]):
    rows = db.sql(f"SELECT key FROM {table.name} WHERE {where}").fetchall()
    assert {key for (key,) in rows} == keys
    assert set(calls.take()) == computed


def test_a_star_shows_the_columns_of_the_table(db: Database, calls: Calls, table: Table):
    result = db.sql(f"SELECT *, noting(key, x) AS v, twentyfold(key, x) AS w FROM {table.name} ORDER BY key")
    assert result.columns == ["key", "x", "name", "y", "z", "v", "w"]
    assert [row[-2:] for row in result.fetchall()] == [(expected(key), expected(key, 20)) for key in range(ROWS)]
    assert calls.take() == {0: 2, 1: 2, 2: 2}


def test_an_update_reads_the_column_too(db: Database, calls: Calls, table: Table):
    db.sql(f"UPDATE {table.name} SET name = 'v' || noting(key, x) WHERE key IN (1, 4)")
    rows = db.sql(f"SELECT key, name FROM {table.name} WHERE key IN (1, 4)").fetchall()
    assert sorted(rows) == [(1, "v80"), (4, "v40")]
    assert set(calls.take()) == {1}


def test_explain_says_what_is_read(db: Database, table: Table):
    ((_, told),) = db.sql(f"EXPLAIN SELECT noting(key, x) FROM {table.name}").fetchall()
    assert "noting is read from y in the rows that are not out of date" in told


def test_a_row_that_failed_is_computed_anew(db: Database, calls: Calls):
    path = str(calls.path)

    def picky(key: int) -> int:
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        if key == FAILS:
            raise ValueError("unlucky")
        return key + 1

    db.create_function(picky)
    table = db.create_table("failing", pa.table({"key": range(ROWS)}))
    table.add_columns({"y": db.get_function("picky")(key=lg.col("key"))})
    table.refresh_column("y", error_policy="skip")
    calls.take()
    rows = db.sql("SELECT key FROM failing WHERE TRY(picky(key)) IS NULL").fetchall()
    assert rows == [(FAILS,)]
    assert set(calls.take()) == {FAILS}


class Noted:
    def __init__(self, path: str, by: int = 2) -> None:
        self._path, self._by = path, by

    def __call__(self, key: int) -> int:
        with Path(self._path).open("a") as file:
            file.write(f"{key}\n")
        return key * self._by


def test_a_column_is_read_where_its_class_is_made_with_the_same_values(db: Database, calls: Calls):
    db.create_function(Noted, "noted")
    table = db.create_table("made", pa.table({"key": [1, 2]}))
    table.add_columns({"y": db.get_function("noted")(key=lg.col("key"), path=str(calls.path), by=3)})
    table.refresh_column("y")
    calls.take()
    values = f"path := '{calls.path}'"
    assert db.sql(f"SELECT noted(key, {values}, by := 3) FROM made").fetchall() == [(3,), (6,)]
    assert calls.take() == {}
    assert db.sql(f"SELECT noted(key, {values}) FROM made").fetchall() == [(2,), (4,)]
    assert calls.take() == {1: 1, 2: 1}
