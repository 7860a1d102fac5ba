"""What DuckDB does for a session through db.sql, beside the tables and Functions of the database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancegpu_sql as lg
from lancegpu_sql.errors import InvalidQuery, ParseError

TWICE = "CREATE FUNCTION twice(x int64) RETURNS int64 LANGUAGE python AS 'def twice(x): return 2 * x'"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lg.Database]:
    folder = tmp_path_factory.mktemp("session")
    with lg.connect(folder / "db", progress="quiet", runtime_folder=folder / "run") as opened:
        opened.sql(TWICE)
        opened.sql("CREATE TABLE docs AS SELECT 1::BIGINT AS id, 'a' AS text")
        opened.sql("INSERT INTO docs VALUES (2, 'b')")
        yield opened


@pytest.fixture
def db(database: lg.Database) -> lg.Database:
    return database


def rows(db: lg.Database, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    return db.sql(text, parameters).fetchall()


def test_a_table_of_the_session_takes_all_that_duckdb_does_with_one(db: lg.Database):
    db.sql("CREATE TEMP TABLE keyed (k INT PRIMARY KEY, n INT DEFAULT 5)")
    assert rows(db, "INSERT INTO keyed (k) VALUES (1) RETURNING n") == [(5,)]
    db.sql("INSERT OR REPLACE INTO keyed VALUES (1, 7); INSERT INTO keyed VALUES (1, 8) ON CONFLICT DO NOTHING")
    assert rows(db, "UPDATE keyed SET n = n + 1 RETURNING n") == [(8,)]
    db.sql("ALTER TABLE keyed ALTER n SET DEFAULT 3; ALTER TABLE keyed ALTER n TYPE VARCHAR USING 'n' || n")
    db.sql("ALTER TABLE keyed RENAME TO other")
    assert rows(db, "DELETE FROM other RETURNING n") == [("n8",)]
    db.sql("DROP TABLE other CASCADE")


def test_a_table_that_a_text_makes_for_the_session_is_duckdbs_in_the_rest_of_it(db: lg.Database):
    text = "CREATE TEMP TABLE passing AS SELECT 1 AS a; ALTER TABLE passing RENAME TO passed; DELETE FROM passed RETURNING a"
    assert rows(db, text) == [(1,)]


def test_a_table_of_another_database_takes_all_that_duckdb_does_with_one(db: lg.Database, tmp_path: Path):
    db.sql(f"ATTACH '{tmp_path}/other.duckdb' AS elsewhere; CREATE TABLE elsewhere.t (k INT PRIMARY KEY)")
    assert rows(db, "INSERT INTO elsewhere.t VALUES (4) RETURNING k") == [(4,)]
    db.sql("DETACH elsewhere")


@pytest.mark.parametrize("text", ["INSERT INTO docs VALUES (1, 'x') RETURNING id", "ALTER TABLE docs RENAME TO others"])
def test_the_databases_own_tables_are_not_given_to_duckdb(db: lg.Database, text: str):
    db.sql("CREATE TEMP TABLE beside AS SELECT 1 AS a")
    with pytest.raises(ParseError):
        db.sql(text)
    db.sql("DROP TABLE beside")


@pytest.mark.parametrize("body", ["twice(1)", "2"])
def test_a_view_is_left_replaced_or_refused_as_it_says_whether_it_calls_functions_or_not(db: lg.Database, body: str):
    for first in ("twice(2)", "4"):
        db.sql(f"CREATE VIEW v AS SELECT {first} AS a")
        with pytest.raises(InvalidQuery, match=r"There is a (table or )?view 'v' already|already exists"):
            db.sql(f"CREATE VIEW v AS SELECT {body} AS a")
        db.sql(f"CREATE VIEW IF NOT EXISTS v AS SELECT {body} AS a")
        assert rows(db, "FROM v") == [(4,)]
        db.sql(f"CREATE OR REPLACE VIEW v AS SELECT {body} AS a")
        assert rows(db, "FROM v") == [(2,)]
        db.sql("DROP VIEW v")
        assert "v" not in [name for (name,) in rows(db, "SHOW TABLES")]


def test_a_view_is_no_table_to_drop(db: lg.Database):
    db.sql("CREATE VIEW v AS SELECT twice(1) AS a")
    with pytest.raises(InvalidQuery):
        db.sql("DROP TABLE v")
    db.sql("DROP VIEW v")


def test_a_view_is_made_where_no_table_of_the_session_is(db: lg.Database):
    db.sql("CREATE TEMP TABLE taken AS SELECT 1 AS a")
    for text in ("CREATE VIEW taken AS SELECT twice(1)", "CREATE OR REPLACE VIEW taken AS SELECT twice(1)"):
        with pytest.raises(InvalidQuery):
            db.sql(text)
    assert rows(db, "FROM taken") == [(1,)]
    db.sql("DROP TABLE taken")


def test_what_a_view_reads_no_more_is_told_in_its_users_words(db: lg.Database):
    db.sql("CREATE VIEW below AS SELECT 1 AS a, twice(1) AS b; CREATE VIEW above AS SELECT a, b FROM below")
    db.sql("CREATE OR REPLACE VIEW below AS SELECT 1 AS a")
    with pytest.raises(InvalidQuery) as caught:
        db.sql("FROM above")
    assert "lancegpu" not in caught.value.message
    db.sql("DROP VIEW above; DROP VIEW below")


@pytest.mark.parametrize("text", ["CREATE MACRO twice(x) AS x", "CREATE OR REPLACE FUNCTION Twice(x) AS x"])
def test_a_macro_that_a_function_would_hide_is_refused(db: lg.Database, text: str):
    with pytest.raises(InvalidQuery, match=r"There is a Function '[tT]wice'"):
        db.sql(text)


def test_a_macro_is_made_once_whether_it_calls_functions_or_not(db: lg.Database):
    db.sql("CREATE MACRO m(a) AS a; CREATE MACRO IF NOT EXISTS m(a) AS twice(a)")
    with pytest.raises(InvalidQuery, match="There is a macro 'm' already"):
        db.sql("CREATE MACRO m(a) AS twice(a)")
    assert rows(db, "SELECT m(3)") == [(3,)]
    db.sql("DROP MACRO m")


def test_a_sequence_moves_once_for_each_row(db: lg.Database):
    db.sql("CREATE SEQUENCE s")
    assert rows(db, "SELECT nextval('s')") == [(1,)]
    assert rows(db, "SELECT nextval('s'), twice(5)") == [(2, 10)]
    assert rows(db, "SELECT nextval('s') + twice(id) - 2 * id FROM docs ORDER BY 1") == [(3,), (4,)]
    result = db.sql("SELECT nextval('s'), nextval('s')::HUGEINT")
    assert result.fetchall() == result.fetchall() == [(5, 6)]
    db.sql("DROP SEQUENCE s")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM docs AT (VERSION => 1)",
        "SELECT d.id FROM docs AS d AT (VERSION => 1)",
        "SELECT d.id FROM DOCS at (version => 1) d",
        "SELECT twice(d.id) // 2 FROM docs AT (VERSION => 1) AS d",
        "CREATE OR REPLACE TEMP TABLE old AS SELECT id FROM docs AT (VERSION => 1) d; FROM old",
        "CREATE OR REPLACE VIEW before AS SELECT id FROM docs AT (VERSION => 1) d; FROM before",
        "CREATE OR REPLACE VIEW called AS SELECT twice(id) // 2 FROM docs AT (VERSION => 1) d; FROM called",
    ],
)
def test_a_version_is_read_wherever_a_table_is(db: lg.Database, text: str):
    assert rows(db, text) == [(1,)]


@pytest.mark.parametrize("call", ["", ", twice(id)"])
def test_a_query_of_a_version_is_explained(db: lg.Database, call: str):
    assert rows(db, f"EXPLAIN SELECT id{call} FROM docs AT (VERSION => 1) d")
    assert rows(db, f"EXPLAIN ANALYZE SELECT id{call} FROM docs AS d AT (VERSION => 1)")


def test_what_is_wrong_behind_a_version_is_told(db: lg.Database):
    with pytest.raises(ParseError, match='near "BAR"') as caught:
        db.sql("SELECT d.id FROM docs AT (VERSION => 1) d WHERE FOO BAR")
    assert "(version 1)" not in caught.value.message
