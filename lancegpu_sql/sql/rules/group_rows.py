"""Calls in the keys of GROUP BY and in what aggregates read: once for each row, before it is grouped."""

from __future__ import annotations

from lancegpu_sql.sql.blocks.block import Block, Occurrence
from lancegpu_sql.sql.blocks.cut import Wanted, conjuncts, grouping_of


def group_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut between WHERE and GROUP BY."""
    if not block.aggregated:
        return None
    grouping = grouping_of(block)
    chosen = tuple(
        occurrence for occurrence in ready if occurrence.clause != "where" and not block.in_groups(occurrence, grouping)
    )
    if not chosen:
        return None
    return Wanted(chosen, "rows", "group_rows: calls before grouping", tuple(conjuncts(block.select, "where")))
