"""Queries of machines: long lists, many branches, many levels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planned import KNOWN, Bench

from lancegpu_sql.sql.plan import plan_query


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.connection.close()


def test_a_query_that_is_too_long_is_not_planned(bench: Bench):
    plan = bench.plan(f"SELECT f(a) FROM t WHERE id IN ({', '.join(map(str, range(5_000)))})")
    assert plan.stages == ()
    assert "too long to be planned" in plan.notes[0]


def test_calls_behind_many_branches_stay_in_place(bench: Bench):
    branches = " ".join(f"WHEN id = {number} THEN f(a + {number})" for number in range(40))
    plan = bench.plan(f"SELECT CASE {branches} END FROM t")
    assert len(plan.stages[0].calls) <= 17
    assert any("under many conditions" in note for note in plan.notes)


def test_few_operands_of_a_long_or_are_asked_before_a_call(bench: Bench):
    (stage,) = bench.plan(f"SELECT {' OR '.join(f'a = {number}' for number in range(50))} OR p(id) FROM t").stages
    assert stage.input_sql.count("IS TRUE") <= 8


def test_the_columns_of_a_deep_query_are_asked_for_a_few_times(bench: Bench):
    query = "SELECT id FROM t"
    for _ in range(12):
        query = f"SELECT f(id) AS id FROM ({query})"
    asked: list[str] = []

    def describe(text: str) -> list[tuple[str, str]]:
        asked.append(text)
        return bench.describe(text)

    assert len(plan_query(query, KNOWN, describe).stages) == 12
    assert len(asked) < 80
