"""SQL over a folder of Lance tables."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from lance_folder import LanceFolder

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.session import QuerySession


@pytest.fixture
def folder(tmp_path: Path) -> LanceFolder:
    folder = LanceFolder(tmp_path)
    hidden = pa.array([b"x" * 16] * 3, pa.binary(16))
    folder.write("reviews", {"id": [1, 2, 3], "text": ["good", "bad", None], "_lancegpu_proof_score": hidden})
    return folder


@pytest.fixture
def session(folder: LanceFolder) -> Iterator[QuerySession]:
    session = folder.session()
    yield session
    session.close()


def test_all_columns_are_those_that_users_see(session: QuerySession):
    assert session.sql("SELECT * FROM reviews").columns == ["id", "text"]
    assert session.sql("DESCRIBE reviews").to_arrow()["column_name"].to_pylist() == ["id", "text"]


def test_a_hidden_column_cannot_be_named(session: QuerySession):
    with pytest.raises(InvalidQuery, match="_lancegpu_proof_score"):
        session.sql("SELECT _lancegpu_proof_score FROM reviews")


def test_a_query_sees_the_latest_version(folder: LanceFolder, session: QuerySession):
    folder.write("reviews", {"id": [9], "text": ["new"]}, mode="overwrite")
    assert session.sql("SELECT id FROM reviews").fetchall() == [(9,)]


def test_a_result_keeps_the_versions_it_was_asked_over(folder: LanceFolder, session: QuerySession):
    result = session.sql("SELECT count(*) FROM reviews a, reviews b")
    folder.write("reviews", {"id": [9], "text": ["new"]}, mode="overwrite")
    assert result.fetchall() == result.fetchall() == [(9,)]


@pytest.mark.timeout(30)  # it would take an hour where Lance checked it
def test_a_condition_of_many_parts_takes_no_longer_than_its_rows(session: QuerySession):
    parts = " AND ".join(f"id <> {number}" for number in range(2, 30))
    assert session.sql(f"SELECT id FROM reviews WHERE {parts}").fetchall() == [(1,)]


def test_a_table_named_twice_is_opened_once(folder: LanceFolder, session: QuerySession):
    session.sql("SELECT * FROM reviews a JOIN Reviews b USING (id)").fetchall()
    assert set(folder.opened) == {"reviews"}


def test_only_the_tables_that_a_query_names_are_opened(folder: LanceFolder, session: QuerySession):
    for number in range(3):
        folder.write(f"other{number}", {"id": [number]})
    session.sql("WITH other1 AS (SELECT 1 AS id) SELECT * FROM other1 WHERE id IN (SELECT id FROM other2)").fetchall()
    assert folder.opened == ["other2"]


@pytest.mark.parametrize("name", ["select", "a.b-c", "memory", "main", "Order", "1st"])
def test_a_table_of_an_awkward_name_is_read_when_quoted(folder: LanceFolder, session: QuerySession, name: str):
    folder.write(name, {"v": [7]})
    assert session.sql(f'SELECT v FROM "{name}"').fetchall() == [(7,)]
    assert session.sql(f'SELECT v FROM main."{name}"').fetchall() == [(7,)]


def test_columns_of_awkward_names_are_read(folder: LanceFolder, session: QuerySession):
    folder.write("odd", {"odd": [1], "select": [2], 'we"ird é': [3], "Case": [4]})
    query = 'SELECT odd, odd.odd, "select", "we""ird é", case FROM odd WHERE "we""ird é" = 3'.replace(
        " case ", ' "case" '
    )
    assert session.sql(query).fetchall() == [(1, 1, 2, 3, 4)]


def test_tables_that_differ_in_case_only_are_told_apart(folder: LanceFolder, session: QuerySession):
    folder.write("Docs", {"v": [1]})
    folder.write("docs", {"v": [2]})
    assert session.sql("SELECT v FROM Docs").fetchall() == [(1,)]
    assert session.sql('SELECT v FROM "docs"').fetchall() == [(2,)]
    assert session.sql("SELECT a.v, b.v FROM Docs a, docs b").fetchall() == [(1, 2)]
    assert session.sql("SELECT count(*) FROM Docs JOIN docs USING (v)").fetchall() == [(0,)]
    assert session.sql("WITH c AS (FROM Docs) SELECT count(*) FROM c NATURAL JOIN docs").fetchall() == [(0,)]
    with pytest.raises(InvalidQuery, match="could be any of 'Docs', 'docs'"):
        session.sql("SELECT v FROM DOCS")


def test_a_missing_table_is_answered_with_those_there_are(session: QuerySession):
    with pytest.raises(InvalidQuery, match=r"no table 'reviewz'.*The tables are reviews"):
        session.sql("SELECT * FROM reviewz")


def test_a_table_missed_in_another_database_is_not_said_to_be_missing_here(session: QuerySession):
    session.sql("ATTACH ':memory:' AS other")
    with pytest.raises(InvalidQuery, match="Table with name reviews does not exist"):
        session.sql("SELECT * FROM other.main.reviews")


@pytest.mark.parametrize("text", ["", "  ;", "SELEC 1", "SELECT 'open", "SELECT nope FROM reviews"])
def test_bad_sql_is_an_invalid_query_at_once(session: QuerySession, text: str):
    with pytest.raises(InvalidQuery):
        session.sql(text)


def test_a_fault_in_a_row_is_an_invalid_query_when_it_is_read(session: QuerySession):
    result = session.sql("SELECT error('too bad') FROM reviews")
    with pytest.raises(InvalidQuery, match="too bad"):
        result.fetchall()
    with pytest.raises(InvalidQuery, match="too bad"):
        result.to_reader().read_all()


@pytest.mark.parametrize("text", ["SHOW TABLES", "show tables;", "DESCRIBE", "PRAGMA show_tables"])
def test_listing_tables_opens_none(folder: LanceFolder, session: QuerySession, text: str):
    session.sql("CREATE TEMP TABLE mine AS SELECT 1 AS one")
    assert session.sql(text).fetchall() == [("mine",), ("reviews",)]
    assert folder.opened == []


def test_the_information_schema_lists_tables_and_visible_columns(session: QuerySession):
    query = "SELECT table_name, column_name FROM information_schema.columns ORDER BY ordinal_position"
    assert session.sql(query).fetchall() == [("reviews", "id"), ("reviews", "text")]


def test_parameters_are_values(session: QuerySession):
    assert session.sql("SELECT id FROM reviews WHERE text = ?", ["bad"]).fetchall() == [(2,)]
    assert session.sql("SELECT id FROM reviews WHERE text = $t", {"t": "good' --"}).fetchall() == []


def test_statements_run_in_their_order_and_the_last_gives_the_result(session: QuerySession):
    text = "CREATE TEMP TABLE kept AS SELECT id FROM reviews; INSERT INTO kept VALUES (10); SELECT sum(id) FROM kept"
    assert session.sql(text).fetchall() == [(16,)]


def test_temp_tables_views_and_macros_live_in_the_session(folder: LanceFolder, session: QuerySession):
    session.sql("CREATE TEMP VIEW good AS SELECT id FROM reviews WHERE text = 'good'")
    session.sql("CREATE TEMP MACRO above(x) AS TABLE SELECT id FROM reviews WHERE id > x")
    session.sql("CREATE TEMP MACRO top(x) AS (SELECT max(id) + x FROM reviews)")
    assert session.sql("FROM good").fetchall() == [(1,)]
    assert session.sql("FROM above(2)").fetchall() == [(3,)]
    folder.write("reviews", {"id": [40], "text": ["good"]}, mode="append")
    assert session.sql("SELECT top(2), count(*) FROM good").fetchall() == [(42, 2)]


def test_settings_and_variables_last_for_the_session(session: QuerySession):
    session.sql("SET TimeZone = 'Asia/Tokyo'; SET VARIABLE limit_id = 2")
    query = "SELECT current_setting('TimeZone'), list(id ORDER BY id) FROM reviews WHERE id <= getvariable('limit_id')"
    assert session.sql(query).fetchall() == [("Asia/Tokyo", [1, 2])]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("INSERT INTO reviews VALUES (4, 'x')", r"table\.add"),
        ("WITH new AS (SELECT 4, 'x') INSERT INTO main.reviews FROM new", r"table\.add"),
        ("UPDATE Reviews SET id = 1", r"table\.update"),
        ("DELETE FROM reviews", r"table\.delete"),
        ("TRUNCATE reviews", r"table\.delete"),
        ("MERGE INTO reviews USING (SELECT 1 AS i) ON id = i WHEN MATCHED THEN DELETE", r"table\.merge_insert"),
        ("ALTER TABLE reviews ADD COLUMN x INT", r"table\.add_columns"),
        ("DROP TABLE reviews", r"db\.drop_table"),
        ("DROP VIEW reviews", "write DROP MATERIALIZED VIEW reviews or DROP TABLE reviews"),
        ("COPY reviews FROM 'x.csv'", r"table\.add"),
        ("CREATE INDEX i ON reviews(id)", "create_scalar_index"),
        ("CREATE TABLE copy AS SELECT * FROM reviews", r"db\.create_table"),
        ("CREATE OR REPLACE TABLE reviews AS SELECT 1", r"db\.create_table"),
        ("CREATE VIEW reviews AS SELECT 1", "another name"),
        ("CREATE OR REPLACE TEMP VIEW reviews AS SELECT 1", "another name"),
        ("BEGIN", "transaction of its own"),
        ("PREPARE p AS SELECT 1", "parameters"),
        ("USE memory", "before the name"),
    ],
)
def test_what_sql_does_not_do_here_is_refused_with_what_to_do(session: QuerySession, text: str, advice: str):
    with pytest.raises(InvalidQuery, match=advice):
        session.sql(text)
    assert session.sql("SELECT count(*) FROM reviews").fetchall() == [(3,)]


def test_views_and_macros_live_as_long_as_the_session(session: QuerySession):
    session.sql("CREATE VIEW good AS SELECT id FROM reviews WHERE text = 'good'; CREATE MACRO plus(a, b) AS a + b")
    session.sql("CREATE FUNCTION twice(a) AS 2 * a")
    found = session.sql("SELECT twice(plus(id, 1)) = 2 * id + 2 FROM good").fetchall()
    assert found == [(True,)]


def test_an_attached_database_can_be_written(session: QuerySession):
    session.sql("ATTACH ':memory:' AS other; CREATE TABLE other.kept AS SELECT id FROM reviews")
    session.sql("INSERT INTO other.main.kept VALUES (4)")
    assert session.sql("SELECT count(*) FROM other.kept").fetchall() == [(4,)]


def test_sql_reaches_no_python_variable(session: QuerySession):
    secret = pa.table({"v": [1]})
    with pytest.raises(InvalidQuery, match="no table 'secret'"):
        session.sql("SELECT * FROM secret")
    assert secret.num_rows == 1


@pytest.mark.parametrize(
    "query",
    [
        "PIVOT reviews ON text USING count(*) GROUP BY id",
        "FROM (PIVOT reviews ON text USING count(*) GROUP BY id)",
        "SUMMARIZE reviews",
        "EXPLAIN SELECT * FROM reviews",
        "FROM query_table('reviews')",
        "SELECT reviews FROM reviews",
        "WITH RECURSIVE r AS (SELECT min(id) AS n FROM reviews UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
        "SELECT id, row_number() OVER (ORDER BY id) FROM reviews QUALIFY row_number() OVER (ORDER BY id) <= 3",
    ],
)
def test_unusual_queries_work(session: QuerySession, query: str):
    assert session.sql(query).to_arrow().num_rows > 0


def test_threads_share_a_session(session: QuerySession):
    with ThreadPoolExecutor(8) as pool:
        counts = pool.map(lambda n: session.sql("SELECT count(*) + ? FROM reviews", [n]).fetchall(), range(40))
        assert [rows[0][0] for rows in counts] == [3 + n for n in range(40)]


def test_a_query_reads_one_version_of_a_table_that_changes_while_it_is_read(folder: LanceFolder, session: QuerySession):
    reader = session.sql("SELECT a.id FROM reviews a, range(100_000)").to_reader(1000)
    reader.read_next_batch()
    folder.write("reviews", {"id": [9], "text": ["new"]}, mode="overwrite")
    assert set(reader.read_all()["id"].unique().to_pylist()) <= {1, 2, 3}


def test_a_table_whose_columns_sql_would_mix_up_is_refused(folder: LanceFolder, session: QuerySession):
    folder.write("mixed", {"A": [10], "a": [1]})
    with pytest.raises(InvalidQuery, match=r"'mixed' has 'A' and 'a'.*alter_column\('a', rename='a_2'\)"):
        session.sql('SELECT "A", a FROM mixed')
    with pytest.raises(InvalidQuery, match="does not tell apart"):
        session.sql("CREATE TEMP VIEW v AS SELECT a FROM mixed")


def test_such_a_table_does_not_keep_the_others_from_being_listed(folder: LanceFolder, session: QuerySession):
    folder.write("mixed", {"A": [10], "a": [1]})
    assert len(session.sql("SHOW ALL TABLES").fetchall()) == 2
    assert session.sql("SELECT count(*) FROM reviews").fetchall() == [(3,)]


@pytest.mark.parametrize("parameters", [5, "ab", {1, 2}])
def test_parameters_that_are_neither_a_sequence_nor_a_mapping_are_refused(session: QuerySession, parameters: object):
    with pytest.raises(InvalidQuery, match="parameters of a query"):
        session.sql("SELECT ?", parameters)  # type: ignore[arg-type]
