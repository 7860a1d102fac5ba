"""What a plan promises beyond giving the same: how many rows are computed, and what stays as it was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planned import COMPUTED, KNOWN, Bench

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.plan import plan_query


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.connection.execute(
        "CREATE TABLE many AS SELECT i AS id, i % 10 AS a, i % 2 = 0 AS even FROM range(1000) r(i)"
    )
    yield bench
    bench.connection.close()


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("SELECT f(a) FROM many", {"f": 1000}),
        ("SELECT f(a), f(a) + 1, g(f(a)) FROM many WHERE f(a) > 0", {"f": 1000, "g": 1000}),
        ("SELECT id FROM many WHERE p(id) AND id < 100", {"p": 100}),
        ("SELECT id FROM many WHERE p(id) AND f(a) > 3 AND even", {"p": 500, "f": 0}),
        ("SELECT f(id) FROM many LIMIT 10", {"f": 10}),
        ("SELECT f(id) FROM many ORDER BY id DESC LIMIT 10 OFFSET 5", {"f": 10}),
        ("SELECT f(id) FROM many ORDER BY f(a) LIMIT 10", {"f": 1010}),
        ("SELECT CASE WHEN even THEN f(id) ELSE g(id) END FROM many", {"f": 500, "g": 500}),
        ("SELECT CASE WHEN a = 0 THEN f(id) WHEN a = 1 THEN 3 ELSE f(id) END FROM many", {"f": 900}),
        ("SELECT coalesce(nullif(a, 3), f(id)) FROM many", {"f": 100}),
        ("SELECT sum(f(id)) FILTER (WHERE a = 1) FROM many", {"f": 100}),
        ("SELECT f(a), count(*) FROM many GROUP BY a", {"f": 10}),
        ("SELECT a FROM many GROUP BY a HAVING a < 5 AND p(sum(id))", {"p": 5}),
        ("SELECT f(id) FROM many QUALIFY row_number() OVER (PARTITION BY a ORDER BY id) = 1", {"f": 10}),
        ("SELECT f(x.id) FROM many x JOIN u ON x.id = u.id WHERE u.c > 20", {"f": 4}),
        ("SELECT v FROM (SELECT id, f(a) AS v FROM many) WHERE id < 7", {"f": 7}),
        ("SELECT x.id FROM many x LEFT JOIN u ON f(x.a) = u.id WHERE x.id < 20", {"f": 20}),
        ("SELECT nd(id), nd(id) FROM many WHERE even", {"nd": 1000}),
        ("SELECT x.v FROM (SELECT id, f(a) AS v FROM many) x, (SELECT 1) LIMIT 1", {"f": 1000}),
    ],
)
def test_no_row_is_computed_that_is_not_needed(bench: Bench, text: str, calls: dict[str, int]):
    assert dict(bench.planned(text).calls) == calls


def test_a_fresh_column_is_read_without_a_call(bench: Bench):
    seen = bench.planned("SELECT f(a) FROM docs WHERE f(a) > 1 ORDER BY f(a)", COMPUTED)
    assert seen.plan is not None
    assert (seen.plan.stages, seen.plan.in_place) == ((), ())
    assert seen.rows == bench.as_written("SELECT f(a) FROM docs WHERE f(a) > 1 ORDER BY f(a)").rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT f(a) FROM docs GROUP BY f(a)",
        "SELECT f(a) AS k, sum(f(a)) FROM docs GROUP BY k HAVING f(a) > 1",
        "SELECT f(a) FROM docs GROUP BY a",
        "SELECT x.fa, f(x.a), g(x.a) FROM docs x JOIN docs y ON f(x.a) = y.id",
        "SELECT f(docs.a), u.id FROM u LEFT JOIN docs ON u.id = docs.id",
        "SELECT f(docs.a), u.id FROM docs LEFT JOIN u ON u.id = docs.id",
        "WITH docs AS (SELECT id AS a, id AS fa FROM t) SELECT f(a) FROM docs",
        "SELECT f(b) FROM docs AS x(i, b, a)",
        "SELECT f(a) FROM (SELECT id AS a, 3 AS fa FROM docs)",
        "SELECT (SELECT max(f(a)) FROM docs WHERE docs.id = t.id) FROM t",
        "SELECT f(a) FROM docs UNION SELECT f(id) FROM docs",
        "SELECT CASE WHEN pa THEN f(a) END, p(a) FROM docs",
        "SELECT nul(b), nul(b) + 1, f(a) FROM docs WHERE nul(b) > 1",
        "SELECT d.id, nul(d.b) FROM docs d JOIN u USING (id) ORDER BY nul(d.b), u.c",
        "SELECT *, nul(b) FROM docs",
        "SELECT docs, nul(b) FROM docs",
        "SELECT nul(x.b) FROM docs x LEFT JOIN docs y ON nul(x.b) = nul(y.b)",
        "SELECT sum(nul(b)), nul(b) AS k FROM docs GROUP BY k",
        "SELECT nul(b) FROM docs UNION ALL SELECT id FROM docs",
        "SELECT v FROM (SELECT nul(b) AS v, id FROM docs) WHERE id > 2",
    ],
)
def test_reading_computed_columns_changes_nothing(bench: Bench, text: str):
    written, planned = bench.as_written(text), bench.planned(text, COMPUTED)
    assert (planned.names, planned.types) == (written.names, written.types)
    assert sorted(map(repr, planned.rows)) == sorted(map(repr, written.rows))


def test_only_rows_that_are_out_of_date_are_computed(bench: Bench):
    seen = bench.planned("SELECT nul(b) FROM docs WHERE id > 2 AND nul(b) > 1", COMPUTED)
    assert dict(seen.calls) == {"nul": 2}


def test_a_query_without_calls_is_left_as_it_is(bench: Bench):
    plan = plan_query("SELECT  a FROM t -- note", KNOWN, bench.describe)
    assert (plan.stages, plan.final_sql, plan.in_place) == ((), "SELECT  a FROM t -- note", ())


def test_conditions_that_a_call_needs_come_before_it(bench: Bench):
    rows = bench.planned("SELECT id FROM t WHERE picky(b) > 2 AND b <> 0").rows
    assert rows == bench.as_written("SELECT id FROM t WHERE CASE WHEN b <> 0 THEN picky(b) > 2 END").rows


def test_a_filter_of_an_aggregate_protects_its_argument(bench: Bench):
    assert bench.planned("SELECT sum(picky(b)) FILTER (WHERE b <> 0) FROM t").rows == [(3 * 3 + 10 - 2 * 5 + 1,)]


def test_what_duckdb_refuses_is_refused(bench: Bench):
    with pytest.raises(InvalidQuery, match="missing"):
        bench.plan("SELECT f(missing) FROM t")


def test_a_prefix_that_stands_in_the_query_is_not_used(bench: Bench):
    plan = bench.plan("SELECT f(a) AS lancegpu_stage_1 FROM t")
    assert [stage.name for stage in plan.stages] == ["lancegpu___stage_1"]


def test_parameters_get_numbers(bench: Bench):
    plan = bench.plan("SELECT f(a), ? FROM t WHERE b > ?")
    assert "b > $2" in plan.stages[0].input_sql
    assert "$1" in plan.final_sql


def test_deep_nesting_is_left_in_place_or_planned(bench: Bench):
    text = f"SELECT {'f(' * 60}a{')' * 60} FROM t"
    assert bench.plan(text).final_sql
