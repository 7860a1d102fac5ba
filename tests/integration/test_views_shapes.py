"""Which queries are refreshed row by row, what of a table each reads, and what makes one run always."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process_functions import InProcessFunctions

from lancegpu_sql import function
from lancegpu_sql.errors import InvalidName, InvalidQuery
from lancegpu_sql.refresh.views.defining import Defined, define_view
from lancegpu_sql.tables import TableStore


@function
def f(x: int) -> int:
    return x


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableStore]:
    store = TableStore(tmp_path_factory.mktemp("db"))
    rows = pa.table({"id": [1], "x": [2], "Note": ["n"], "tags": [["a"]], "made": pa.array([0], pa.timestamp("us"))})
    for name in ("t", "other"):
        store.create(name, rows.to_reader())
    (Path(store.uri) / "file.csv").write_text("a\n1\n")
    return store


@pytest.fixture(scope="module")
def functions() -> InProcessFunctions:
    found = InProcessFunctions()
    found.add(f)
    return found


@pytest.fixture
def define(tables: TableStore, functions: InProcessFunctions):
    return lambda query: define_view(tables, functions, query.replace("FILE", f"{tables.uri}/file.csv")).definition


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ("SELECT id, f(x) FROM t", ("id", "x")),
        ("SELECT id FROM t AS q WHERE q.x IS DISTINCT FROM 3 AND note LIKE 'a'", ("id", "x", "Note")),
        ("SELECT *, x + 1 AS y FROM main.t;", ("id", "x", "Note", "tags", "made")),
        ("SELECT q AS whole FROM t q", ("id", "x", "Note", "tags", "made")),
        ("SELECT unnest(tags) AS x FROM t", ("tags",)),
        ("SELECT list_transform(tags, lambda k: k || id) AS l FROM t", ("id", "tags")),
        ("SELECT year(made) AS y, CASE WHEN id > 1 THEN f(x) END AS c, FROM T", ("id", "x", "made")),
        ("SELECT 1 AS one FROM t WHERE extract(day FROM made) = 1", ("made",)),
    ],
)
def test_a_query_over_the_rows_of_one_table_is_refreshed_row_by_row(define, query: str, reads: tuple[str, ...]):
    found = define(query)
    assert (found.way, found.reads) == ("rows", {"t": reads})


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT count(*) AS n FROM t", "count_star() is of many rows"),
        ("SELECT x FROM t GROUP BY x", "groups rows"),
        ("SELECT DISTINCT x FROM t", "DISTINCT"),
        ("SELECT x FROM t ORDER BY x", "ORDER BY"),
        ("SELECT x FROM t LIMIT 3", "LIMIT"),
        ("SELECT row_number() OVER () AS n FROM t", "window"),
        ("SELECT x FROM t QUALIFY row_number() OVER () = 1", "QUALIFY"),
        ("SELECT t.x FROM t JOIN other USING (id)", "several tables"),
        ("SELECT a.x FROM t AS a, t AS b", "joins tables"),
        ("SELECT x FROM t, unnest(tags)", "joins tables"),
        ("SELECT x FROM t UNION ALL SELECT x FROM t", "more than one SELECT"),
        ("WITH w AS (FROM t) SELECT x FROM w", "WITH"),
        ("SELECT (SELECT max(id) FROM t) AS m FROM t", "query inside"),
        ("FROM t SELECT x", "FROM comes first"),
        ("SELECT COLUMNS(*)::VARCHAR FROM t", "COLUMNS"),
        ("SELECT x FROM t AS q(a, x)", "as it is"),
        ("SELECT 1 AS one", "no table"),
    ],
)
def test_any_other_query_runs_again_and_says_why(define, query: str, reason: str):
    found = define(query)
    assert found.way == "query"
    assert reason in str(found.reason)


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT x, now() AS n FROM t", "now()"),
        ("SELECT x FROM t WHERE random() < 0.5", "random()"),
        ("SELECT x, current_date AS d FROM t", "current_date"),
        ("SELECT x FROM t USING SAMPLE 10%", "a sample"),
        ("SELECT age(made) AS a FROM t", "age()"),
        ("SELECT a FROM read_csv('FILE')", "read_csv()"),
        ("SELECT a FROM 'FILE'", "the file "),
        ("SELECT uuid() AS u FROM range(3)", "uuid()"),
        ("PIVOT t ON x USING count(*)", "cannot be told"),
    ],
)
def test_what_may_give_something_else_each_time_is_named(define, query: str, part: str):
    assert part in define(query).volatile[0]


@pytest.mark.parametrize("query", ["SELECT x FROM t, range(3)", 'SELECT "now" FROM (SELECT x AS now FROM t)', "FROM t"])
def test_what_gives_the_same_each_time_is_not_volatile(define, query: str):
    assert define(query).volatile == ()


def test_columns_by_which_tables_are_joined_are_read(define):
    assert define("SELECT a.x FROM t AS a JOIN other USING (id)").reads == {"t": ("id", "x"), "other": ("id", "x")}


@pytest.mark.parametrize("query", ["DELETE FROM t", "SELECT 1; SELECT 2", "SELECT nothing FROM t", "FROM nowhere"])
def test_what_is_no_query_of_this_database_is_refused(define, query: str):
    with pytest.raises(InvalidQuery):
        define(query)


def test_columns_that_no_table_can_have_are_refused(define):
    with pytest.raises(InvalidName):
        define('SELECT x AS "a.b" FROM t')


def test_hidden_columns_tell_what_rows_were_made_of(tables: TableStore, functions: InProcessFunctions):
    found: Defined = define_view(tables, functions, "SELECT x FROM t")
    assert found.schema.names == ["x", "_lancegpu_source_row", "_lancegpu_ordinal", "_lancegpu_digest"]
