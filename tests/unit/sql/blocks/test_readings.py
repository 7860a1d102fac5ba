"""Texts that DuckDB reads as the same query, and texts that it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planned import Bench

from lancegpu_sql.sql.blocks.readings import same_reading


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.connection.close()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a  -- note\nFROM t", "select a from t"),
        ("SELECT a IS NOT NULL", "SELECT NOT a IS NULL"),
        ("SELECT if(a, b, c)", "SELECT CASE WHEN a THEN b ELSE c END"),
        ("FROM t, u", "FROM t JOIN u ON TRUE"),
        ("SELECT max_by(a, b), list(a)", "SELECT arg_max(a, b), array_agg(a)"),
        ("SELECT a::text, a ** 2", "SELECT CAST(a AS VARCHAR), power(a, 2)"),
        ("SELECT INTERVAL 3 DAY", "SELECT INTERVAL '3' DAY"),
        ("FROM range(5)", "FROM range(0, 5)"),
    ],
)
def test_forms_of_one_query_are_the_same(bench: Bench, one: str, other: str):
    assert same_reading(bench.read_tree(one), bench.read_tree(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a ORDER BY b NULLS LAST", "SELECT a ORDER BY b"),
        ("SELECT 'a'\n'b'", "SELECT concat('a', 'b')"),
        ("SELECT a - b - c", "SELECT a - (b - c)"),
        ("SELECT '3'", "SELECT 3"),
        ("SELECT a FROM t LEFT JOIN u ON TRUE", "SELECT a FROM t, u"),
        ("SELECT main.list(a)", "SELECT array_agg(a)"),
        ("SELECT a AS b", "SELECT a AS c"),
        ("SELECT CAST(a AS INTEGER)", "SELECT TRY_CAST(a AS INTEGER)"),
    ],
)
def test_other_queries_are_not(bench: Bench, one: str, other: str):
    assert not same_reading(bench.read_tree(one), bench.read_tree(other))


def test_what_sqlglot_misreads_is_left_in_place(bench: Bench):
    plan = bench.plan("SELECT f(a) FROM t WHERE 'x'\n'1' = s")
    assert plan.stages == ()
    assert plan.notes == ("in place: f, since this SQL is understood by DuckDB alone",)
