"""UPDATE, DELETE, MERGE and INSERT do to a table of ours what DuckDB does to one of its own, one commit each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lancegpu_sql as lg
from lancegpu_sql import col, function
from lancegpu_sql.errors import (
    ColumnNotFound,
    ComputedColumnWrite,
    InvalidData,
    InvalidQuery,
    ParseError,
    RowFailed,
    TableNotFound,
)

ITEMS = pa.table(
    {
        "id": pa.array(range(1, 9), pa.int64()),
        "name": ["a", "b", None, "d", "e", "f", "g", "h"],
        "price": [1.5, 2.5, 3.5, None, 5.5, 6.5, 7.5, 8.5],
        "tags": [["x"], [], None, ["y", "z"], [], [], [], []],
    }
)
NEWS = pa.table({"id": pa.array([2, 4, 20], pa.int64()), "name": ["two", None, "twenty"], "price": [0.5, 4.5, 20.5]})


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lg.Database]:
    folder = tmp_path_factory.mktemp("changes")
    with lg.connect(folder / "db", progress="quiet", runtime_folder=folder / "run") as opened:
        opened.create_function(double)
        opened.create_function(fussy)
        opened.create_table("news", NEWS)
        yield opened


@pytest.fixture
def db(database: lg.Database) -> lg.Database:
    """Items in three fragments, as at first."""
    table = database.create_table("items", ITEMS.slice(0, 3), mode="overwrite")
    table.add(ITEMS.slice(3, 3))
    table.add(ITEMS.slice(6))
    return database


@function
def double(x: float) -> float:
    return 2 * x


@function
def fussy(name: str) -> str:
    if name == "e":
        raise ValueError("no e")
    return name * 2


def rows(db: lg.Database, text: str = "FROM items ORDER BY ALL", *parameters: Any) -> list[tuple[Any, ...]]:
    return db.sql(text, list(parameters) or None).fetchall()


SAME = [
    "UPDATE items SET price = price * 2, name = upper(name) WHERE id % 2 = 0",
    "UPDATE items SET name = NULL, price = '7'",
    "UPDATE items AS i SET (name, price) = (n.name, i.price + n.price) FROM news n WHERE n.id = i.id",
    "UPDATE items SET price = (SELECT max(price) FROM items) WHERE price IS NULL OR id IN (SELECT id FROM news)",
    "UPDATE items SET tags = list_append(tags, name), price = id WHERE name IS DISTINCT FROM 'a'",
    "UPDATE items SET price = id, id = price::BIGINT WHERE price < 6",
    "UPDATE items SET price = CASE WHEN id > 4 THEN 0 ELSE price END -- all of them\n",
    "UPDATE items SET name = 'none' WHERE false",
    "WITH n AS (FROM news WHERE id > 2) UPDATE items SET name = n.name FROM n WHERE n.id = items.id",
    "DELETE FROM items WHERE price > 3 AND NOT (name = 'e')",
    "DELETE FROM items",
    "DELETE FROM items USING news AS n, (VALUES (4), (4)) AS v(k) WHERE items.id = n.id AND v.k = n.id",
    "TRUNCATE items",
    "INSERT INTO items VALUES (9, 'i', '1.25', ['q']), (10, DEFAULT, NULL, NULL)",
    "INSERT INTO items (price, id) SELECT id, price FROM news",
    "INSERT INTO items BY NAME SELECT 'z' AS name, 30 AS id",
    "INSERT INTO items FROM items WHERE id < 3",
    "WITH n AS (FROM news) INSERT INTO items (id, name) SELECT id, name FROM n ORDER BY id LIMIT 1",
    (
        "MERGE INTO items USING news ON items.id = news.id WHEN MATCHED THEN UPDATE SET price = news.price"
        " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (news.id, news.name || '!')"
    ),
    (
        "MERGE INTO items i USING (FROM news) AS n USING (id) WHEN MATCHED AND n.name IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET name = n.name, price = i.price + 1 WHEN NOT MATCHED BY SOURCE AND i.id > 6 THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND i.id = 1 THEN UPDATE SET name = 'gone'"
    ),
    (
        "MERGE INTO items USING news ON items.id = news.id AND items.price > 100 WHEN MATCHED THEN DO NOTHING"
        " WHEN NOT MATCHED AND news.id = 4 THEN DO NOTHING WHEN NOT MATCHED THEN INSERT BY NAME"
    ),
    (
        "MERGE INTO items USING (SELECT *, ['t'] AS tags FROM news) AS n ON n.id = items.id WHEN MATCHED THEN UPDATE SET *"
        " WHEN NOT MATCHED THEN INSERT *"
    ),
    (
        "MERGE INTO items USING (SELECT name, id FROM news) AS n ON n.id = items.id WHEN MATCHED THEN UPDATE BY NAME"
        " WHEN NOT MATCHED THEN INSERT (name, id) VALUES (DEFAULT, n.id)"
    ),
    (
        "WITH n(k, v) AS (VALUES (1, 'one'), (99, 'new')) MERGE INTO items USING n ON k = id"
        " WHEN MATCHED THEN UPDATE SET name = v WHEN NOT MATCHED THEN INSERT VALUES (k, v, NULL, NULL)"
    ),
]


@pytest.mark.parametrize("text", SAME, ids=lambda text: text[:40])
def test_a_statement_does_what_it_does_in_duckdb(db: lg.Database, text: str):
    own = duckdb.connect()
    for name, data in (("items", ITEMS), ("news", NEWS)):
        own.register("data", data)
        own.execute(f"CREATE TABLE {name} AS FROM data")
    expected = own.execute(text).fetchall()
    before = db.open_table("items").version
    assert rows(db, text) == expected
    assert rows(db) == own.execute("FROM items ORDER BY ALL").fetchall()
    assert db.open_table("items").version - before == (1 if expected[0][0] else 0)


def test_parameters_keep_their_places_wherever_their_parts_go(db: lg.Database):
    text = (
        "MERGE INTO items USING (SELECT ? AS k, ? AS v) AS s ON items.id = s.k WHEN MATCHED AND s.v = ? THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.k, ?)"
    )
    assert rows(db, text, 3, "x", "x", "unused") == [(1,)]
    assert rows(db, text, 77, "x", "y", "new") == [(1,)]
    assert rows(db, "SELECT name FROM items WHERE id IN (3, 77)") == [("new",)]
    db.sql("UPDATE items SET name = $new WHERE id = $id", {"new": "N", "id": 1})
    assert rows(db, "SELECT name FROM items WHERE id = ?", 1) == [("N",)]


def test_functions_stand_in_values_and_conditions(db: lg.Database):
    assert rows(db, "UPDATE items SET price = double(price) WHERE double(id) > 13") == [(2,)]
    assert rows(db, "DELETE FROM items WHERE double(price) = 34") == [(1,)]
    merged = "MERGE INTO items USING news n ON n.id = items.id WHEN MATCHED THEN UPDATE SET price = double(n.price)"
    assert rows(db, merged) == [(2,)]
    assert rows(db, "SELECT price FROM items WHERE id IN (2, 7) ORDER BY id") == [(1.0,), (15.0,)]


def test_a_row_that_fails_fails_the_statement_and_nothing_is_written(db: lg.Database):
    before = rows(db)
    for text in ("UPDATE items SET name = fussy(name)", "INSERT INTO items (name) SELECT fussy(name) FROM items"):
        with pytest.raises(RowFailed, match="no e"):
            db.sql(text)
    assert rows(db) == before


def test_computed_columns_follow_at_the_next_refresh(db: lg.Database):
    table = db.open_table("items")
    table.add_columns({"twice": db.get_function("double")(x=col("price"))})
    table.refresh_column("twice")
    db.sql("UPDATE items SET price = 100 WHERE id = 1; UPDATE items SET name = 'x' WHERE id = 2")
    (status,) = table.columns_status()
    assert (status.fresh_rows, status.stale_rows) == (7, 1)
    assert table.refresh_column("twice").rows_assigned == 1
    assert rows(db, "SELECT twice FROM items WHERE id = 1") == [(200.0,)]


def test_rows_inserted_are_not_computed_yet(db: lg.Database):
    table = db.open_table("items")
    table.add_columns({"twice": db.get_function("double")(x=col("price"))})
    table.refresh_column("twice")
    assert rows(db, "INSERT INTO items VALUES (9, 'i', 1, NULL)") == [(1,)]
    assert table.columns_status()[0].never_computed_rows == 1


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("UPDATE items SET nme = 1", ColumnNotFound, "no column 'nme'"),
        ("UPDATE items SET name = nme", InvalidQuery, "nme"),
        ("UPDATE items SET name = (SELECT 1", ParseError, "line 1, column 25"),
        ("UPDATE items SET name = 'a' || WHERE id = 1", ParseError, "line 1, column 31"),
        ("UPDATE items SET price = 'x'", InvalidQuery, "Could not convert string 'x'"),
        ("UPDATE items SET name = COLUMNS(*)::VARCHAR", InvalidQuery, "several columns"),
        ("INSERT INTO items VALUES (1, 2)", InvalidData, "takes 4 columns"),
        ("INSERT INTO items (id) VALUES ('x')", InvalidQuery, "Column 'id'"),
        ("INSERT INTO items BY NAME SELECT 1 AS nme", ColumnNotFound, "nme"),
        ("DELETE FROM nope", TableNotFound, "The tables are"),
        ("MERGE INTO items USING nope ON true WHEN MATCHED THEN DELETE", InvalidQuery, "no table 'nope'"),
        ("MERGE INTO items USING news n ON true WHEN MATCHED THEN UPDATE SET name = 'x'", InvalidData, "changed twice"),
        (
            "MERGE INTO items USING news n ON n.id = items.id WHEN MATCHED THEN ERROR 'no ' || n.id",
            InvalidQuery,
            "Input Error: no ",
        ),
        ("MERGE INTO items USING news n USING (id) WHEN NOT MATCHED THEN INSERT", InvalidQuery, "takes 4 columns"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    db: lg.Database, text: str, error: type[Exception], told: str
):
    before = db.open_table("items").version
    with pytest.raises(error) as caught:
        db.sql(text)
    assert told in str(caught.value)
    assert "_rowid" not in str(caught.value)
    assert db.open_table("items").version == before


def test_columns_that_are_computed_cannot_be_set(db: lg.Database):
    db.open_table("items").add_columns({"twice": db.get_function("double")(x=col("price"))})
    for text in ("UPDATE items SET twice = 1", "INSERT INTO items (id, twice) VALUES (1, 2)"):
        with pytest.raises(ComputedColumnWrite, match="refresh it instead"):
            db.sql(text)


def test_writers_at_once_lose_nothing(db: lg.Database):
    """Each of 4 threads adds 1 to every row 5 times, while another appends and a third deletes what was appended."""
    failures: list[BaseException] = []

    def work(texts: list[str]) -> None:
        try:
            for text in texts:
                db.sql(text)
        except BaseException as error:
            failures.append(error)

    jobs = [["UPDATE items SET price = coalesce(price, 0) + 1 WHERE id < 100"] * 5 for _ in range(4)]
    jobs.append([f"INSERT INTO items (id) VALUES ({number})" for number in range(100, 110)])
    jobs.append([f"DELETE FROM items WHERE id = {number}" for number in range(1, 4)])
    threads = [threading.Thread(target=work, args=(texts,)) for texts in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert rows(db, "SELECT id, price FROM items WHERE id < 100 ORDER BY id") == [
        (number, (price or 0) + 20) for number, price in zip(range(4, 9), [None, 5.5, 6.5, 7.5, 8.5], strict=True)
    ]
    assert rows(db, "SELECT count(*) FROM items WHERE id >= 100") == [(10,)]


def test_merges_at_once_insert_a_new_row_once(db: lg.Database):
    text = (
        "MERGE INTO items USING (SELECT 500 AS id) AS s ON s.id = items.id WHEN MATCHED THEN UPDATE SET price = price + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, 1)"
    )
    threads = [threading.Thread(target=db.sql, args=(text,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(db, "SELECT price FROM items WHERE id = 500") == [(6.0,)]


def test_tables_of_the_session_and_of_attached_databases_are_duckdbs(db: lg.Database, tmp_path: Path):
    db.sql(f"CREATE TEMP TABLE mine AS SELECT 1 AS a; ATTACH '{tmp_path / 'other.db'}' AS other")
    try:
        db.sql("CREATE TABLE other.kept (a INT); INSERT INTO other.kept FROM mine; UPDATE mine SET a = 5")
        db.sql("INSERT INTO mine VALUES (6); DELETE FROM mine WHERE a = 5; UPDATE other.kept SET a = a + 1")
        assert rows(db, "SELECT (FROM mine), (FROM other.kept)") == [(6, 2)]
    finally:
        db.sql("DETACH other; DROP TABLE mine")
    assert "mine" not in db.table_names()
