"""Which queries are known to read all rows before they give one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planned import Bench


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.connection.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(f(a)) FROM t",
        "SELECT sum(f(a)) FROM t LIMIT 1",
        "SELECT b, count(*) FROM t WHERE f(a) > 1 GROUP BY b",
        "SELECT a FROM t ORDER BY f(a) LIMIT 3",
    ],
)
def test_one_that_groups_or_sorts_reads_all(bench: Bench, query: str):
    assert bench.plan(query).reads_all


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f(a) FROM t",
        "SELECT f(a) FROM t LIMIT 3",
        "SELECT sum(v) FROM (SELECT f(a) AS v FROM t LIMIT 3)",
        "SELECT sum(a) FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE f(u.a) > 1)",
        "SELECT max(f(t.a)) FROM t JOIN t AS u ON t.a = u.b",
        "SELECT sum(f(a)) FROM t UNION ALL SELECT f(b) FROM t",
        "SELECT f(a), sum(f(a)) OVER () FROM t",
    ],
)
def test_of_any_other_that_is_not_known(bench: Bench, query: str):
    assert not bench.plan(query).reads_all
