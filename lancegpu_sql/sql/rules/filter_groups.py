"""Calls over groups: of HAVING after its other conditions, of the rest for the groups that passed it."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import markers_in
from lancegpu_sql.sql.blocks.occurrences import Occurrence, grouping_of, in_groups, occurrences
from lancegpu_sql.sql.blocks.wanted import Wanted, conjuncts, has_calls


def filter_groups(block: Block, ready: tuple[Occurrence, ...]) -> Wanted | None:
    """Cut after GROUP BY, once no call is left below it."""
    if not block.aggregated or block.has_unknown:
        return None
    grouping = grouping_of(block)
    calls = [
        occurrence
        for occurrence in ready
        if in_groups(block, occurrence, grouping) and not occurrence.in_window and not reads_window(occurrence)
    ]
    if any(not in_groups(block, occurrence, grouping) for occurrence in occurrences(block)):
        return None
    windowed = [occurrence for occurrence in ready if in_groups(block, occurrence, grouping) and occurrence.in_window]
    parts = conjuncts(block.select, "having")
    target = next((index for index, part in enumerate(parts) if has_calls(part, calls)), None)
    if target is not None:
        inside = tuple(part for index, part in enumerate(parts) if index < target or not markers_in(part))
        outside = tuple(part for index, part in enumerate(parts) if index >= target and markers_in(part))
        chosen = tuple(occurrence for occurrence in calls if has_calls(parts[target], [occurrence]))
        return Wanted(chosen, "groups", "filter_groups: calls of HAVING after its other conditions", inside, outside)
    chosen = tuple(windowed or calls)
    if not chosen:
        return None
    return Wanted(chosen, "groups", "filter_groups: calls for groups, after HAVING", tuple(parts))


def reads_window(occurrence: Occurrence) -> bool:
    """Whether a call, or what it depends on, reads a window's value."""
    parts = [*occurrence.call.expressions, *occurrence.conditions]
    return any(part.find(exp.Window) is not None for part in parts)
