"""Calls in WHERE: after the conditions that call nothing, one expensive condition after the other.

Each sees only the rows that passed those before it.
"""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import markers_in
from lancegpu_sql.sql.blocks.occurrences import Occurrence
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts, has_calls


def filter_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut before the first condition of WHERE with calls that can be made."""
    calls = [occurrence for occurrence in ready if occurrence.clause == "where"]
    parts = conjuncts(block.select, "where")
    target = next((index for index, part in enumerate(parts) if has_calls(part, calls)), None)
    if target is None:
        return None
    inside: list[exp.Expr] = []
    outside: list[exp.Expr] = []
    for index, part in enumerate(parts):
        stays = (index >= target and bool(markers_in(part))) or block.calls_for_each_row(part)
        (outside if stays else inside).append(part)
    chosen = tuple(occurrence for occurrence in calls if has_calls(parts[target], [occurrence]))
    return Wanted(
        chosen, "rows", "filter_rows: calls of a WHERE after its other conditions", tuple(inside), tuple(outside)
    )
