"""Conditions with a subquery that calls Functions for each row: after the conditions that do not.

Functions in such a subquery are called in place. DuckDB then runs it for every row that FROM gives, duplicates too, and
moves no other condition before it, not even one that joins.
"""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.occurrences import Occurrence
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts


def before_subqueries(block: Block, _ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut before the first of these conditions; the stage makes no calls."""
    inside: list[exp.Expr] = []
    outside: list[exp.Expr] = []
    for part in conjuncts(block.select, "where"):
        (outside if block.calls_for_each_row(part) else inside).append(part)
    if not outside or not inside:
        return None
    rule = "before_subqueries: other conditions before a subquery that calls for each row"
    return Wanted((), "rows", rule, tuple(inside), tuple(outside))
