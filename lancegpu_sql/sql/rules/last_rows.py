"""Calls in the SELECT list alone: for the rows that are handed out, after ORDER BY and LIMIT where that is the same."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.occurrences import Occurrence, occurrences
from lancegpu_sql.sql.blocks.wanted import Level, Wanted, conjuncts


def last_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut before the SELECT list, with the block's end below the stage if it may go there."""
    pending = occurrences(block)
    if block.aggregated or any(call.clause != "expressions" or call.in_window for call in pending):
        return None
    if block.has_unknown and block.has("qualify", "windows", "distinct", "order", "limit", "offset"):
        return None
    chosen = tuple(occurrence for occurrence in ready if occurrence.clause == "expressions")
    if not chosen:
        return None
    level: Level = "rows" if block.has_unknown else "windows"
    parts = tuple(conjuncts(block.select, "where" if level == "rows" else "qualify"))
    if not block.has("order", "limit", "offset"):
        return Wanted(chosen, level, "last_rows: calls of the SELECT list", parts)
    if block.has("distinct") or block.expands or not _end_may_move(block):
        return Wanted(chosen, level, "last_rows: calls of the SELECT list, before ORDER BY and LIMIT", parts)
    return Wanted(chosen, level, "last_rows: calls of the SELECT list, after ORDER BY and LIMIT", parts, with_end=True)


def _end_may_move(block: Block) -> bool:
    keys = [ordered.this for order in block.clause("order") for ordered in order.expressions]
    if any(isinstance(key, exp.Var) for key in keys):
        return False  # ORDER BY ALL
    meant = [item for item in (block.item_for(key, columns_first=False) for key in keys) if item is not None]
    # A constant would be taken for a position.
    return all(block.may_be_copied(item) and item.find(exp.Column, exp.Window) is not None for item in meant)
