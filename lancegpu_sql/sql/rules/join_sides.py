"""Calls in ON: as conditions of WHERE where the join is an inner one, else as columns of the side whose row they read.

Either gives what the condition gives, for each pair of rows; a pair is more than a row of one side, and the rows that pass
the other conditions are fewer than all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.cut import Names, conjuncts, conjuncts_of
from lancegpu_sql.sql.blocks.kinds import has_subquery, is_marker, is_unknown, is_volatile, markers_in, own_nodes
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.sources import Sources, mentioned, on_calls, takes_all
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
    for node in on_calls(join):
        if is_marker(node) and _is_plain(node, join) and marked.is_deterministic(_call(node)):
            owners = {sources.owner(column) for column in node.find_all(exp.Column)}
            owner = owners.pop() if len(owners) == 1 else None
            if owner is not None and _may_stand_before(select, sources, owner):
                filters = _filters(select, join, sources, owner)
                _put_before(select, sources, owner, node, names, filters)
                done = True
    return done


def _call(node: exp.Expr) -> exp.Anonymous:
    assert isinstance(node, exp.Anonymous)
    return node


def _is_plain(node: exp.Expr, join: exp.Join) -> bool:
    """Whether a call is reached for every pair of rows, and depends on nothing but its columns."""
    if has_subquery(node) or is_volatile(node) or any(map(is_unknown, own_nodes(node))):
        return False
    parent = node.parent
    while parent is not join and parent is not None:
        if isinstance(parent, (exp.Case, exp.If, exp.Coalesce, exp.Try, exp.Lambda, exp.Comprehension)) or is_marker(
            parent
        ):
            return False
        parent = parent.parent
    return parent is join


def _may_stand_before(select: exp.Select, sources: Sources, alias: str) -> bool:
    node = sources.nodes[alias]
    if not isinstance(node, (exp.Table, exp.Subquery)) or not isinstance(node.parent, (exp.From, exp.Join)):
        return False
    if not node.alias_or_name:
        return False
    table_alias = node.args.get("alias")
    if table_alias is not None and table_alias.args.get("columns"):
        return False
    if (isinstance(node, exp.Table) and (node.db or not isinstance(node.this, exp.Identifier))) or node.args.get(
        "joins"
    ):
        return False
    natural = any(fold(join.method or "") == "natural" for join in select.args.get("joins") or [])
    return not natural and not takes_all(select, alias)


def _filters(select: exp.Select, join: exp.Join, sources: Sources, alias: str) -> list[exp.Expr]:
    """The conditions that every row of a source must pass to be of use, and that call nothing."""
    node = sources.nodes[alias]
    parts = list(conjuncts(select, "where")) if not sources.may_be_null(alias) else []
    if fold(join.method or "") == "" and (_is_inner(join) or (fold(join.side or "") == "left" and join.this is node)):
        parts += conjuncts_of(join.args["on"])
    return [part for part in parts if _is_filter(part, sources, alias)]


def _is_filter(part: exp.Expr, sources: Sources, alias: str) -> bool:
    columns = list(part.find_all(exp.Column))
    if not columns or any(sources.owner(column) != alias for column in columns):
        return False
    plain = not has_subquery(part) and not is_volatile(part) and not markers_in(part)
    return plain and part.find(exp.Lambda, exp.Comprehension) is None


def _put_before(
    select: exp.Select, sources: Sources, alias: str, call: exp.Expr, names: Names, filters: Sequence[exp.Expr]
) -> None:
    """Make a call a column of a source, which becomes a query of the columns that the block may read."""
    node = sources.nodes[alias]
    result = names.new("in")
    inner = node.this if isinstance(node, exp.Subquery) and node.meta.get("lancegpu_side") else None
    if inner is None:
        wanted = sorted((sources.names(alias) or frozenset()) & mentioned(select))
        columns: list[exp.Expr] = [exp.column(name, quoted=True) for name in wanted]
        inner = exp.Select(expressions=columns, from_=exp.From(this=node.copy()))
        if filters:
            inner.set("where", exp.Where(this=exp.and_(*filters, copy=True)))
        side = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True)))
        side.meta["lancegpu_side"] = True
        node.replace(side)
        sources.nodes[alias] = side
    inner.append("expressions", exp.alias_(call.copy(), result))
    call.replace(exp.column(result, table=exp.to_identifier(node.alias_or_name, quoted=True)))


def _is_inner(join: exp.Join) -> bool:
    plain = not join.side and not join.method and fold(join.kind or "") in {"", "inner"}
    return plain and join.args.get("on") is not None and not join.args.get("using")


def _keeps_left(join: exp.Join) -> bool:
    """Whether each row from the left comes out unchanged, or not at all whatever it is."""
    return fold(join.side or "") in {"", "left"} and fold(join.method or "") in {"", "asof"}
