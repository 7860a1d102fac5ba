"""Functions anywhere in a query, computed in this process instead of by workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process_functions import InProcessFunctions
from lance_folder import LanceFolder

from lancegpu_sql.errors import Cancelled, InvalidQuery, RowFailed
from lancegpu_sql.query.session import QuerySession


def size(text: str) -> int:
    if text == "bad":
        raise ValueError("a bad text")
    return len(text)


def scaled(n: int, by: float) -> float:
    return n * by


def words(text: str) -> list[str]:
    return text.split()


class Times:
    def __init__(self, by: int, plus: float = 0.5) -> None:
        self._by, self._plus = by, plus

    def __call__(self, n: int) -> float:
        return n * self._by + self._plus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> LanceFolder:
    folder = LanceFolder(Path(tmp_path_factory.mktemp("tables")))
    folder.write("docs", {"id": [1, 2, 3, 4, 5], "text": ["a b", "ccc", None, "dddd", "bad"]})
    return folder


@pytest.fixture
def functions() -> InProcessFunctions:
    functions = InProcessFunctions()
    for each in (size, scaled, words):
        functions.add(each)
    functions.add(Times, "times")
    functions.add(size, "draw", deterministic=False)
    return functions


@pytest.fixture
def session(folder: LanceFolder, functions: InProcessFunctions) -> Iterator[QuerySession]:
    session = QuerySession(folder.snapshot, folder.names, functions)
    yield session
    session.close()


GOOD = "(SELECT * FROM docs WHERE text <> 'bad') good"


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id, size(text) FROM docs WHERE id < 3 ORDER BY id", [(1, 3), (2, 3)]),
        (f"SELECT id FROM {GOOD} WHERE size(text) > 3", [(4,)]),
        (f"SELECT size(text) AS s, count(*) FROM {GOOD} GROUP BY size(text) ORDER BY s", [(3, 2), (4, 1)]),
        (f"SELECT id FROM {GOOD} ORDER BY size(text) DESC, id LIMIT 2", [(4,), (1,)]),
        (f"SELECT max(size(text)) FILTER (size(text) < 4) FROM {GOOD}", [(3,)]),
        (f"SELECT sum(size(text)) OVER (ORDER BY id) FROM {GOOD}", [(3,), (6,), (10,)]),
        (
            f"SELECT id FROM {GOOD} QUALIFY row_number() OVER (PARTITION BY size(text) ORDER BY id) = 1 ORDER BY id",
            [(1,), (4,)],
        ),
        (
            f"SELECT id + size('a') AS n FROM {GOOD} GROUP BY n HAVING CASE WHEN max(id) > 1 THEN id + size('a') END = 5",
            [(5,)],
        ),
        (
            f"SELECT size(text) AS s, TRY(scaled(size(text), 2)) FROM {GOOD} GROUP BY s HAVING TRY(size( text)) > 3",
            [(4, 8.0)],
        ),
        ("SELECT CASE WHEN id = 5 THEN 0 ELSE size(text) END FROM docs ORDER BY id", [(3,), (3,), (None,), (4,), (0,)]),
        ("SELECT id, unnest(words(text)) FROM docs WHERE id = 1", [(1, "a"), (1, "b")]),
        ("SELECT list_transform(['x', 'yy'], lambda t: size(t))", [([1, 2],)]),
        ("SELECT scaled(by := 0.5, n := id) FROM docs WHERE id = 3", [(1.5,)]),
        ("SELECT scaled(size('abcd'), 2.0)", [(8.0,)]),
        ("SELECT d.text.size(), (d.id + 1).scaled(by := 0.5) FROM docs d WHERE id.scaled(1) = 3.0", [(None, 2.0)]),
        ("SELECT list_transform(words(upper(text)), lambda t: t.lower().size()) FROM docs WHERE id = 1", [([1, 1],)]),
        ("SELECT a.id FROM docs a JOIN docs b ON size(a.text) = b.id AND a.id < 5 AND b.id = 4", [(4,)]),
        ("SELECT id, (SELECT size(d.text)) FROM docs d WHERE id = 2", [(2, 3)]),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + size('a') FROM r WHERE n < 3) FROM r",
            [(1,), (2,), (3,)],
        ),
        ("FROM (VALUES ('a'), ('bb')) v(t) SELECT size(t) UNION ALL SELECT size('ccc')", [(1,), (2,), (3,)]),
    ],
)
def test_a_function_stands_anywhere(session: QuerySession, query: str, rows: list[tuple[object, ...]]):
    found = session.sql(query).fetchall()
    assert found == rows if "ORDER BY" in query else sorted(found) == sorted(rows)


def test_a_pivot_finds_its_columns_in_what_functions_give(session: QuerySession, functions: InProcessFunctions):
    result = session.sql(f"PIVOT (SELECT id, size(text) AS s FROM {GOOD}) ON s USING sum(id)")
    assert (result.columns, result.types) == (["3", "4"], ["HUGEINT", "HUGEINT"])
    assert result.fetchall() == [(3, 4)]
    assert functions.rows["size"] <= 4


def test_a_pivot_is_read_as_often_as_is_asked_and_computed_once(session: QuerySession, functions: InProcessFunctions):
    result = session.sql(f"PIVOT (SELECT id, size(text) AS s FROM {GOOD}) ON s USING sum(id) GROUP BY id")
    runs = len(functions.runs)
    assert sorted(result.fetchall()) == sorted(result.fetchall()) == [(1, 1, None), (2, 2, None), (4, None, 4)]
    assert len(functions.runs) == runs + 2
    assert functions.rows["size"] == 3


def test_a_pivot_by_what_may_be_another_value_each_time_is_run_once(
    session: QuerySession, functions: InProcessFunctions
):
    result = session.sql(f"PIVOT {GOOD} ON draw(text) USING max(id)")
    drawn = functions.rows["draw"]
    assert result.fetchall() == result.fetchall()
    assert functions.rows["draw"] == drawn


def test_what_a_pivot_finds_is_put_into_a_table_of_the_session(session: QuerySession):
    session.sql(f"CREATE TEMP TABLE found AS PIVOT (SELECT id, size(text) AS s FROM {GOOD}) ON s USING sum(id)")
    session.sql(f"INSERT INTO found PIVOT (SELECT id, size(text) AS s FROM {GOOD}) ON s USING max(id)")
    assert session.sql('SELECT "3", "4" FROM found ORDER BY 1').fetchall() == [(2, 4), (3, 4)]


def test_a_function_gives_the_arguments_of_a_table_function(session: QuerySession):
    assert session.sql("SELECT range + size('x') FROM range(size('ab')) ORDER BY 1").fetchall() == [(1,), (2,)]


def test_columns_are_named_as_duckdb_names_them(session: QuerySession):
    result = session.sql("SELECT Size(text), size( 'a' )+1, SIZE('b') AS B FROM docs")
    assert result.columns == ['size("text")', "(size('a') + 1)", "B"]
    assert result.types == ["BIGINT", "BIGINT", "BIGINT"]


def test_a_column_over_a_window_with_a_name_is_named_as_duckdb_names_it(session: QuerySession):
    window = "(ORDER BY (SELECT max(size('a')) FROM docs))"
    result = session.sql(f"SELECT sum((SELECT size('a'))) OVER w FROM docs WINDOW w AS {window}")
    assert result.columns == [f"sum((SELECT size('a'))) OVER {window}"]


@pytest.mark.parametrize(
    "query", ["SELECT size('abc')", "SELECT list_transform([text, 'b'], lambda x: size(x)) FROM docs WHERE id = 1"]
)
def test_every_form_of_a_result_has_the_names_that_duckdb_gives(session: QuerySession, query: str):
    result = session.query(query)
    assert "size(" in result.columns[0]
    assert result.to_arrow().column_names == result.to_reader().schema.names == result.columns
    assert list(result.to_pandas().columns) == result.to_polars().columns == result.columns


def test_a_pivots_columns_have_duckdbs_types(session: QuerySession):
    pivot = "PIVOT (SELECT id, text FROM docs WHERE id < 3) ON size(text) USING sum(id)"
    result = session.query(pivot)
    assert (result.columns, result.types) == (["3"], ["HUGEINT"])
    assert result.fetchall() == [(3,)]


def test_a_type_that_arrow_does_not_keep_comes_through_and_changes_no_later_query(session: QuerySession):
    stage = """
    SELECT size(text), '3fe0ee72-4cd8-4ff5-a9e3-b9c6ecb8ed8b'::UUID AS u, [170141183460469231731687303715884105727] AS h
    FROM docs WHERE id = 2"""
    result = session.query(stage)
    assert result.types == ["BIGINT", "UUID", "HUGEINT[]"]
    ((size, u, h),) = result.fetchall()
    assert (size, str(u), h) == (3, "3fe0ee72-4cd8-4ff5-a9e3-b9c6ecb8ed8b", [2**127 - 1])
    assert session.query("SELECT sum(id) AS s FROM docs").to_arrow().schema.field("s").type == pa.decimal128(38, 0)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ('SELECT "scaled(id, 2.0)" FROM (SELECT scaled(id, 2.0) FROM docs WHERE id = 1)', [(2.0,)]),
        ("SELECT \"size('a')\" FROM (SELECT size('a'))", [(1,)]),
        ("SELECT q FROM (SELECT size('ab'), 1 AS one) q", [({"size('ab')": 2, "one": 1},)]),
        ("SELECT name FROM (UNPIVOT (SELECT size('a'), size('b')) ON *)", [("size('a')",), ("size('b')",)]),
        ("SELECT size('a') UNION ALL BY NAME SELECT 5 AS \"size('a')\"", [(1,), (5,)]),
        ('WITH c AS (SELECT TRY(scaled(id, 1)) FROM docs) SELECT max("TRY(scaled(id, 1))") FROM c', [(5.0,)]),
    ],
)
def test_a_column_named_by_its_call_is_named_outside_of_a_subquery(
    session: QuerySession, query: str, rows: list[tuple[object, ...]]
):
    assert session.sql(query).fetchall() == rows


def test_what_is_wrong_beside_a_column_named_by_its_call_is_told(session: QuerySession):
    with pytest.raises(InvalidQuery, match='"nothing" not found'):
        session.sql("SELECT \"size('a')\" FROM (SELECT size('a')) WHERE nothing > 1")


def test_a_class_is_made_with_what_a_call_gives_it(session: QuerySession):
    query = "SELECT times(id, by := 2), times(id, plus := 0, by := -1), times(id + 9, by := 2) FROM docs"
    assert session.sql(f"{query} WHERE times(id, by := 3) < 4").fetchall() == [(2.5, -1.0, 20.5)]
    assert session.sql("SELECT list_transform([1, 2], lambda n: times(n, by := 2))").fetchall() == [([2.5, 4.5],)]


def test_columns_that_a_pivot_finds_have_the_names_of_their_calls(session: QuerySession):
    result = session.sql("PIVOT (SELECT id % 2 AS k, id FROM docs) ON k USING sum(id) AS s, max(scaled(id, 2))")
    assert result.columns == ["0_s", "0_max(scaled(id, 2))", "1_s", "1_max(scaled(id, 2))"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP TABLE made (a BIGINT, b BIGINT AS (scaled(a, 1)))",
        "CREATE TEMP TABLE made (a DOUBLE DEFAULT (scaled(1, 1)))",
        "CREATE TEMP TABLE made (a BIGINT CHECK (scaled(a, 1) > 1))",
        "CREATE INDEX made ON kept (scaled(a, 1))",
        "ALTER TABLE kept ALTER a SET DEFAULT scaled(1, 1)",
    ],
)
def test_what_the_engine_would_keep_calls_no_function(session: QuerySession, statement: str):
    session.sql("CREATE TEMP TABLE kept AS SELECT 1 AS a")
    with pytest.raises(InvalidQuery, match="cannot be part of a DEFAULT"):
        session.sql(statement)
    session.sql("ALTER TABLE kept ALTER a TYPE DOUBLE USING scaled(a, 3)")
    assert session.sql("FROM kept").fetchall() == [(3.0,)]


def test_equal_arguments_are_computed_once(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT size('x' || i % 10), size('x' || i % 10) + 1 FROM range(10000) r(i)").to_arrow()
    assert functions.rows["size"] == 10


def test_a_result_read_twice_is_computed_once(session: QuerySession, functions: InProcessFunctions):
    result = session.sql("SELECT size(text) FROM docs WHERE id < 3")
    assert result.fetchall() == [(3,), (3,)]
    assert result.to_arrow().num_rows == 2
    assert functions.rows["size"] == 2


def test_values_beyond_the_bound_are_computed_again(session: QuerySession, functions: InProcessFunctions):
    functions.memo_bytes = 0
    result = session.sql("SELECT size(text) FROM docs WHERE id = 1")
    result.fetchall()
    result.fetchall()
    assert functions.rows["size"] == 2


def test_a_function_that_is_not_deterministic_is_called_for_every_row(
    session: QuerySession, functions: InProcessFunctions
):
    session.sql("SELECT draw('x') FROM range(3000)").to_arrow()
    assert functions.rows["draw"] == 3000


def test_cheap_conditions_come_first(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT id FROM docs WHERE size(text) > 0 AND id = 2").fetchall()
    assert functions.rows["size"] == 1


def test_a_query_that_is_run_again_sees_what_a_file_has_now(session: QuerySession, tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text("text\nab\n")
    query = f"SELECT *, size(text) AS size FROM '{file}'"
    assert session.sql(query).fetchall() == [("ab", 2)]
    file.write_text("text,n\nabc,7\n")
    assert session.sql(query).fetchall() == [("abc", 7, 3)]


def test_a_query_that_is_run_again_sees_what_was_made_meanwhile(session: QuerySession):
    query = "SELECT sum(size(text)), max(length(text)) FROM docs WHERE id < 3"
    for _ in range(2):
        assert session.sql(query).fetchall() == [(6, 3)]
    session.sql("CREATE MACRO length(x) AS 7")
    assert session.sql(query).fetchall() == [(6, 7)]


def test_limit_stops_the_work(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT size('x' || i) FROM range(1000000) r(i) LIMIT 10").fetchall()
    assert functions.rows["size"] < 100_000


def test_describing_a_query_computes_nothing(session: QuerySession, functions: InProcessFunctions):
    session.sql("SELECT size('constant'), TRY(size('bad'))")
    assert not functions.rows
    assert not functions.runs


def test_an_error_of_a_function_comes_out_as_itself(session: QuerySession, functions: InProcessFunctions):
    with pytest.raises(RowFailed, match="a bad text") as raised:
        session.sql("SELECT size(text) FROM docs").fetchall()
    assert raised.value.facts["arguments"] == {"text": "bad"}
    assert functions.runs[-1].error is raised.value


def test_an_error_in_mid_stream_comes_out_as_itself(session: QuerySession):
    reader = session.sql(
        "SELECT size(CASE WHEN i = 50000 THEN 'bad' ELSE 'x' || i END) FROM range(60000) r(i)"
    ).to_reader(100)
    with pytest.raises(RowFailed, match="a bad text"):
        reader.read_all()


def test_try_gives_null_for_the_whole_expression(session: QuerySession):
    query = "SELECT TRY(size(text)), TRY(coalesce(size(text), 7)), TRY(size(text) + 1) FROM docs ORDER BY id"
    assert session.sql(query).fetchall() == [(3, 3, 4), (3, 3, 4), (None, 7, None), (4, 4, 5), (None, None, None)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT size(id) FROM docs", r"size\(BIGINT\)"),
        ("SELECT [size(t) + 'x' FOR t IN [text]] FROM docs", r"LINE 1: SELECT \[size\(t\) \+ 'x'"),
        ("SELECT size(nothing) FROM docs", '"nothing" not found'),
        ("SELECT size() FROM docs", "lacks 'text'"),
        ("SELECT size(txt := text) FROM docs", "no parameter 'txt'"),
    ],
)
def test_what_does_not_bind_is_told_in_the_words_of_the_text(session: QuerySession, query: str, said: str):
    with pytest.raises(InvalidQuery, match=said):
        session.sql(query).fetchall()


def test_a_caret_points_into_the_text_as_written(session: QuerySession):
    with pytest.raises(InvalidQuery) as raised:
        session.sql("SELECT [size(t) FOR t IN [text]],\n [size(t) + 'x' FOR t IN [text]] FROM docs").fetchall()
    line, caret = raised.value.message.splitlines()[-2:]
    assert line[caret.index("^") :].startswith("'x'")


@pytest.mark.parametrize("between", ["\n", "'" + "x" * 200 + "', "])
def test_a_line_is_shown_as_written_where_arguments_have_names(session: QuerySession, between: str):
    with pytest.raises(InvalidQuery) as raised:
        session.sql(f'SELECT scaled(n := 1, by := 2), {between}"Size"(text => nothing) FROM docs')
    line, caret = raised.value.message.splitlines()[-2:]
    assert line.endswith('"Size"(text => nothing) FROM docs')
    assert line[caret.index("^") :].startswith("nothing")


def test_parameters_are_arguments(session: QuerySession):
    assert session.sql("SELECT size(?), size($2)", ["ab", "c"]).fetchall() == [(2, 1)]
    assert session.sql("SELECT size($a)", {"a": "abc"}).fetchall() == [(3,)]


def test_a_view_and_a_macro_that_call_functions_are_there_for_later_queries(session: QuerySession):
    session.sql("CREATE TEMP VIEW sizes AS SELECT id, size(text) AS s FROM docs WHERE id < 3")
    session.sql("CREATE TEMP MACRO twice(t) AS size(t) * 2")
    session.sql("CREATE TEMP VIEW larger AS SELECT s + twice('a') AS l FROM sizes")
    assert session.sql("SELECT l FROM larger").fetchall() == [(5,), (5,)]
    assert "sizes" in [name for (name,) in session.sql("SHOW TABLES").fetchall()]
    session.sql("DROP VIEW larger")
    with pytest.raises(InvalidQuery, match="no table 'larger'"):
        session.sql("FROM larger")


def test_a_view_that_does_not_bind_is_refused_and_not_kept(session: QuerySession):
    with pytest.raises(InvalidQuery, match="nothing"):
        session.sql("CREATE TEMP VIEW broken AS SELECT size(nothing) FROM docs")
    with pytest.raises(InvalidQuery, match="no table 'broken'"):
        session.sql("FROM broken")


def test_a_view_is_replaced_only_when_that_is_said(session: QuerySession):
    session.sql("CREATE TEMP VIEW one AS SELECT size('a') AS s")
    with pytest.raises(InvalidQuery, match="CREATE OR REPLACE"):
        session.sql("CREATE TEMP VIEW one AS SELECT size('ab') AS s")
    session.sql("CREATE OR REPLACE TEMP VIEW one AS SELECT size('ab') AS s")
    assert session.sql("FROM one").fetchall() == [(2,)]


def test_a_view_over_one_that_is_replaced_reads_the_new_one(session: QuerySession):
    session.sql("CREATE VIEW sizes AS SELECT size(text) AS n FROM docs WHERE id = 1")
    session.sql("CREATE VIEW larger AS SELECT n + size('a') AS n FROM sizes")
    session.sql("CREATE OR REPLACE VIEW sizes AS SELECT size(text) + 100 AS n FROM docs WHERE id = 1")
    assert session.sql("FROM larger").fetchall() == [(104,)]


def test_what_the_session_made_is_seen_by_a_query_with_functions(session: QuerySession):
    session.sql(
        "CREATE TEMP TABLE mine AS SELECT 'abc' AS t; CREATE TEMP MACRO plain(x) AS x || 'd'; SET TimeZone = 'Asia/Tokyo'"
    )
    query = "SELECT size(plain(t)), current_setting('TimeZone') FROM mine"
    assert session.sql(query).fetchall() == [(4, "Asia/Tokyo")]


def test_closing_a_reader_ends_the_reading(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT size('x' || i) FROM range(1000000) r(i)").to_reader(1000)
    reader.read_next_batch()
    reader.close()
    del reader
    (run,) = functions.runs
    assert run.ended.is_set()
    assert run.closed == ["size"]
    assert run.error is None
    assert functions.rows["size"] < 500_000


def test_a_result_read_to_its_end_has_left_no_thread(session: QuerySession):
    before = set(threading.enumerate())
    session.sql("SELECT size(text) FROM docs WHERE id < 3").fetchall()
    assert set(threading.enumerate()) == before


def test_a_call_with_constants_is_made_once_for_all_rows(session: QuerySession, functions: InProcessFunctions):
    functions.memo_bytes = 0
    query = "SELECT count(*) FROM range(10000) r(i) WHERE i > size('abc') AND i < scaled(by := -2.0, n := -3)"
    assert session.sql(query).fetchall() == [(2,)]
    assert functions.rows == {"size": 1, "scaled": 1}


def test_a_call_with_constants_in_a_branch_is_made_if_a_row_reaches_it(
    session: QuerySession, functions: InProcessFunctions
):
    query = "SELECT CASE WHEN i < 0 THEN size('bad') END, coalesce(i, size('bad')) FROM range(2) r(i)"
    assert session.sql(query).fetchall() == [(None, 0), (None, 1)]
    assert not functions.rows


def test_constants_that_fail_fail_a_query_only_if_a_row_needs_them(session: QuerySession):
    assert session.sql("SELECT size('bad') FROM range(3) r(i) WHERE i < 0").fetchall() == []
    with pytest.raises(RowFailed, match="a bad text"):
        session.sql("SELECT size('bad') FROM range(3)").fetchall()


def test_what_duckdb_finds_to_be_constant_fails_a_query_only_if_a_row_needs_it(session: QuerySession):
    zero = "(SELECT DISTINCT ON (size('a')) ((2 IN (1, 3) AND size(text) > 0))::INT AS zero FROM docs WHERE id = 1 ORDER BY id)"
    guarded = "CASE WHEN zero = 0 THEN 5 ELSE size(['bad'][zero + 1]) END AS n, scaled(n, 2), 'a'.size()"
    assert session.sql(f"SELECT {guarded} FROM {zero}").fetchall() == [(5, 10.0, 1)]
    with pytest.raises(RowFailed, match="a bad text"):
        session.sql(f"SELECT {guarded.replace('zero = 0', 'zero = 1')} FROM {zero}").fetchall()


def test_a_reading_is_cancelled_from_another_thread(session: QuerySession, functions: InProcessFunctions):
    result = session.sql("SELECT size('x' || i) FROM range(100000000) r(i)")
    reader = result.to_reader(1000)
    reader.read_next_batch()
    thread = threading.Thread(target=result.cancel)
    thread.start()
    with pytest.raises(Cancelled):
        reader.read_all()
    thread.join()
    assert isinstance(functions.runs[-1].error, Cancelled)


def test_a_reading_is_cancelled_before_its_first_row_is_there(session: QuerySession, functions: InProcessFunctions):
    pairs = "range(1000000) a(i), range(1000000) b(j)"
    result = session.sql(f"SELECT count(*) FROM {pairs} WHERE scaled(i % 9, 2) + j < 0 AND scaled(i % 7, j % 5) > 0")
    errors: list[BaseException] = []

    def read() -> None:
        try:
            result.fetchall()
        except Cancelled as exc:
            errors.append(exc)

    thread = threading.Thread(target=read)
    thread.start()
    assert functions.called.wait(60)
    result.cancel()
    thread.join(60)
    assert len(errors) == 1


def test_a_cancelled_job_ends_its_reading(session: QuerySession, functions: InProcessFunctions):
    reader = session.sql("SELECT size('x' || i) FROM range(100000000) r(i)").to_reader(1000)
    reader.read_next_batch()
    functions.runs[-1].stop()
    with pytest.raises(Cancelled):
        reader.read_all()


def test_several_threads_read_one_result(session: QuerySession):
    result = session.sql("SELECT sum(size('x' || i % 100)) FROM range(20000) r(i)")
    found: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: found.append(result.fetchall())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 4
