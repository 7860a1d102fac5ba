"""Calls in the keys of GROUP BY and in what aggregates read: once for each row, before it is grouped."""

from __future__ import annotations

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.occurrences import Occurrence, grouping_of, in_groups
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts


def group_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut between WHERE and GROUP BY."""
    if not block.aggregated:
        return None
    grouping = grouping_of(block)
    chosen = tuple(
        occurrence
        for occurrence in ready
        if occurrence.clause != "where" and not in_groups(block, occurrence, grouping)
    )
    if not chosen:
        return None
    return Wanted(chosen, "rows", "group_rows: calls before grouping", tuple(conjuncts(block.select, "where")))
