"""Calls that ORDER BY or DISTINCT depends on: for every row that is left, before any is dropped."""

from __future__ import annotations

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.occurrences import Occurrence, occurrences
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts, has_calls


def order_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut between QUALIFY and DISTINCT or ORDER BY."""
    if block.aggregated or block.has_unknown or any(call.in_window for call in occurrences(block)):
        return None
    keys = block.order_keys()
    chosen = tuple(
        occurrence
        for occurrence in ready
        if occurrence.clause in {"order", "distinct"}
        or block.has("distinct")
        or any(has_calls(key, [occurrence]) for key in keys)
    )
    if not chosen:
        return None
    parts = tuple(conjuncts(block.select, "qualify"))
    return Wanted(chosen, "windows", "order_rows: calls before ORDER BY or DISTINCT", parts)
