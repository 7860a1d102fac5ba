"""Calls in ON: as conditions of WHERE where the join is an inner one, else as columns of the side whose row they read.

Either gives what the condition gives, for each pair of rows; a pair is more than a row of one side, and the rows that pass
the other conditions are fewer than all pairs.
"""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_marker, markers_in
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.sides import calls_of_one_source, is_filter, may_stand_before, put_before
from lancegpu_sql.sql.blocks.sources import Sources, on_calls
from lancegpu_sql.sql.blocks.wanted import Names, conjuncts, conjuncts_of
from lancegpu_sql.sql.names import fold


def join_sides(select: exp.Select, sources: Sources, marked: Marked, names: Names) -> bool:
    """Take the calls out of the joins' conditions of one block; False where there was nothing to do."""
    joins = [join for join in select.args.get("joins") or [] if any(map(is_marker, on_calls(join)))]
    moved = [_to_where(select, join, marked) for join in joins]
    sides = [_to_sides(select, join, sources, marked, names) for join in joins]
    return any(moved) or any(sides)


def _to_where(select: exp.Select, join: exp.Join, marked: Marked) -> bool:
    """Move the conditions with calls of an inner join that has another condition to join by."""
    joins = select.args["joins"]
    later = joins[next(index for index, other in enumerate(joins) if other is join) + 1 :]
    if not _is_inner(join) or not all(_keeps_left(other) for other in later):
        return False
    parts = conjuncts_of(join.args["on"])
    stays = [part for part in parts if not markers_in(part)]
    steady = all(map(marked.is_deterministic, markers_in(join.args["on"])))
    if not steady or not any(isinstance(part, exp.EQ) for part in stays):
        return False
    join.set("on", exp.and_(*stays, copy=True))
    select.where(*(part.copy() for part in parts if markers_in(part)), copy=False, append=True)
    return True


def _to_sides(select: exp.Select, join: exp.Join, sources: Sources, marked: Marked, names: Names) -> bool:
    done = False
    for call, owner in calls_of_one_source(join.args["on"], sources, marked):
        if may_stand_before(select, sources, owner):
            filters = _filters(select, join, sources, owner)
            put_before(select, sources, owner, call, marked, names, filters)
            done = True
    return done


def _filters(select: exp.Select, join: exp.Join, sources: Sources, alias: str) -> list[exp.Expr]:
    """The conditions that every row of a source must pass to be of use, and that call nothing."""
    node = sources.nodes[alias]
    parts = list(conjuncts(select, "where")) if not sources.may_be_null(alias) else []
    if fold(join.method or "") == "" and (_is_inner(join) or (fold(join.side or "") == "left" and join.this is node)):
        parts += conjuncts_of(join.args["on"])
    return [part for part in parts if is_filter(part, sources, alias)]


def _is_inner(join: exp.Join) -> bool:
    plain = not join.side and not join.method and fold(join.kind or "") in {"", "inner"}
    return plain and join.args.get("on") is not None and not join.args.get("using")


def _keeps_left(join: exp.Join) -> bool:
    """Whether each row from the left comes out unchanged, or not at all whatever it is."""
    return fold(join.side or "") in {"", "left"} and fold(join.method or "") in {"", "asof"}
