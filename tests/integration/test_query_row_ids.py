"""``_rowid`` in queries: the number by which errors name a row, which no star gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from lance_folder import LanceFolder

import lancegpu_sql as lg
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.session import QuerySession


@pytest.fixture
def folder(tmp_path: Path) -> LanceFolder:
    folder = LanceFolder(tmp_path)
    folder.write("docs", {"id": [10, 11, 12, 13, 14], "text": ["a", "b", "c", "d", "e"]})
    folder.write("tags", {"id": [12, 13], "tag": ["x", "y"]})
    return folder


@pytest.fixture
def session(folder: LanceFolder) -> Iterator[QuerySession]:
    session = folder.session()
    yield session
    session.close()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT _rowid, text FROM docs WHERE _rowid = 3", [(3, "d")]),
        ("SELECT text FROM docs WHERE _rowid IN (4, 1, 99)", [("b",), ("e",)]),
        ("SELECT text FROM docs WHERE _rowid IN (4, 1) AND id > 11", [("e",)]),
        ("SELECT count(*) FROM docs WHERE _rowid >= 2", [(3,)]),
        ("FROM docs WHERE _rowid = 99", []),
        ("SELECT * FROM Docs d JOIN tags t ON d.id = t.id WHERE d._rowid = 2", [(12, "c", 12, "x")]),
        ("SELECT d._rowid, t._rowid FROM docs d JOIN tags t USING (id) ORDER BY ALL", [(2, 0), (3, 1)]),
        ("SELECT n.text FROM docs AT (VERSION => 1) o JOIN docs n ON o._rowid = n._rowid WHERE o._rowid = 2", [("c",)]),
        ("CREATE OR REPLACE TEMP VIEW numbered AS SELECT *, _rowid FROM docs; FROM numbered WHERE _rowid = 1", [(11, "b", 1)]),
        ("CREATE OR REPLACE TEMP TABLE kept AS SELECT _rowid AS number FROM docs WHERE id = 13; FROM kept", [(3,)]),
    ],
)  # fmt: skip
def test_a_row_is_found_by_its_id(session: QuerySession, query: str, rows: list[tuple[object, ...]]):
    assert session.sql(query).fetchall() == rows


@pytest.mark.parametrize("query", ["SELECT * FROM docs WHERE _rowid = 1", "FROM docs WHERE _rowid = 1", "FROM docs"])
def test_no_star_gives_the_row_id(session: QuerySession, query: str):
    assert session.sql(query).columns == ["id", "text"]


def test_a_look_up_reads_no_other_fragment(folder: LanceFolder, session: QuerySession):
    snapshot = folder.snapshot("docs")
    assert snapshot is not None
    last = snapshot.dataset.get_fragments()[-1].data_files()[0].path
    (folder.folder / "docs.lance" / "data" / last).unlink()
    assert session.sql("SELECT text FROM docs WHERE _rowid = 1 AND id > 3").fetchall() == [("b",)]
    assert session.sql("SELECT text FROM docs WHERE _rowid IN (0, 2)").fetchall() == [("a",), ("c",)]
    assert session.sql("SELECT text FROM docs WHERE _rowid IN (0, 2) AND id > 3").fetchall() == [("a",), ("c",)]
    assert session.sql("SELECT text FROM docs WHERE _rowid < 2 ORDER BY id").fetchall() == [("a",), ("b",)]


def test_a_row_keeps_its_id_when_it_is_updated(folder: LanceFolder, session: QuerySession):
    snapshot = folder.snapshot("docs")
    assert snapshot is not None
    snapshot.dataset.update({"text": "'new'"}, where="id = 11")
    assert session.sql("FROM docs WHERE _rowid = 1").fetchall() == [(11, "new")]


def test_a_column_of_that_name_in_the_session_stays_one(session: QuerySession):
    session.sql("CREATE TEMP TABLE own AS SELECT 7 AS _rowid, 'x' AS a")
    assert session.sql("SELECT * FROM own WHERE _rowid = 7").fetchall() == [(7, "x")]


def test_a_name_that_two_tables_have_is_to_be_told_apart(session: QuerySession):
    with pytest.raises(InvalidQuery, match=r"use: 'd\._rowid' or 't\._rowid'"):
        session.sql("SELECT _rowid FROM docs d JOIN tags t USING (id)")


@pytest.mark.parametrize("query", ["SELECT nope FROM docs WHERE _rowid = 1", "FROM docs WHERE _rowid = 'x'"])
def test_an_error_shows_no_text_that_nobody_wrote(session: QuerySession, query: str):
    with pytest.raises(InvalidQuery) as raised:
        session.sql(query).fetchall()
    assert "(with _rowid)" not in raised.value.message


DOCS = pa.table({"id": [10, 11, 12, 13], "s": ["a", "b", "a", None], "l": [[1, 2], [3], [], None]})
TAGS = pa.table({"id": [12, 13, 14], "w": [1.5, 2.5, 3.5]})


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QuerySession, duckdb.DuckDBPyConnection]]:
    folder = LanceFolder(tmp_path_factory.mktemp("both"))
    folder.write("docs", DOCS)
    folder.write("tags", TAGS)
    session = folder.session()
    with duckdb.connect() as native:
        for name, rows in {"docs": DOCS, "tags": TAGS}.items():
            native.register("rows", rows)
            native.execute(f"CREATE TABLE {name} AS FROM rows")
        yield session, native
    session.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT *, rowid AS r FROM docs ORDER BY r DESC",
        "SELECT * FROM docs LEFT JOIN tags USING (id) WHERE docs.rowid > 0 ORDER BY docs.rowid",
        "SELECT * FROM docs d FULL JOIN tags t ON d.rowid = t.rowid + 2 ORDER BY ALL",
        "SELECT * EXCLUDE (d.s) FROM docs d, tags t WHERE d.rowid = t.rowid ORDER BY ALL",
        "SELECT * FROM docs d SEMI JOIN tags t ON d.rowid = t.rowid + 2 ORDER BY ALL",
        "SELECT * FROM docs d ANTI JOIN tags t ON d.rowid = t.rowid + 2 ORDER BY d.rowid",
        "SELECT * FROM (docs JOIN tags USING (id)) WHERE docs.rowid = 3",
        "SELECT * FROM docs ASOF JOIN tags ON docs.id >= tags.id AND docs.rowid > 1 ORDER BY docs.rowid",
        "SELECT * FROM docs, LATERAL (SELECT w FROM tags WHERE tags.rowid = docs.rowid) x ORDER BY ALL",
        "SELECT s, list(rowid ORDER BY rowid) FROM docs GROUP BY ALL ORDER BY ALL",
        "SELECT DISTINCT ON (s) s, rowid FROM docs ORDER BY s, rowid DESC",
        "SELECT * FROM docs QUALIFY row_number() OVER (PARTITION BY s ORDER BY rowid DESC) = 1 ORDER BY ALL",
        "WITH x AS (SELECT rowid, id FROM docs) SELECT x.*, tags.rowid FROM x JOIN tags USING (id) ORDER BY ALL",
        "SELECT * FROM docs WHERE EXISTS (FROM tags WHERE tags.rowid = docs.rowid AND w > 2) ORDER BY ALL",
        "SELECT * FROM docs WHERE rowid = (SELECT max(rowid) FROM tags)",
        "SELECT rowid FROM docs EXCEPT SELECT rowid FROM tags",
        "SELECT * EXCLUDE (s) REPLACE (id + rowid AS id) FROM docs ORDER BY id",
        "SELECT * RENAME (s AS text) FROM docs WHERE rowid = 0",
        "SELECT d.* NOT LIKE 'i%' FROM docs d WHERE rowid = 1",
        "SELECT max(COLUMNS(* EXCLUDE (l))), count(*) FROM docs WHERE rowid < 2",
        "SELECT -id AS rowid, s FROM docs ORDER BY rowid",
        "SELECT id AS rowid FROM docs WHERE rowid = 1",
        "SELECT max(rowid) AS rowid FROM docs",
        "SELECT rowid, x.v FROM docs, unnest(l) AS x(v) ORDER BY ALL",
        "SELECT list_transform(l, lambda x: x + rowid) FROM docs ORDER BY rowid",
        "PIVOT (SELECT s, rowid FROM docs) ON s USING max(rowid)",
        "SELECT rowid FROM docs WHERE rowid BETWEEN 1 AND 2 OR s IS NULL ORDER BY rowid",
        "SELECT * FROM docs WHERE (rowid, id) IN ((1, 11), (2, 13))",
        "SELECT id FROM docs WHERE rowid = 2 AND s = 'b'",
    ],
)
def test_it_means_what_rowid_means_of_a_table_of_duckdb(
    both: tuple[QuerySession, duckdb.DuckDBPyConnection], query: str
):
    session, native = both
    ours, theirs = session.sql(query.replace("rowid", "_rowid")), native.sql(query)
    assert [name.replace("_rowid", "rowid") for name in ours.columns] == theirs.columns
    assert ours.fetchall() == theirs.fetchall()


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lg.Database]:
    place = tmp_path_factory.mktemp("row_ids")
    with lg.connect(place / "db", progress="quiet", runtime_folder=place / "run") as opened:
        opened.create_function(plus)
        opened.create_table("items", pa.table({"n": pa.array(range(6), pa.int64())}))
        yield opened


def plus(n: int) -> int:
    return n + 1


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT _rowid, *, plus(n) FROM items WHERE _rowid = 2", [(2, 2, 3)]),
        ("SELECT *, plus(a.n) FROM items a JOIN items b ON plus(a.n) = b.n WHERE a._rowid = 2", [(2, 3, 3)]),
        ("SELECT plus(_rowid::BIGINT) FROM items WHERE plus(n) > 5", [(6,)]),
    ],
)
def test_functions_are_called_in_rows_found_by_their_ids(db: lg.Database, query: str, rows: list[tuple[int, ...]]):
    assert db.sql(query).fetchall() == rows


def test_a_call_is_read_from_its_column_in_a_row_found_by_its_id(db: lg.Database):
    table = db.create_table("stored", pa.table({"n": pa.array(range(6), pa.int64())}), mode="overwrite")
    table.add_columns({"more": db.get_function("plus")(n=lg.col("n"))})
    table.refresh_column("more")
    table.update("n = 4", {"n": 40})
    assert db.sql("SELECT *, plus(n) FROM stored WHERE _rowid IN (3, 4) ORDER BY n").fetchall() == [
        (3, 4, 4),
        (40, 5, 41),
    ]


def test_rows_are_changed_by_their_ids(db: lg.Database):
    db.create_table("changed", pa.table({"n": pa.array(range(4), pa.int64())}), mode="overwrite")
    db.sql("UPDATE changed SET n = 10 WHERE _rowid = 1")
    db.sql("DELETE FROM changed WHERE _rowid IN (0, 3)")
    db.sql("UPDATE changed SET n = 20 FROM items i WHERE changed.n = i.n AND i._rowid = 2")
    assert db.sql("FROM changed ORDER BY n").fetchall() == [(10,), (20,)]


def test_explain_takes_row_ids(db: lg.Database):
    assert db.sql("EXPLAIN SELECT * FROM items WHERE _rowid = 2").fetchall()
    assert db.sql("EXPLAIN SELECT *, plus(n) FROM items WHERE _rowid = 2").fetchall()


def test_a_view_cannot_be_made_of_row_ids(db: lg.Database):
    with pytest.raises(InvalidQuery, match="_rowid"):
        db.sql("CREATE MATERIALIZED VIEW numbered AS SELECT _rowid AS number FROM items")
