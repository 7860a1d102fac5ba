"""Queries with Functions that are asked again: their plan and columns are kept for as long as these would be the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from in_process_functions import InProcessFunctions
from lance_folder import LanceFolder

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.plans import KeptPlan, Plans
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.session import QuerySession

QUERY = "SELECT sum(twice(n)) AS total FROM docs"


def twice(n: int) -> int:
    return 2 * n


def thrice(n: int) -> float:
    return 3.0 * n


class CountedPlans(Plans):
    """Notes how often a plan was made."""

    made = 0

    def keep(self, text: str, made: KeptPlan) -> None:
        self.made += 1
        super().keep(text, made)


@pytest.fixture
def folder(tmp_path: Path) -> LanceFolder:
    folder = LanceFolder(tmp_path)
    folder.write("docs", {"n": [1, 2, 3]})
    return folder


@pytest.fixture
def functions() -> InProcessFunctions:
    functions = InProcessFunctions()
    functions.add(twice)
    return functions


@pytest.fixture
def plans() -> CountedPlans:
    return CountedPlans()


@pytest.fixture
def session(folder: LanceFolder, functions: InProcessFunctions, plans: CountedPlans) -> Iterator[QuerySession]:
    session = QuerySession(folder.snapshot, folder.names, functions, plans=plans)
    yield session
    session.close()


def shape(result: QueryResult) -> tuple[list[str], list[str]]:
    return result.columns, result.types


def refused(session: QuerySession) -> str:
    with pytest.raises(InvalidQuery) as refusal:
        session.sql(QUERY)
    return str(refusal.value)


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "SELECT twice(d.n), * FROM docs d JOIN Docs e USING (n) ORDER BY ALL",
        "WITH kept AS (SELECT twice(n) AS m FROM docs) SELECT a.m, b.m FROM kept a, kept b ORDER BY ALL",
        "SELECT twice(n), _rowid FROM docs ORDER BY _rowid",
        "SELECT twice(n) FROM docs AT (VERSION => 1) ORDER BY ALL",
        "SELECT v, twice(v) FROM docs UNPIVOT (v FOR name IN (n)) ORDER BY ALL",
        "SELECT twice(n) AS pg_total FROM docs ORDER BY ALL",
    ],
)
def test_a_query_that_is_asked_again_is_planned_once(session: QuerySession, plans: CountedPlans, query: str):
    first = session.sql(query)
    again = session.sql(query)
    assert plans.made == 1
    assert (shape(again), again.fetchall()) == (shape(first), first.fetchall())


def test_a_query_that_is_asked_again_sees_rows_that_were_added(folder: LanceFolder, session: QuerySession):
    session.sql(QUERY).fetchall()
    folder.write("docs", {"n": [10]}, mode="append")
    assert session.sql(QUERY).fetchall() == [(32,)]


def test_a_query_that_is_asked_again_reads_one_version_throughout(folder: LanceFolder, session: QuerySession):
    query = "SELECT count(twice(a.n)), (SELECT count(*) FROM docs) FROM docs a"
    session.sql(query)
    asked_again = session.sql(query)
    folder.write("docs", {"n": [10]}, mode="append")
    assert asked_again.fetchall() == [(3, 3)]


def test_a_query_that_is_asked_again_opens_each_of_its_tables_once(folder: LanceFolder, session: QuerySession):
    folder.write("other", {"n": [1]})
    session.sql(QUERY).fetchall()
    folder.opened.clear()
    session.sql(QUERY).fetchall()
    assert folder.opened == ["docs"]


def test_a_column_of_another_type_gives_another_type(folder: LanceFolder, session: QuerySession, plans: CountedPlans):
    query = "SELECT n, twice(n::INT) FROM docs"
    assert session.sql(query).types == ["BIGINT", "BIGINT"]
    folder.write("docs", {"n": [1.0]}, mode="overwrite")
    assert [session.sql(query).types for _ in range(2)] == [["DOUBLE", "BIGINT"]] * 2
    assert plans.made == 2


@pytest.mark.parametrize("change", ["dropped", "without the column", "with columns that SQL would mix up"])
def test_what_is_refused_now_is_refused_at_once_as_for_the_first_time(
    folder: LanceFolder, session: QuerySession, functions: InProcessFunctions, change: str
):
    session.sql(QUERY)
    shutil.rmtree(folder.folder / "docs.lance")
    if change == "without the column":
        folder.write("docs", {"m": [1]})
    if change == "with columns that SQL would mix up":
        folder.write("docs", {"n": [1], "N": [2]})
    with closing(QuerySession(folder.snapshot, folder.names, functions)) as other:
        assert refused(session) == refused(other)


def test_a_function_that_was_replaced_gives_its_values(session: QuerySession, functions: InProcessFunctions):
    assert session.sql(QUERY).fetchall() == [(12,)]
    functions.add(thrice, "twice")
    replaced = session.sql(QUERY)
    assert (replaced.types, replaced.fetchall()) == (["DOUBLE"], [(18.0,)])


def test_a_function_that_was_dropped_is_missed(session: QuerySession, functions: InProcessFunctions):
    functions.add(twice, "size")
    query = "SELECT size(twice(n)) FROM docs"
    session.sql(query)
    functions.drop("twice")
    with pytest.raises(InvalidQuery, match="twice"):
        session.sql(query)


def test_a_table_made_since_is_read_where_it_is_meant(folder: LanceFolder, session: QuerySession):
    query = "SELECT twice(a.n), twice(b.n) FROM Docs a JOIN docs b ON a.n = b.n"
    assert len(session.sql(query).fetchall()) == 3
    folder.write("Docs", {"n": [3, 4]})
    assert session.sql(query).fetchall() == [(6, 6)]


def test_a_table_of_a_ctes_name_made_since_changes_nothing(folder: LanceFolder, session: QuerySession):
    query = "WITH kept AS (SELECT twice(n) AS m FROM docs) SELECT sum(m) FROM kept"
    assert session.sql(query).fetchall() == [(12,)]
    folder.write("kept", {"m": ["none"]})
    assert session.sql(query).fetchall() == [(12,)]


def test_what_the_session_made_since_is_read(folder: LanceFolder, session: QuerySession):
    session.sql(QUERY)
    shutil.rmtree(folder.folder / "docs.lance")
    session.sql("CREATE TEMP TABLE docs AS SELECT 50 AS n")
    assert session.sql(QUERY).fetchall() == [(100,)]


def test_a_pivot_by_rows_is_told_anew(folder: LanceFolder, session: QuerySession, plans: CountedPlans):
    query = "SELECT * FROM (PIVOT docs ON n USING sum(twice(n)))"
    assert session.sql(query).columns == ["1", "2", "3"]
    folder.write("docs", {"n": [4]}, mode="append")
    assert session.sql(query).columns == ["1", "2", "3", "4"]
    assert plans.made == 0


def test_threads_ask_the_same_while_a_table_changes(folder: LanceFolder, session: QuerySession):
    def ask(number: int) -> tuple[list[str], int]:
        if number % 10 == 0:
            folder.write("docs", {"n": [0]}, mode="append")
        result = session.sql(QUERY)
        return result.types, result.fetchall()[0][0]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(40))) == [(["HUGEINT"], 12)] * 40
