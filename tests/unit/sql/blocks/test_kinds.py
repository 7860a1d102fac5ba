"""The planner's lists of DuckDB's functions are DuckDB's own."""

from __future__ import annotations

import re

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from lancegpu_sql.sql.blocks.dialect import Written
from lancegpu_sql.sql.blocks.kinds import (
    AGGREGATES,
    VOLATILE,
    is_aggregate,
    is_expanding,
    is_star,
    is_unknown,
    same_key,
)
from lancegpu_sql.sql.blocks.readings import FUNCTION_ALIASES

_FUNCTIONS = "SELECT DISTINCT function_name, {} FROM duckdb_functions() WHERE {} AND function_name SIMILAR TO '[a-z].*'"


def duckdb_says(what: str, where: str) -> dict[str, str]:
    with duckdb.connect() as connection:
        return dict(connection.sql(_FUNCTIONS.format(what, where)).fetchall())


def test_every_aggregate_of_duckdb_is_known_as_one():
    found = set(duckdb_says("'x'", "function_type = 'aggregate'"))
    bodies = duckdb_says("macro_definition", "function_type = 'macro' AND macro_definition IS NOT NULL")
    grown = True
    while grown:
        calls = re.compile(rf"\b({'|'.join(sorted(found))})\(")
        more = {name for name, body in bodies.items() if calls.search(body)} - found
        # These fold over a list, whose elements an aggregate reads.
        grown = bool(more := {name for name in more if not name.startswith(("list_", "array_"))})
        found |= more
    assert found - AGGREGATES == set()


def test_every_volatile_function_of_duckdb_is_known_as_one():
    assert set(duckdb_says("'x'", "stability = 'VOLATILE'")) - VOLATILE == set()


def test_other_names_of_functions_are_duckdb_s():
    found = duckdb_says("alias_of", "alias_of IS NOT NULL")
    assert {name: FUNCTION_ALIASES.get(name) for name in found} == found


def expression(text: str) -> exp.Expr:
    select = sqlglot.parse_one(f"SELECT {text}", dialect=Written)
    found = select.expressions[0]
    assert isinstance(found, exp.Expr)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "sum(a)",
        "max_by(a, b)",
        "string_agg(a, ',' ORDER BY b)",
        "count(*)",
        "sum(a) FILTER (WHERE b)",
        "list(a)",
        "quantile_cont(0.5) WITHIN GROUP (ORDER BY a)",
        "approx_top_k(a, 3)",
        "json_group_array(a)",
    ],
)
def test_an_aggregate_is_told(text: str):
    assert is_aggregate(expression(text))


@pytest.mark.parametrize("text", ["sum(a) OVER ()", "sum(a) FILTER (WHERE b) OVER ()"])
def test_the_function_of_a_window_is_no_aggregate(text: str):
    window = expression(text)
    assert not any(is_aggregate(node) for node in window.walk())


def test_an_aggregate_inside_a_window_is_one():
    assert sum(is_aggregate(node) for node in expression("sum(sum(a)) OVER ()").walk()) == 1


@pytest.mark.parametrize(
    ("text", "star"), [("*", True), ("t.*", True), ("columns('a') + 1", True), ("count(*)", False), ("a", False)]
)
def test_a_star_stands_for_several_columns_but_not_in_count(text: str, star: bool):
    assert is_star(expression(text)) is star


def test_a_macro_is_unknown():
    assert is_unknown(expression("my_macro(a)"))
    assert not is_unknown(expression("list_grade_up(a)"))


def test_unnest_gives_several_rows():
    assert is_expanding(expression("unnest(a)"))


def test_names_are_compared_without_their_case():
    assert same_key(expression('T.A + upper("b")')) == same_key(expression("t.a + upper(B)"))
    assert same_key(expression("a")) != same_key(expression("'a'"))
