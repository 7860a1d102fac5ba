"""Calls in windows, and in the keys of DISTINCT ON: for the rows that the windows range over."""

from __future__ import annotations

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.occurrences import Occurrence
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts


def window_rows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut between WHERE and the windows."""
    if block.aggregated:
        return None
    chosen = tuple(occurrence for occurrence in ready if occurrence.in_window)
    if not chosen:
        return None
    return Wanted(chosen, "rows", "window_rows: calls before windows", tuple(conjuncts(block.select, "where")))
