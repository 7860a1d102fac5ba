"""Queries in stages: order, streaming, how much is computed, what is made of a result."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from in_process_functions import InProcessFunctions
from lance_folder import LanceFolder

from lancegpu_sql.errors import InvalidQuery, LanceGpuError, NotFound
from lancegpu_sql.query.session import QuerySession

ROWS = 200_000


def size(text: str) -> int:
    if text == "bad":
        raise ValueError("a bad text")
    return len(text)


def next_of(n: pa.Int64Array) -> pa.Int64Array:
    return pc.add(n, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> LanceFolder:
    folder = LanceFolder(Path(tmp_path_factory.mktemp("tables")))
    numbers = pa.table({"n": range(ROWS), "name": [f"number {n % 1000}" for n in range(ROWS)]})
    folder.write("numbers", numbers, rows_per_file=ROWS)
    folder.write("docs", {"id": [1, 2], "text": ["a", "bb"]})
    folder.write("docs", {"id": [3], "text": ["ccc"]}, mode="overwrite")
    return folder


@pytest.fixture
def functions() -> InProcessFunctions:
    functions = InProcessFunctions()
    functions.add(size)
    functions.add(next_of)
    functions.add(next_of, "later_of")
    return functions


@pytest.fixture
def session(folder: LanceFolder, functions: InProcessFunctions) -> Iterator[QuerySession]:
    session = QuerySession(folder.snapshot, folder.names, functions)
    yield session
    session.close()


def test_order_is_kept_through_stages(session: QuerySession):
    table = session.sql("SELECT later_of(next_of(n)) AS v FROM numbers").to_arrow()
    assert table["v"].to_pylist() == list(range(2, ROWS + 2))


def test_an_order_is_kept_where_arguments_are_cast(session: QuerySession):
    table = session.sql("SELECT next_of(n::INTEGER) AS v FROM numbers ORDER BY n DESC").to_arrow()
    assert table["v"].to_pylist() == list(range(ROWS, 0, -1))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT next_of(n) FROM numbers LIMIT 10",
        "SELECT later_of(next_of(n)) FROM numbers LIMIT 10",
        "SELECT n FROM numbers WHERE next_of(n) > 5 LIMIT 10",
        "SELECT EXISTS (FROM numbers WHERE next_of(n) > 5)",
    ],
)
def test_a_limit_stops_the_work_of_all_stages(session: QuerySession, functions: InProcessFunctions, query: str):
    session.sql(query).fetchall()
    assert functions.rows["next_of"] <= ROWS / 4


def test_first_rows_come_before_the_last_are_computed(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT next_of(n) FROM numbers").to_reader()
    reader.read_next_batch()
    assert functions.rows["next_of"] <= ROWS / 4
    assert sum(batch.num_rows for batch in reader) > ROWS / 2


def test_a_stage_computes_in_large_batches(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT sum(next_of(n)) FROM numbers").fetchall()
    assert functions.rows["next_of"] == ROWS
    assert functions.batches["next_of"] <= 45


def test_workers_are_given_back_when_the_input_is_done(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT next_of(id) AS v, size(text) FROM docs").to_reader()
    assert reader.read_next_batch().num_rows == 1
    assert sorted(functions.runs[-1].closed) == ["next_of", "size"]


def test_only_needed_rows_and_equal_calls_once(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT size(name), size(name) * 2 FROM numbers WHERE size(name) > 0 AND n < 5000").to_arrow()
    assert functions.rows["size"] == 1000


def test_ten_distinct_arguments_of_a_million_rows_are_ten_calls(session: QuerySession, functions: InProcessFunctions):
    query = "SELECT sum(next_of(n % 10)) FROM numbers, range(5)"
    assert session.sql(query).fetchall() == [(5 * ROWS * 55 // 10,)]
    assert functions.rows["next_of"] == 10


def test_rows_behind_a_mask_are_not_computed(session: QuerySession, functions: InProcessFunctions):
    query = "SELECT count(CASE WHEN n % 2 = 0 THEN next_of(n) END), count(*) FROM numbers"
    assert session.sql(query).fetchall() == [(ROWS // 2, ROWS)]
    assert functions.rows["next_of"] == ROWS // 2


def test_parameters_are_found_in_whichever_stage_they_stand(session: QuerySession):
    query = "SELECT next_of(n) + ? FROM numbers WHERE n < ? AND next_of(n) > ? ORDER BY 1"
    assert session.sql(query, [100, 5, 2]).fetchall() == [(103,), (104,), (105,)]
    query = "SELECT next_of(n) + $add FROM numbers WHERE n = $n"
    assert session.sql(query, {"add": 100, "n": 5}).fetchall() == [(106,)]


def test_every_form_of_a_result_is_the_same(session: QuerySession):
    result = session.sql("SELECT n, next_of(n) AS v FROM numbers WHERE next_of(n) < 4 ORDER BY n")
    rows = [(0, 1), (1, 2), (2, 3)]
    assert result.fetchall() == rows
    assert result.fetchone() == rows[0]
    assert result.to_pandas()["v"].tolist() == [1, 2, 3]
    assert result.to_polars()["v"].to_list() == [1, 2, 3]
    assert result.to_reader(2).read_all()["v"].to_pylist() == [1, 2, 3]


def test_no_more_rows_are_computed_than_are_shown(
    session: QuerySession, functions: InProcessFunctions, capsys: pytest.CaptureFixture[str]
):
    session.sql("SELECT n, next_of(n) AS v FROM numbers").show(max_rows=4)
    shown = capsys.readouterr().out
    assert "at most 4 rows" in shown
    assert "int64" in shown
    assert functions.rows["next_of"] < ROWS / 4


def test_older_versions_are_read_beside_the_latest(session: QuerySession):
    query = "SELECT o.id, n.id, size(o.text) FROM docs o AT (VERSION => 1), docs n ORDER BY o.id"
    assert session.sql(query).fetchall() == [(1, 3, 1), (2, 3, 2)]
    assert session.sql("SELECT id FROM docs AT (VERSION => 1) ORDER BY id").fetchall() == [(1,), (2,)]
    assert session.sql(
        "SELECT count(*) FROM docs a AT (VERSION => 1) JOIN docs b AT (VERSION => 2) ON true"
    ).fetchall() == [(2,)]


@pytest.mark.parametrize("version", [99, 2**64])
def test_a_version_that_there_is_not_is_told(session: QuerySession, version: int):
    with pytest.raises(NotFound, match=f"no version {version}"):
        session.sql(f"FROM docs AT (VERSION => {version})")


def test_what_is_made_of_a_query_has_the_columns_names(session: QuerySession, tmp_path: Path):
    session.sql("CREATE TEMP TABLE made AS SELECT size(text), id FROM docs")
    assert session.sql("FROM made").columns == ['size("text")', "id"]
    session.sql("INSERT INTO made SELECT size('abcd'), 9")
    assert session.sql("FROM made ORDER BY id").fetchall() == [(3, 3), (4, 9)]
    session.sql(f"COPY (SELECT size(text) FROM docs) TO '{tmp_path / 'sizes.csv'}'")
    assert (tmp_path / "sizes.csv").read_text() == '"size(""text"")"\n3\n'
    session.sql("CREATE TEMP VIEW seen AS SELECT size(text) FROM docs")
    assert session.sql('SELECT "size(""text"")" AS s FROM seen').fetchall() == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TEMP TABLE kept AS SELECT next_of(n) AS m FROM numbers WHERE n >= $1",
        "INSERT INTO filled SELECT next_of(n) FROM numbers WHERE n >= ? RETURNING m",
        "COPY (SELECT next_of(n) AS m FROM numbers WHERE n >= ?) TO '{folder}/copied.parquet'",
    ],
)
def test_what_a_statement_does_with_a_querys_rows_is_computed_in_large_batches(
    session: QuerySession, functions: InProcessFunctions, tmp_path: Path, statement: str
):
    session.sql("CREATE TEMP TABLE filled (m BIGINT)")
    session.sql(statement.format(folder=tmp_path), [2])
    assert functions.rows["next_of"] == ROWS - 2
    assert functions.batches["next_of"] <= 45
    made = {"CR": "kept", "IN": "filled", "CO": f"'{tmp_path}/copied.parquet'"}[statement[:2]]
    assert session.sql(f"SELECT count(*), min(m), max(m) FROM {made}").fetchall() == [(ROWS - 2, 3, ROWS)]


def test_a_row_that_fails_leaves_nothing_of_what_was_made(session: QuerySession, functions: InProcessFunctions):
    session.sql("CREATE TEMP TABLE texts AS SELECT unnest(['a', 'bad']) AS text")
    with pytest.raises(LanceGpuError, match="a bad text"):
        session.sql("CREATE TEMP TABLE sizes AS SELECT size(text) AS n FROM texts")
    with pytest.raises(InvalidQuery, match="no table 'sizes'"):
        session.sql("FROM sizes")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP TABLE explained AS SELECT next_of(n) FROM numbers",
        "CREATE VIEW explained AS SELECT next_of(n) FROM numbers",
        "COPY (SELECT next_of(n) FROM numbers) TO 'nowhere/explained.csv'",
        "INSERT INTO filled SELECT next_of(n) FROM numbers RETURNING m",
    ],
)
def test_a_statement_is_explained_and_not_carried_out(
    session: QuerySession, functions: InProcessFunctions, statement: str
):
    session.sql("CREATE TEMP TABLE filled (m BIGINT)")
    ((_, text),) = session.sql(f"EXPLAIN {statement}").fetchall()
    assert "= next_of(" in text
    assert not functions.rows
    assert session.sql("FROM filled").fetchall() == []
    with pytest.raises(InvalidQuery, match="no table 'explained'"):
        session.sql("FROM explained")
    with pytest.raises(InvalidQuery, match="give it the query"):
        session.sql(f"EXPLAIN ANALYZE {statement}")


def test_a_pivot_that_looks_for_its_columns_is_explained(session: QuerySession, functions: InProcessFunctions):
    ((_, text),) = session.sql("EXPLAIN PIVOT docs ON size(text) USING max(id)").fetchall()
    assert "its columns are known when it has run" in text
    assert not functions.rows
    ((_, text),) = session.sql("EXPLAIN ANALYZE PIVOT docs ON size(text) USING max(id)").fetchall()
    assert "\n1 row in " in text


def test_a_query_is_described_without_a_call(session: QuerySession, functions: InProcessFunctions):
    (row,) = session.sql("DESCRIBE SELECT size(text) FROM docs").fetchall()
    assert row[:2] == ('size("text")', "BIGINT")
    assert not functions.rows


def test_a_query_is_explained(session: QuerySession, functions: InProcessFunctions):
    ((key, text),) = session.sql("EXPLAIN SELECT size(text) FROM docs WHERE id > 0").fetchall()
    assert key == "stages"
    assert "= size(" in text
    assert "size version 1 on a worker without GPU" in text
    assert not functions.rows


def test_an_explained_query_that_was_run_says_what_it_took(session: QuerySession):
    ((_, text),) = session.sql("EXPLAIN ANALYZE SELECT next_of(n) FROM numbers WHERE n < 10").fetchall()
    assert "asked for 10 rows (" in text
    assert "computed 10 in " in text
    assert text.splitlines()[-1].startswith("10 rows in ")


def test_an_explained_query_is_data(session: QuerySession):
    ((_, text),) = session.sql("EXPLAIN (ANALYZE, FORMAT json) SELECT next_of(n) FROM numbers WHERE n < 10").fetchall()
    told = json.loads(text)
    assert told["rows"] == told["stages"][0]["rows"] == told["functions"][0]["rows_asked"] == 10
    assert told["functions"][0]["gpu_class"] is None
    with pytest.raises(InvalidQuery, match="text or json"):
        session.sql("EXPLAIN (FORMAT html) SELECT size(text) FROM docs")


def test_two_readers_of_one_result_at_once(session: QuerySession):
    result = session.sql("SELECT next_of(n) AS v FROM numbers")
    one, two = result.to_reader(), result.to_reader()
    assert one.read_next_batch() == two.read_next_batch()
    assert one.read_all().num_rows == two.read_all().num_rows


def test_a_reader_that_is_dropped_ends_every_stage(session: QuerySession, functions: InProcessFunctions):
    before = set(threading.enumerate())
    reader = session.sql("SELECT later_of(next_of(n)) FROM numbers").to_reader()
    reader.read_next_batch()
    del reader
    assert functions.runs[-1].ended.is_set()
    assert set(threading.enumerate()) == before


def test_a_reader_that_stops_early_has_computed_little(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT next_of(n) FROM numbers").to_reader()
    reader.read_next_batch()
    reader.close()
    assert functions.rows["next_of"] < ROWS / 2  # DuckDB reads ahead for as long as nobody has closed it


def test_memory_is_bounded_by_what_waits(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT next_of(n) FROM numbers").to_reader()
    taken = reader.read_next_batch().num_rows
    for batch in reader:
        taken += batch.num_rows
        assert functions.rows["next_of"] <= 2 * taken + 20 * 32_768
