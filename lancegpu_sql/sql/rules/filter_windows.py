"""Calls in QUALIFY: after its other conditions, for rows whose windows have been computed."""

from __future__ import annotations

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import markers_in
from lancegpu_sql.sql.blocks.occurrences import Occurrence, occurrences
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts, has_calls


def filter_windows(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut before the first condition of QUALIFY with calls that can be made."""
    if block.aggregated or block.has_unknown or any(call.in_window for call in occurrences(block)):
        return None
    calls = [occurrence for occurrence in ready if occurrence.clause == "qualify"]
    parts = conjuncts(block.select, "qualify")
    target = next((index for index, part in enumerate(parts) if has_calls(part, calls)), None)
    if target is None:
        return None
    inside = tuple(part for index, part in enumerate(parts) if index < target or not markers_in(part))
    outside = tuple(part for index, part in enumerate(parts) if index >= target and markers_in(part))
    chosen = tuple(occurrence for occurrence in calls if has_calls(parts[target], [occurrence]))
    return Wanted(chosen, "windows", "filter_windows: calls of QUALIFY after its other conditions", inside, outside)
