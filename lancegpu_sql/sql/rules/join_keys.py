"""Conditions with calls in WHERE that join sources which nothing else joins: their calls are made before the join.

After it they would be made for each pair of rows, and there is nothing to join by. Where other conditions join the same
sources, these come first, and the calls see only what is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from lancegpu_sql.sql.blocks.cut import Names, conjuncts, conjuncts_of
from lancegpu_sql.sql.blocks.kinds import has_subquery, markers_in
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.sides import calls_of_one_source, is_filter, may_stand_before, put_before
from lancegpu_sql.sql.blocks.sources import Sources
from lancegpu_sql.sql.names import fold


def join_keys(select: exp.Select, sources: Sources, marked: Marked, names: Names) -> bool:
    """Take the calls out of the conditions that join the sources of one block; False where there was nothing to do."""
    joined = _Joined(sources)
    for join in select.args.get("joins") or []:
        _note_join(join, sources, joined)
    parts = conjuncts(select, "where")
    for part in parts:
        if not markers_in(part):
            joined.together(_owners(part, sources))
    done = False
    for part in parts:
        owners = _owners(part, sources)
        if markers_in(part) and not has_subquery(part) and joined.apart(owners):
            calls = calls_of_one_source(part, sources, marked)
            if len(calls) < len(markers_in(part)) or not all(
                may_stand_before(select, sources, owner) and not sources.may_be_null(owner) for _, owner in calls
            ):
                continue
            for call, owner in calls:
                filters = [other for other in parts if is_filter(other, sources, owner)]
                put_before(select, sources, owner, call, marked, names, filters)
            joined.together(owners)
            done = True
    return done


class _Joined:
    """Which sources are joined, at once or through others."""

    def __init__(self, sources: Sources) -> None:
        self._group = {alias: alias for alias in sources.nodes}

    def together(self, aliases: Iterable[str]) -> None:
        groups = {self._group[alias] for alias in aliases}
        if groups:
            first = min(groups)
            self._group = {alias: first if group in groups else group for alias, group in self._group.items()}

    def apart(self, aliases: Iterable[str]) -> bool:
        return len({self._group[alias] for alias in aliases}) > 1


def _note_join(join: exp.Join, sources: Sources, joined: _Joined) -> None:
    on = join.args.get("on")
    right = {alias for alias, node in sources.nodes.items() if node is join.this}
    if on is not None:
        for part in conjuncts_of(on):
            joined.together(_owners(part, sources) | (right if join.side else set()))
    elif (
        join.args.get("using")
        or fold(join.method or "")
        or join.side
        or not isinstance(join.this, (exp.Table, exp.Subquery))
    ):
        # What it is joined to is not worth finding out: nothing is lost but what this rule would gain.
        joined.together(sources.nodes)


def _owners(part: exp.Expr, sources: Sources) -> set[str]:
    found = {sources.owner(column) for column in part.find_all(exp.Column)}
    return {owner for owner in found if owner is not None}
