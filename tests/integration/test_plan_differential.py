"""A plan gives what DuckDB gives for the text: values, names, types, and the order where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb
import pytest
import query_texts
import sqlglot
from hypothesis import HealthCheck, given, reject, settings
from planned import Bench, Seen, sorted_rows

from lancegpu_sql.sql.blocks.marked import mark
from lancegpu_sql.sql.blocks.readings import same_reading

_CORPUS = Path(__file__).with_name("plan_corpus")


def queries(name: str) -> list[str]:
    lines = (_CORPUS / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return [
        text.strip()
        for text in "\n".join(line for line in lines if not line.startswith("--")).split(";\n")
        if text.strip()
    ]


@cache
def shared_bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    yield shared_bench()
    shared_bench().connection.close()
    shared_bench.cache_clear()


def assert_same(bench: Bench, text: str) -> Seen:
    text = text.rstrip(";")
    written, planned = bench.as_written(text), bench.planned(text)
    assert (planned.names, planned.types) == (written.names, written.types)
    assert sorted_rows(planned.rows) == sorted_rows(written.rows)
    if is_ordered(text):
        assert list(map(repr, planned.rows)) == list(map(repr, written.rows))
    return planned


def is_ordered(text: str) -> bool:
    try:
        return bool(sqlglot.parse_one(text, dialect="duckdb").args.get("order"))
    except sqlglot.errors.SqlglotError:
        return False


@pytest.mark.parametrize("text", queries("lifted"))
def test_a_query_gives_the_same_with_all_calls_in_stages(bench: Bench, text: str):
    planned = assert_same(bench, text)
    assert planned.plan is not None
    assert planned.plan.stages, planned.plan.notes
    assert planned.plan.in_place == (), planned.plan.notes


@pytest.mark.parametrize("text", queries("partly"))
def test_a_query_gives_the_same_with_some_calls_in_stages(bench: Bench, text: str):
    planned = assert_same(bench, text)
    assert planned.plan is not None
    assert planned.plan.stages, planned.plan.notes
    assert planned.plan.in_place


@pytest.mark.parametrize("text", queries("in_place"))
def test_what_cannot_be_cut_is_left_as_it_is(bench: Bench, text: str):
    planned = assert_same(bench, text)
    assert planned.plan is not None
    assert planned.plan.stages == ()
    assert planned.plan.final_sql == text.rstrip(";")
    assert planned.plan.notes


@pytest.mark.parametrize("text", queries("read_alike"))
def test_what_is_written_again_is_read_alike(bench: Bench, text: str):
    text = text.rstrip(";")
    marked = mark(text, (), {})
    assert same_reading(bench.read_tree(text), bench.read_tree(marked.sql(marked.tree))), marked.sql(marked.tree)


@settings(
    max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(text=query_texts.queries())
def test_a_random_query_gives_the_same(text: str):
    bench = shared_bench()
    try:
        written = bench.as_written(text)
    except duckdb.Error:
        reject()  # a generator cannot know all that DuckDB forbids
    planned = bench.planned(text)
    assert (planned.names, planned.types) == (written.names, written.types)
    assert sorted_rows(planned.rows) == sorted_rows(written.rows), planned.plan
    if is_ordered(text):
        assert list(map(repr, planned.rows)) == list(map(repr, written.rows))
