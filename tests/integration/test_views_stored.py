"""A view's refresh reads computed columns that are current instead of calling their Function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import Calls, noting, open_database, reference

from lancegpu_sql import col
from lancegpu_sql.database import Database

QUERIES = {
    "by rows": "SELECT key, noting(key, x) AS y FROM t",
    "by rows, of all columns": "SELECT *, noting(key, x) AS y FROM t WHERE key >= 0",
    "again": "SELECT key, noting(key, x) AS y FROM t ORDER BY key",
    "by rows, with a name of the column's": "SELECT key, noting(key, x) AS c FROM t WHERE c IS NULL OR c >= 0",
}
WAYS = pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
KEYS = list(range(8))


@pytest.fixture(scope="module")
def opened(folder: Path, calls: Calls) -> Iterator[Database]:
    with open_database(folder, view_result_store_bytes=0) as db:
        db.create_function(noting(calls))
        yield db


@pytest.fixture
def db(opened: Database, calls: Calls) -> Iterator[Database]:
    """A database with a table, and nothing kept of what was computed."""
    opened.create_table("t", pa.table({"key": KEYS, "x": KEYS}))
    calls.take()
    yield opened
    for view in opened.list_materialized_views():
        opened.drop_materialized_view(view.view)
    opened.drop_table("t")


def fill(db: Database, calls: Calls) -> None:
    table = db.open_table("t")
    table.add_columns({"c": db.get_function("noting")(key=col("key"), x=col("x"))})
    table.refresh_column("c")
    calls.take()


def values(db: Database) -> dict[object, object]:
    rows = db.open_materialized_view("v").to_arrow()
    return dict(zip(rows["key"].to_pylist(), rows[-1].to_pylist(), strict=True))


@WAYS
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_column_that_came_after_the_view_is_read(db: Database, calls: Calls, query: str, policy: str):
    view = db.create_materialized_view("v", query, with_no_data=True)
    names = view.schema.names
    fill(db, calls)
    view.refresh(error_policy=policy)
    assert (calls.take(), view.schema.names) == ({}, names)
    assert values(db) == {key: reference(key) for key in KEYS}


@WAYS
def test_the_function_is_called_for_rows_that_are_out_of_date(db: Database, calls: Calls, query: str):
    view = db.create_materialized_view("v", query, with_no_data=True)
    fill(db, calls)
    db.sql("UPDATE t SET x = 100 WHERE key = 5")
    view.refresh()
    assert calls.take() == {5: 1}
    assert values(db) == {key: reference(100 if key == 5 else key) for key in KEYS}


@WAYS
def test_changed_rows_are_read_where_the_column_was_refreshed_before(db: Database, calls: Calls, query: str):
    view = db.create_materialized_view("v", query)
    fill(db, calls)
    db.sql("UPDATE t SET x = 100 WHERE key = 5")
    db.sql("INSERT INTO t (key, x) VALUES (50, 50)")
    db.open_table("t").refresh_column("c")
    calls.take()
    assert (view.refresh().calls_made, calls.take()) == (0, {})
    assert values(db) == {key: reference(100 if key == 5 else key) for key in [*KEYS, 50]}


def test_a_column_of_another_version_is_not_read(db: Database, calls: Calls):
    fill(db, calls)
    db.create_function(noting(calls, times=3))
    view = db.create_materialized_view("v", QUERIES["by rows"])
    assert (sorted(calls.take()), values(db)) == (KEYS, {key: reference(key, 3) for key in KEYS})
    assert view.refresh().mode == "no_op"
