"""Conditions with calls in WHERE that join sources which nothing else joins: their calls are made before the join.

After it they would be made for each pair of rows, and there is nothing to join by. Where other conditions join the same
sources, these come first, and the calls see only what is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import has_subquery, markers_in, own_nodes
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.sides import calls_of_one_source, is_filter, may_be_cte, may_stand_before, put_before
from lancegpu_sql.sql.blocks.sources import Sources
from lancegpu_sql.sql.blocks.wanted import Names, conjuncts, conjuncts_of
from lancegpu_sql.sql.names import fold


def join_keys(
    select: exp.Select, sources: Sources, marked: Marked, names: Names, around: tuple[exp.Select, Sources] | None
) -> bool:
    """Take the calls out of the conditions that join the sources of one block; False where there was nothing to do.

    Parameters
    ----------
    around
        The query for each of whose rows the block is run, where it is: it is joined to the block's sources as well.
    """
    joined = _Joined(sources)
    for join in select.args.get("joins") or []:
        _note_join(join, sources, joined)
    parts = conjuncts(select, "where")
    for part in parts:
        if not markers_in(part) and not isinstance(part, (exp.NEQ, exp.Not)):
            joined.together(_owners(part, sources, around))
    done = False
    for part in parts:
        if markers_in(part) and not has_subquery(part) and joined.apart(_owners(part, sources, around)):
            places = _places(part, select, sources, marked, around)
            for call, (block, of_block, owner) in places:
                filters = [other for other in conjuncts(block, "where") if is_filter(other, of_block, owner)]
                put_before(block, of_block, owner, call, marked, names, filters, once=block is select and bool(around))
            done = done or bool(places)
    return done


_Place = tuple[exp.Select, Sources, str]


def _places(
    part: exp.Expr, select: exp.Select, sources: Sources, marked: Marked, around: tuple[exp.Select, Sources] | None
) -> list[tuple[exp.Anonymous, _Place]]:
    """The calls of a condition, each with the block and the source where it can be made; none where one cannot."""
    found: list[tuple[exp.Anonymous, _Place]] = []
    for call, owner in calls_of_one_source(part, sources, marked):
        found.append((call, (select, sources, owner)))
    if around is not None:
        for call, owner in calls_of_one_source(part, around[1], marked):
            if all(sources.owner(column) is None for column in call.find_all(exp.Column)):
                found.append((call, (*around, owner)))
    calls = [call for call in markers_in(part) if call.find(exp.Column)]
    if len(found) < len(calls):
        return []
    for _, (block, of_block, owner) in found:
        if not may_stand_before(block, of_block, owner) or of_block.may_be_null(owner):
            return []
        if around and block is select and not may_be_cte(block, of_block, owner):
            return []
    return found


_OUTER = ""  # stands for the sources of the query around


class _Joined:
    """Which sources are joined, at once or through others, by conditions without calls."""

    def __init__(self, sources: Sources) -> None:
        self._group = {alias: alias for alias in (*sources.nodes, _OUTER)}

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
            joined.together(_owners(part, sources, None) | (right if join.side else set()))
    elif (
        join.args.get("using")
        or fold(join.method or "")
        or join.side
        or not isinstance(join.this, (exp.Table, exp.Subquery))
    ):
        # What it is joined to is not worth finding out: nothing is lost but what this rule would gain.
        joined.together(sources.nodes)


def _owners(part: exp.Expr, sources: Sources, around: tuple[exp.Select, Sources] | None) -> set[str]:
    """The sources that a condition reads outside of subqueries, those of the query around as one."""
    found: set[str] = set()
    for column in own_nodes(part):
        owner = sources.owner(column)
        if owner is not None:
            found.add(owner)
        elif around is not None and around[1].owner(column) is not None:
            found.add(_OUTER)
    return found
