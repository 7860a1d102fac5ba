"""Statements about Functions, tables, computed columns and jobs, through db.sql."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancegpu_sql as lg
from lancegpu_sql.errors import (
    AlreadyExists,
    ColumnNotFound,
    FunctionNotFound,
    GpuClassNotFound,
    InUse,
    InvalidBinding,
    InvalidData,
    InvalidFunction,
    InvalidInput,
    InvalidQuery,
    JobNotFound,
    LoadFailed,
    ParseError,
    StorageError,
    TableNotFound,
)

CLASSES = """
gpu_classes:
  - name: a100
    gpu_model: A100
    local: {simulated: 1}
"""
SIZE = "CREATE OR REPLACE FUNCTION size(text utf8) RETURNS int64 LANGUAGE python AS $$def size(text): return len(text or '')$$"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lg.Database]:
    folder = tmp_path_factory.mktemp("statements")
    (folder / "classes.yaml").write_text(CLASSES)
    with lg.connect(
        folder / "db", gpu_classes=folder / "classes.yaml", progress="quiet", runtime_folder=folder / "run"
    ) as opened:
        opened.sql(SIZE)
        yield opened


@pytest.fixture
def db(database: lg.Database) -> Iterator[lg.Database]:
    """A table "docs" of three rows, alone."""
    database.sql(
        "CREATE TABLE docs (id BIGINT NOT NULL, text VARCHAR); INSERT INTO docs VALUES (1, 'a'), (2, 'bb'), (3, NULL)"
    )
    yield database
    for name in database.table_names():
        database.drop_table(name)
    for made in database.list_functions():
        if made.name != "size":
            database.drop_function(made.name)


def rows(db: lg.Database, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    return db.sql(text, parameters).fetchall()


def records(db: lg.Database, text: str) -> list[dict[str, Any]]:
    return db.sql(text).to_arrow().to_pylist()


# Tables


def test_a_table_is_made_with_the_types_it_says(db: lg.Database):
    db.sql("CREATE TABLE t (a BIGINT NOT NULL, b DECIMAL(10, 2), c FLOAT[3], d STRUCT(x INT, y VARCHAR[]), e BLOB)")
    assert db.open_table("t").schema.remove_metadata() == pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            ("b", pa.decimal128(10, 2)),
            ("c", pa.list_(pa.float32(), 3)),
            ("d", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
            ("e", pa.binary()),
        ]
    )


def test_a_table_is_made_of_a_query_and_its_functions(db: lg.Database):
    assert rows(db, "CREATE TABLE t (k, n, nothing) AS SELECT id, size(text), NULL FROM docs WHERE id < $1", [3]) == [
        (2,)
    ]
    assert rows(db, "FROM t ORDER BY k") == [(1, 1, None), (2, 2, None)]
    assert rows(db, "CREATE TABLE e AS FROM docs WITH NO DATA; SELECT count(*) FROM e") == [(0,)]


def test_a_table_that_is_there_is_kept_replaced_or_in_the_way(db: lg.Database):
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE TABLE"):
        db.sql("CREATE TABLE Docs AS SELECT 1 AS one")
    assert rows(db, "CREATE TABLE IF NOT EXISTS docs AS SELECT 1 AS one; SELECT count(*) FROM docs") == [(3,)]
    assert rows(db, "CREATE OR REPLACE TABLE docs AS SELECT id FROM docs; FROM docs ORDER BY id") == [(1,), (2,), (3,)]
    assert db.open_table("docs").list_versions()[0].version == 1


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("BIT", "'0101'", "0101"),
        ("TIMETZ", "'10:00:00+02'", "10:00:00+02"),
        ('STRUCT("BIT" BIT)', "{'BIT': '0101'}", {"BIT": "0101"}),
        ("UUID", "'00000000-0000-0000-0000-00000000000a'", "00000000-0000-0000-0000-00000000000a"),
        ("ENUM('INTERVAL', 'b')", "'INTERVAL'", "INTERVAL"),
        ("HUGEINT", "'99999999999999999999999999999999999999'", 10**38 - 1),
    ],
)
def test_values_of_types_that_tables_have_not_are_kept_in_others(db: lg.Database, kind: str, value: str, kept: Any):
    given = f"CAST({value} AS {kind})"
    db.sql(f"CREATE TABLE made (v {kind}); INSERT INTO made SELECT {given}; INSERT INTO made VALUES ({value})")
    db.sql(f"CREATE TABLE queried AS SELECT {given} AS v, size('a') AS v_2; INSERT INTO queried (v) SELECT v FROM made")
    assert rows(db, "FROM made") == [(kept,)] * 2
    assert rows(db, "SELECT v FROM queried") == [(kept,)] * 3


@pytest.mark.parametrize("kind", ["INTERVAL", "UNION(a INT, b VARCHAR)", "VARIANT", "INTERVAL[]"])
@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE made (v {})",
        "CREATE TABLE made AS SELECT CAST(NULL AS {}) AS v",
        "ALTER TABLE docs ADD COLUMN v {}",
    ],
)
def test_a_type_that_no_table_keeps_is_refused_by_its_column(db: lg.Database, text: str, kind: str):
    with pytest.raises(InvalidData, match=r"Column 'v' has the type .*cast it"):
        db.sql(text.format(kind))
    assert db.table_names() == ["docs"]


def test_rows_of_a_file_are_copied_into_a_table(db: lg.Database, tmp_path: Path):
    (tmp_path / "rows.csv").write_text('id|text\n7|\n8|"x|y"\n')
    db.sql("ALTER TABLE docs ADD COLUMN n AS (size(text))")
    copied = f"FROM '{tmp_path}/rows.csv' (HEADER, DELIMITER '|')"
    assert rows(db, f"COPY docs {copied}") == [(2,)]
    assert rows(db, "SELECT id, text FROM docs WHERE id > 3 ORDER BY id") == [(7, None), (8, "x|y")]
    db.sql(f"COPY (SELECT text AS a, id + 2 AS b FROM docs WHERE id > 6) TO '{tmp_path}/more.parquet'")
    assert rows(db, f"COPY docs (text, id) FROM '{tmp_path}/more.parquet'") == [(2,)]
    assert rows(db, "SELECT max(id), count(*) FROM docs") == [(10, 7)]
    assert rows(db, "SHOW TABLES") == [("docs",)]


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("COPY docs (text) FROM 'nowhere.csv'", InvalidData, "'id' cannot be null"),
        ("COPY docs (id, nothing) FROM 'nowhere.csv'", ColumnNotFound, "nothing"),
        ("COPY docs FROM 'nowhere.csv'", StorageError, "nowhere.csv"),
        ("COPY nope FROM 'nowhere.csv'", TableNotFound, "docs"),
        ("COPY docs (id)\n  FROM 'nowhere.csv' NOW", ParseError, "at line 2, column 22"),
        ("EXPLAIN COPY docs FROM 'nowhere.csv'", InvalidQuery, "give it the query"),
    ],
)
def test_what_cannot_be_copied_is_said_and_leaves_nothing(
    db: lg.Database, text: str, error: type[Exception], told: str
):
    with pytest.raises(error, match=told):
        db.sql(text)
    assert rows(db, "SHOW TABLES") == [("docs",)]
    assert db.open_table("docs").count_rows() == 3


def test_tables_are_listed_described_and_dropped(db: lg.Database):
    db.sql("CREATE TABLE other AS SELECT 1 AS a; CREATE TEMP TABLE passing AS SELECT 1 AS a")
    assert rows(db, "SHOW TABLES") == [("docs",), ("other",), ("passing",)]
    assert [row[:3] for row in rows(db, "DESCRIBE docs")] == [("id", "BIGINT", "NO"), ("text", "VARCHAR", "YES")]
    db.sql("DROP TABLE passing; DROP TABLE main.other; DROP TABLE IF EXISTS other")
    assert db.table_names() == ["docs"]
    with pytest.raises(TableNotFound, match="The tables are docs"):
        db.sql("DROP TABLE other")


def test_names_mean_what_they_mean_in_queries(db: lg.Database):
    assert rows(db, 'UPDATE DOCS SET "TEXT" = upper(Text) WHERE ID = 2; SELECT text FROM docs WHERE id = 2') == [
        ("BB",)
    ]


# Functions


def test_a_function_is_registered_from_its_text_and_called(db: lg.Database):
    (made,) = records(
        db,
        """CREATE FUNCTION split_at(text utf8 NOT NULL, mark utf8) RETURNS struct<head: utf8, tail: utf8>
        LANGUAGE python AS $$
            def split_at(text, mark):
                head, _, tail = text.partition(mark or " ")
                return {"head": head, "tail": tail}
        $$ WITH (cpus = 1, batch_size = 7, env = '{"A": "b"}')""",
    )
    assert (made["version"], made["parameters"]) == (1, "text utf8 NOT NULL, mark utf8")
    assert rows(db, "SELECT split_at('a-b', '-').tail") == [("b",)]
    (told,) = records(db, "DESCRIBE FUNCTION split_at")
    assert (told["batch_size"], told["env"], told["calling"]) == (7, '{"A": "b"}', "row")


def test_another_text_is_another_version_and_needs_or_replace(db: lg.Database):
    again = "{} FUNCTION f(x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x + {}'"
    db.sql(again.format("CREATE", 1))
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE FUNCTION"):
        db.sql(again.format("CREATE", 2))
    db.sql(again.format("CREATE", 2).replace("FUNCTION", "FUNCTION IF NOT EXISTS"))
    assert rows(db, "SELECT f(1)") == [(2,)]
    db.sql(again.format("CREATE OR REPLACE", 2))
    assert rows(db, "SELECT f(1)") == [(3,)]
    assert [each["version"] for each in records(db, "DESCRIBE FUNCTION f")] == [1, 2]
    db.sql("DROP FUNCTION f VERSION 1; DROP FUNCTION f")
    with pytest.raises(FunctionNotFound):
        db.sql("DESCRIBE FUNCTION f")


def test_a_function_is_registered_from_a_file_under_another_name(db: lg.Database, tmp_path: Path):
    (tmp_path / "measures.py").write_text("def size(text: str) -> int: return 10 * len(text)\n")
    db.sql(f"CREATE FUNCTION tenfold FROM '{tmp_path}/measures.py:size' WITH (concurrency = 2)")
    assert rows(db, "SELECT tenfold('ab')") == [(20,)]
    assert {"tenfold", "size"} <= {each["name"] for each in records(db, "SHOW FUNCTIONS")}


def test_a_function_without_language_is_a_macro_of_duckdbs(db: lg.Database):
    db.sql("CREATE FUNCTION plus(a, b) AS a + b")
    assert rows(db, "SELECT plus(1, 2)") == [(3,)]
    db.sql("DROP FUNCTION plus")
    with pytest.raises(FunctionNotFound, match="neither a Function 'plus' nor a macro"):
        db.sql("DROP FUNCTION plus")


MADE = "CREATE FUNCTION f(x int64) RETURNS int64 LANGUAGE python AS '{}' {}"


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        (MADE.format("def g(x): return x", ""), InvalidFunction, "defines no f"),
        (MADE.format("def f(y): return y", ""), InvalidFunction, "takes (y)"),
        (
            MADE.format("1 / 0", ""),
            LoadFailed,
            'ZeroDivisionError: division by zero).\n  File "<source of f>", line 1,',
        ),
        (MADE.format("def f(x): return x", "WITH (gpuu = true)"), ParseError, "did you mean gpu?"),
        (MADE.format("def f(x): return x", "WITH (gpu_class = 'a100')"), InvalidFunction, "without gpu=True"),
        (MADE.format("def f(x): return x", "WITH (gpu = true, gpu_class = 'h100')"), GpuClassNotFound, "h100"),
        (MADE.format("def f(x): return x", "WITH (env = 'A=B')"), InvalidFunction, "JSON object"),
        (MADE.format("def f(x): return x", f"WITH (pip = '{'[' * 100_000}')"), InvalidFunction, "JSON list"),
        ("CREATE FUNCTION f FROM 'nowhere.py'", InvalidFunction, "nowhere.py"),
        ("DROP FUNCTION nope VERSION 3", FunctionNotFound, "nope"),
    ],
)
def test_what_is_wrong_with_a_function_is_said(db: lg.Database, text: str, error: type[Exception], told: str):
    with pytest.raises(error, match=re.escape(told)):
        db.sql(text)


# Computed columns


def test_a_column_is_declared_refreshed_and_told_of(db: lg.Database):
    db.sql("ALTER TABLE docs ADD COLUMN n BIGINT AS (size(text))")
    assert rows(db, "SHOW COLUMNS STATUS FOR docs") == [("n", "size", 1, 0, 0, 0, 3)]
    for text in ('DESCRIBE "docs"', "DESC main.docs", "DESCRIBE TABLE docs", "SHOW docs"):
        assert [told["extra"] for told in records(db, text)] == [None, None, "computed by size version 1"]
    (done,) = records(
        db, "REFRESH COLUMN n ON TABLE docs WHERE id > 1 WITH (batch_size = 2, call_timeout_seconds = '30s')"
    )
    assert (done["rows_assigned"], done["rows_remaining"]) == (2, 1)
    assert rows(db, "REFRESH COLUMN n ON docs; SELECT n FROM docs ORDER BY id") == [(1,), (2,), (0,)]


def test_constants_and_named_columns_are_bound(db: lg.Database):
    db.sql(
        "CREATE OR REPLACE FUNCTION times(x int64) RETURNS int64 LANGUAGE python AS $$\n"
        "class times:\n    def __init__(self, k: int): self.k = k\n    def __call__(self, x): return x * self.k\n$$"
    )
    db.sql("ALTER TABLE docs ADD COLUMN m AS (times(x := id, k := 5)); REFRESH COLUMN m ON docs")
    assert rows(db, "SELECT m FROM docs ORDER BY id") == [(5,), (10,), (15,)]


def test_a_column_is_pointed_to_another_function(db: lg.Database):
    db.sql("ALTER TABLE docs ADD COLUMN n AS (size(text)); REFRESH COLUMN n ON docs")
    db.sql(SIZE.replace("size(text", "twice(text").replace("len(text or '')", "2 * len(text or '')"))
    db.sql("ALTER TABLE docs ALTER COLUMN n SET FUNCTION twice VERSION 1; REFRESH COLUMN n ON docs")
    assert rows(db, "SELECT n FROM docs ORDER BY id") == [(2,), (4,), (0,)]
    with pytest.raises(InUse, match=r"docs\.n"):
        db.sql("DROP FUNCTION twice")


def test_plain_columns_are_added_renamed_retyped_and_dropped(db: lg.Database):
    db.sql(
        "ALTER TABLE docs ADD COLUMN extra INTEGER; UPDATE docs SET extra = id; ALTER TABLE docs RENAME extra TO more"
    )
    db.sql("ALTER TABLE docs ALTER more TYPE BIGINT; ALTER TABLE docs ADD COLUMN IF NOT EXISTS more INTEGER")
    assert rows(db, "SELECT more, typeof(more) FROM docs WHERE id = 2") == [(2, "BIGINT")]
    db.sql("ALTER TABLE docs DROP COLUMN more; ALTER TABLE docs DROP COLUMN IF EXISTS more")
    assert db.open_table("docs").schema.names == ["id", "text"]


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("ALTER TABLE docs ADD COLUMN n VARCHAR AS (size(text))", InvalidBinding, "declared as VARCHAR"),
        ("ALTER TABLE docs ADD COLUMN n AS (size(nope))", ColumnNotFound, "nope"),
        ("ALTER TABLE docs ADD COLUMN n AS (size(id))", InvalidBinding, "id"),
        ("ALTER TABLE docs ADD COLUMN n AS (nope(id))", FunctionNotFound, "nope"),
        ("ALTER TABLE docs ADD COLUMN text INTEGER", AlreadyExists, "text"),
        ("ALTER TABLE docs DROP COLUMN nope", ColumnNotFound, "nope"),
        ("ALTER TABLE nope DROP COLUMN id", TableNotFound, "docs"),
        ("REFRESH COLUMN text ON docs", ColumnNotFound, "text"),
        ("REFRESH COLUMN text ON docs WITH (gpu_clas = 'x')", ParseError, "did you mean gpu_class?"),
        ("REFRESH COLUMN text ON docs WITH (batch_size = 'x')", InvalidInput, "batch_size"),
    ],
)
def test_what_is_wrong_with_a_column_is_said(db: lg.Database, text: str, error: type[Exception], told: str):
    before = db.open_table("docs").version
    with pytest.raises(error, match=re.escape(told)):
        db.sql(text)
    assert db.open_table("docs").version == before


def test_show_of_no_table_tells_what_it_is_for(db: lg.Database):
    with pytest.raises(InvalidQuery, match=r"no table 'VIEWS'.*SHOW is also for .*MATERIALIZED VIEWS"):
        db.sql("SHOW VIEWS")


# GPU classes and jobs


def test_gpu_classes_are_shown_with_the_fields_of_the_call(db: lg.Database):
    assert records(db, "SHOW GPU CLASSES") == [asdict(each) for each in db.list_gpu_classes()]


def test_jobs_are_shown_described_and_asked(db: lg.Database):
    db.sql("ALTER TABLE docs ADD COLUMN n AS (size(text))")
    (left,) = records(db, "REFRESH COLUMN n ON docs WITH (wait = false)")
    assert left["state"] == "queued"
    job = left["job_id"]
    assert records(db, "SHOW JOBS FOR TABLE docs")[0]["id"] == job
    with pytest.raises(TableNotFound, match="The tables are docs"):
        db.sql("SHOW JOBS FOR TABLE dogs")
    assert job in [each["id"] for each in records(db, "SHOW JOBS")]
    (told,) = records(db, f"DESCRIBE JOB '{job}'")
    assert (told["kind"], told["table"], told["columns"]) == ("refresh_column", "docs", ["n"])
    assert "queued" in [each["kind"] for each in records(db, f"SHOW EVENTS FOR JOB '{job[-8:]}'")]
    assert records(db, f"PAUSE JOB '{job}'") == [{"job_id": job, "state": "paused"}]
    assert records(db, f"RESUME JOB '{job}'") == [{"job_id": job, "state": "finished"}]
    assert records(db, f"SHOW ERRORS FOR JOB '{job}'") == []


def test_queries_that_finished_are_shown_with_all_jobs_only(db: lg.Database):
    rows(db, "SELECT size(text) FROM docs")
    query = db.list_jobs(limit=1)[0]
    assert (query.kind, str(query.state)) == ("query", "finished")
    assert query.id not in [each.id for each in db.list_jobs(finished_queries=False)]
    assert query.id not in [each["id"] for each in records(db, "SHOW JOBS")]
    assert query.id in [each["id"] for each in records(db, "SHOW ALL JOBS")]
    with pytest.raises(lg.errors.RowFailed):
        rows(db, MADE.format("def f(x): return 1 // 0", "") + "; SELECT f(id) FROM docs")
    assert records(db, "SHOW JOBS")[0]["kind"] == "query"


def test_a_job_that_is_cancelled_says_so(db: lg.Database):
    db.sql("ALTER TABLE docs ADD COLUMN n AS (size(text))")
    (left,) = records(db, "REFRESH COLUMN n ON docs WITH (wait = false)")
    assert records(db, f"CANCEL JOB '{left['job_id']}'")[0]["state"] == "cancelled"
    assert records(db, f"RESUME JOB '{left['job_id']}' WITH (wait = false)")[0]["state"] == "queued"
    db.sql(f"CANCEL JOB '{left['job_id']}'")
    with pytest.raises(JobNotFound):
        db.sql("DESCRIBE JOB 'ffffffff'")


def test_why_a_job_failed_is_shown(db: lg.Database):
    db.sql(MADE.format("def f(x): return 1 // (x - 2)", "").replace("CREATE", "CREATE OR REPLACE"))
    db.sql("ALTER TABLE docs ADD COLUMN n AS (f(id))")
    with pytest.raises(lg.errors.RowFailed):
        db.sql("REFRESH COLUMN n ON docs")
    (failed,) = [each["id"] for each in records(db, "SHOW JOBS FOR TABLE docs") if each["state"] == "failed"][:1]
    (error,) = records(db, f"SHOW ERRORS FOR JOB '{failed}'")
    assert (error["type"], error["function"]) == ("ZeroDivisionError", "f")
    assert "ZeroDivisionError" in error["traceback"]
    assert error["row_id"] == db.open_table("docs").to_arrow(["_rowid"], where="id = 2")["_rowid"][0].as_py()


def test_rows_that_failed_are_shown_for_the_job_and_for_the_table(db: lg.Database):
    db.sql(MADE.format("def f(x): return 1 // (x - 2)", "").replace("CREATE", "CREATE OR REPLACE"))
    db.sql("ALTER TABLE docs ADD COLUMN n AS (f(id))")
    (done,) = records(db, "REFRESH COLUMN n ON docs WITH (error_policy = 'skip', retry_backoff_seconds = '1s')")
    assert done["rows_failed"] == 1
    (error,) = records(db, f"SHOW ERRORS FOR JOB '{done['job_id']}'")
    assert (error["type"], error["owner"], error["tries"]) == ("ZeroDivisionError", "user", 1)
    for statement in ("SHOW ERRORS FOR TABLE docs", "SHOW ERRORS FOR TABLE docs COLUMN n"):
        assert records(db, statement) == [{"column": "n", **error}]
    with pytest.raises(ColumnNotFound):
        db.sql("SHOW ERRORS FOR TABLE docs COLUMN text")


# Texts


def test_a_text_stops_at_the_statement_that_fails_and_says_which(db: lg.Database):
    with pytest.raises(TableNotFound, match="Statement 2 of 3, at line 2") as caught:
        db.sql("DELETE FROM docs WHERE id = 1;\nDELETE FROM nope;\nDELETE FROM docs")
    assert caught.value.facts["statement"] == 2
    assert rows(db, "SELECT count(*) FROM docs") == [(2,)]


def test_a_text_that_is_not_understood_does_nothing(db: lg.Database):
    with pytest.raises(ParseError, match="did you mean REFRESH"):
        db.sql("DELETE FROM docs;\nREFRES COLUMN n ON docs")
    assert rows(db, "SELECT count(*) FROM docs") == [(3,)]


def test_what_duckdb_cannot_parse_is_told_at_its_place(db: lg.Database):
    with pytest.raises(ParseError) as caught:
        db.sql("FROM docs;\n  SELECT * FROM docs LIMIT ALL ALL")
    assert (caught.value.facts["line"], caught.value.facts["column"]) == (2, 32)


@pytest.mark.parametrize("text", ["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "ABORT", "END"])
def test_transactions_are_refused_with_what_there_is(db: lg.Database, text: str):
    with pytest.raises(InvalidQuery, match="transaction of its own"):
        db.sql(text)


def test_explain_is_for_queries_and_those_of_statements(db: lg.Database):
    assert "PYTHON_ARROW_SCAN" in str(rows(db, "EXPLAIN FROM docs"))
    assert "PYTHON_ARROW_SCAN" in str(rows(db, "EXPLAIN INSERT INTO docs FROM docs"))
    for text in ("EXPLAIN DELETE FROM docs", "EXPLAIN ANALYZE INSERT INTO docs FROM docs"):
        with pytest.raises(InvalidQuery, match="give it the query"):
            db.sql(text)
    assert rows(db, "SELECT count(*) FROM docs") == [(3,)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, size(text) AS n FROM docs",
        "FROM docs",
        "INSERT INTO docs VALUES (4, 'd')",
        "CREATE TABLE other (a INTEGER)",
        "SHOW TABLES",
        "DESCRIBE docs",
        "SHOW FUNCTIONS",
        "SHOW JOBS",
        "EXPLAIN SELECT size(text) FROM docs",
        "SET threads = 2",
    ],
)
def test_every_statement_gives_its_rows_in_every_form(db: lg.Database, text: str, capsys: pytest.CaptureFixture[str]):
    result = db.sql(text)
    table = result.to_arrow()
    assert result.to_reader().read_all().num_rows == len(result.to_pandas()) == len(result.to_polars()) == len(table)
    assert table.column_names == list(result.to_polars().columns) == result.columns
    assert len(result.fetchall()) == len(table)
    result.show()
    assert result.columns[0] in capsys.readouterr().out


def test_values_are_given_as_params(db: lg.Database):
    assert db.sql("SELECT id FROM docs WHERE text = ?", params=["bb"]).fetchall() == [(2,)]
    assert db.sql("SELECT id FROM docs WHERE text = $t", params={"t": "bb"}).fetchall() == [(2,)]


def test_each_statement_is_carried_out_when_its_result_is_asked_for(db: lg.Database):
    results = db.sql_each("DELETE FROM docs WHERE id = 1; FROM docs; DELETE FROM docs")
    assert next(results).fetchall() == [(1,)]
    assert len(next(results).fetchall()) == 2
    assert db.open_table("docs").count_rows() == 2


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO docs (id) SELECT nothing FROM docs",
        "UPDATE docs SET text = nothing",
        "DELETE FROM docs WHERE id = nothing",
        "CREATE TABLE other AS SELECT nothing FROM docs",
        'INSERT INTO docs (id) SELECT "Size"(text := nothing) FROM docs',
    ],
)
def test_what_duckdb_cannot_bind_is_told_at_its_place(db: lg.Database, text: str):
    with pytest.raises(InvalidQuery, match='"nothing" not found') as caught:
        db.sql(f"SELECT 1;\n{text}")
    caret = " " * text.index("nothing") + "^"
    assert caught.value.message.endswith(f"\n{text}\n{caret}")


def test_what_duckdb_cannot_bind_in_a_views_query_is_told_at_its_place(db: lg.Database):
    text = "CREATE MATERIALIZED VIEW other AS SELECT id, size(text := nothing) AS n FROM docs"
    with pytest.raises(InvalidQuery, match='"nothing" not found') as caught:
        db.sql(text)
    assert caught.value.facts["column"] == text.index("nothing") + 1


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE other (id BIGINT, m MOOD)",
        "CREATE TABLE other (s STRUCT(m MOOD))",
        "ALTER TABLE docs ADD COLUMN m MOOD",
        "ALTER TABLE docs ALTER id TYPE MOOD",
    ],
)
def test_a_type_that_there_is_not_is_told_at_its_place(db: lg.Database, text: str):
    with pytest.raises(InvalidQuery, match="MOOD does not exist") as caught:
        db.sql(text)
    assert caught.value.message.endswith(f"\n{text}\n{' ' * text.index('MOOD')}^")


@pytest.mark.parametrize("condition", ["size(text) > 1", "nothing = 1", "id IN (FROM docs)", "id +"])
def test_a_condition_that_no_refresh_can_have_is_told_at_its_place(db: lg.Database, condition: str):
    db.sql("ALTER TABLE docs ADD COLUMN n AS (size(text))")
    text = f"REFRESH COLUMN n ON docs WHERE {condition}"
    with pytest.raises(InvalidQuery) as caught:
        db.sql(text)
    assert caught.value.message.endswith(f"\n{text}\n{' ' * text.index(condition)}^")


def test_what_duckdb_cannot_parse_has_a_place_even_where_duckdb_tells_none(db: lg.Database):
    with pytest.raises(ParseError, match="without selection list") as caught:
        db.sql("FROM docs;\n SELECT FROM docs")
    assert (caught.value.facts["line"], caught.value.facts["column"]) == (2, 2)


@pytest.mark.parametrize("text", ["SHOW JOBS", "REFRESH COLUMN n ON docs", "DROP TABLE docs", "CREATE TABLE n (a INT)"])
def test_values_for_a_statement_without_a_place_for_them_are_refused(db: lg.Database, text: str):
    with pytest.raises(InvalidQuery, match="no place for them"):
        db.sql(text, [1])
    assert db.table_names() == ["docs"]


def test_what_duckdb_cannot_bind_in_a_query_is_told_at_its_place(db: lg.Database):
    with pytest.raises(InvalidQuery, match=r"LINE 2:   nothing FROM docs\n          \^") as caught:
        db.sql("SELECT size(text),\n  nothing FROM docs")
    assert "size" not in caught.value.message.partition("LINE")[0]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT size({'upper(' * 400}text{')' * 400}) FROM docs WHERE id = 2",
        "SELECT size(text) FROM docs WHERE id = 2 USING SAMPLE 3 ROWS",
    ],
)
def test_a_deep_query_and_one_of_a_sample_call_functions(db: lg.Database, query: str) -> None:
    assert rows(db, query) == [(2,)]
