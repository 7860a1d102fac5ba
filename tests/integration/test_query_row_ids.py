"""``_rowid`` in queries: the number by which errors name a row, which no star gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
