"""TPC-H with its columns and literals handed through Functions: what DuckDB gives for the queries as they are."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import lance
import pytest
import tpch
from in_process_functions import InProcessFunctions
from lance_folder import LanceFolder
from refresh_kit import open_database, short_folder
from skips import Skip
from wrapped import Site, functions_for, sites, wrapped

from lancegpu_sql.query.session import QuerySession

FULL = os.environ.get("TEST_LENGTH") == "full"
NUMBERS = range(1, 23)
# Those that are wrapped throughout in every run: joins by calls, outer joins, subqueries in all places, a CTE, HAVING.
MANY_AT_ONCE = NUMBERS if FULL else (2, 11, 13, 16, 20, 22)
# How many calls of a query that is wrapped throughout are made in stages; the others are constants, or stand in a subquery
# that is run for each row of another query.
IN_STAGES = {
    1: 7, 2: 27, 3: 11, 4: 4, 5: 16, 6: 4, 7: 21, 8: 23, 9: 20, 10: 17, 11: 15, 12: 7, 13: 6, 14: 6, 15: 5, 16: 8, 17: 7,
    18: 12, 19: 10, 20: 15, 21: 15, 22: 8,
}  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """The tables, and DuckDB with the same."""

    folder: LanceFolder
    duckdb: duckdb.DuckDBPyConnection
    queries: dict[int, tpch.TpchQuery]

    def sites(self, number: int) -> list[Site]:
        return sites(self.queries[number].text, self.duckdb)

    def as_written(self, number: int) -> list[tuple[Any, ...]]:
        return self.duckdb.sql(self.queries[number].text).fetchall()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    folder = LanceFolder(tpch.folder())
    connection = duckdb.connect()
    for name in tpch.TABLES:
        connection.register(name, lance.dataset(str(folder.folder / f"{name}.lance")).to_table())
    try:
        queries = tpch.queries()
    except tpch.NoPackages as why:
        pytest.skip(f"{Skip.NEEDS_NETWORK}: {why}")
    yield Bench(folder, connection, {query.number: query for query in queries})
    connection.close()


@dataclass(frozen=True)
class Ran:
    """What a wrapped query gave, and how many of its calls were made in stages; `in_place` are Functions."""

    rows: list[tuple[Any, ...]]
    in_stages: int
    in_place: list[str]
    notes: str


def run(bench: Bench, text: str, chosen: Sequence[Site]) -> Ran:
    functions = InProcessFunctions()
    for function in functions_for(chosen):
        functions.add(function)
    session = QuerySession(bench.folder.snapshot, bench.folder.names, functions)
    try:
        ((_, told),) = session.explain(text, form="json").fetchall()
        plan = json.loads(told)
        rows = session.query(text).fetchall()
    finally:
        session.close()
    assert functions.rows, "no Function was called"
    return Ran(rows, sum(len(stage["calls"]) for stage in plan["stages"]), plan["in_place"], "; ".join(plan["notes"]))


def some(number: int, found: Sequence[Site], count: int) -> list[Site]:
    """As many places of a query, the same in every run; all of them in a full run."""
    return list(found) if FULL else random.Random(number).sample(list(found), min(count, len(found)))


# Generators make up addresses and comments in ways of their own; the answer of 13 counts comments.
@pytest.mark.parametrize("number", [number for number in NUMBERS if number != 13])
def test_a_query_as_it_is_gives_the_answer_of_the_benchmark(bench: Bench, number: int):
    names, *answer = [line.split("|") for line in bench.queries[number].answer.splitlines()]
    made_up = [name.endswith(("_address", "_comment")) for name in names]
    rows = bench.as_written(number)
    assert len(rows) == len(answer)
    for row, expected in zip(rows, answer, strict=True):
        assert all(map(is_said, row, expected, made_up)), (row, expected)


def is_said(value: Any, text: str, made_up: bool) -> bool:
    if made_up or str(value) == text:
        return True
    return not isinstance(value, str) and float(value) == pytest.approx(float(text))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_gives_the_same_with_one_of_its_values_wrapped(bench: Bench, number: int):
    expected = bench.as_written(number)
    for site in some(number, bench.sites(number), 1):
        ran = run(bench, wrapped(bench.queries[number].text, [site]), [site])
        assert ran.rows == expected, site
        if site.is_column and site.in_first_block:
            assert ran.in_stages or "is read elsewhere too" in ran.notes, site


@pytest.mark.parametrize("number", MANY_AT_ONCE)
def test_a_query_gives_the_same_with_all_its_values_wrapped(bench: Bench, number: int):
    chosen = bench.sites(number)
    ran = run(bench, wrapped(bench.queries[number].text, chosen), chosen)
    assert ran.rows == bench.as_written(number)
    assert ran.in_stages >= IN_STAGES[number]


@pytest.mark.parametrize("number", NUMBERS if FULL else (1, 13, 15, 18))
def test_a_query_gives_the_same_with_calls_in_place(bench: Bench, number: int):
    expected = bench.as_written(number)
    # Not where tables are joined: DuckDB does not join by what it may not move.
    of_rows = [site for site in bench.sites(number) if site.clause in {"expressions", "group", "order"}]
    chosen = [site for site in of_rows if not site.in_condition]
    places = ", ".join(f"#{place}" for place in range(1, len(expected[0]) + 1))
    text = wrapped(bench.queries[number].text, chosen).strip().removesuffix(";")
    ran = run(bench, f"SELECT {places} FROM ({text})", chosen)  # by their places: only DuckDB reads such a query
    assert ran.rows == expected
    assert ran.in_stages == 0
    assert ran.in_place


@pytest.mark.parametrize("number", [11])
def test_a_query_gives_the_same_with_workers(bench: Bench, number: int):
    kinds = {"BIGINT", "DECIMAL(15,2)"}
    chosen = [site for site in bench.sites(number) if site.kind in kinds]
    with short_folder() as folder, open_database(folder) as db:
        for name in ("partsupp", "supplier", "nation"):
            db.create_table(name, lance.dataset(str(bench.folder.folder / f"{name}.lance")).to_table())
        for function in functions_for(chosen):
            db.create_function(function)
        rows = db.sql(wrapped(bench.queries[number].text, chosen)).fetchall()
        assert rows == bench.as_written(number)
        assert db.list_jobs(limit=1)[0].kind == "query"
