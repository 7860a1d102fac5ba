"""Queries without FROM beside a row, ``(SELECT f(t.x))`` and ``LATERAL (SELECT f(t.x) AS v)``: expressions of that row.

DuckDB joins all rows to what such a query gives before it hands out the first; written out, the calls are the block's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import CLAUSES
from lancegpu_sql.sql.blocks.kinds import (
    has_subquery,
    is_aggregate,
    is_expanding,
    is_star,
    is_volatile,
    markers_in,
    named,
    own_nodes,
)
from lancegpu_sql.sql.blocks.sources import Sources, mentioned
from lancegpu_sql.sql.names import fold

IsDeterministic = Callable[[exp.Anonymous], bool]


def has_rowless(select: exp.Select) -> bool:
    """Whether a block has such queries with calls."""
    return bool(_scalars(select)) or any(_rowless(join.this) for join in select.args.get("joins") or [])


def write_out_rowless(select: exp.Select, sources: Sources, is_deterministic: IsDeterministic) -> None:
    """Write out those of a block that mean the same as their expressions; its items must have their names already."""
    for node in _scalars(select):
        query = node.this
        if len(query.expressions) == 1 and _may_be_written_out(query.expressions, is_deterministic):
            meant = _in_terms_of_sources(query.expressions[0].unalias(), sources)
            if meant is not None:
                node.replace(exp.Paren(this=meant))
    for join in reversed(select.args.get("joins") or []):
        query = _rowless(join.this)
        if query is not None and _may_be_written_out(query.expressions, is_deterministic):
            _write_out_join(select, join, query, sources)


def _scalars(select: exp.Select) -> list[exp.Subquery]:
    found = []
    for key in CLAUSES:
        value = select.args.get(key)
        for root in value if isinstance(value, list) else [value]:
            if isinstance(root, exp.Expr) and key not in {"from_", "joins", "laterals", "with_"}:
                found += [node for node in own_nodes(root) if isinstance(node, exp.Subquery) and _rowless(node)]
    return [node for node in found if not isinstance(node.parent, (exp.In, exp.Any, exp.All, exp.Exists))]


def _rowless(source: exp.Expr) -> exp.Select | None:
    """The SELECT without a FROM, with calls, that a query in brackets is."""
    inside = source.this if isinstance(source, exp.Lateral) else source
    query = inside.this if isinstance(inside, exp.Subquery) else None
    plain = isinstance(query, exp.Select) and not any(
        value for key, value in query.args.items() if key not in {"expressions", "kind"}
    )
    return query if isinstance(query, exp.Select) and plain and markers_in(query) else None


def _may_be_written_out(items: Sequence[exp.Expr], is_deterministic: IsDeterministic) -> bool:
    """Whether items give one value for each row, the same each time, and are no constants, which keys would take for places."""
    for item in items:
        nodes = list(own_nodes(item))
        if is_star(item) or is_volatile(item) or has_subquery(item) or item.find(exp.Column) is None:
            return False
        if any(is_aggregate(node) or is_expanding(node) for node in nodes):
            return False
        if any(isinstance(node, (exp.Window, exp.Lambda, exp.Comprehension)) for node in nodes):
            return False
    return all(is_deterministic(marker) for item in items for marker in markers_in(item))


def _in_terms_of_sources(expression: exp.Expr, sources: Sources) -> exp.Expr | None:
    """An expression whose columns all say of which source they are; None where that cannot be told."""
    copy = expression.copy()
    for column in list(copy.find_all(exp.Column)):
        name, table = fold(column.name), fold(column.table)
        owners = [table] if table in sources.nodes else []
        if not table:
            owners = [alias for alias in sources.nodes if name in (sources.names(alias) or ())]
        if len(owners) != 1 or len(column.parts) > 2:
            return None
        column.set("table", exp.to_identifier(owners[0], quoted=True))
    return copy


def _write_out_join(select: exp.Select, join: exp.Join, query: exp.Select, sources: Sources) -> None:
    joins = list(select.args["joins"])
    names = _names(query, join.this.args.get("alias"))
    source = fold(join.this.alias_or_name) or _UNNAMED
    if names is None or not _is_simple(select, join) or not _stars_fit(select, source, is_last=joins[-1] is join):
        return
    meant = {}
    for name, item in zip(names, query.expressions, strict=True):
        expression = _in_terms_of_sources(item.unalias(), sources)
        if expression is None:
            return
        meant[fold(name)] = expression
    read = _read(select, join, source, set(meant), sources)
    if read is None:
        return
    select.set("expressions", _items(select, source, names))
    select.set("joins", [other for other in joins if other is not join])
    stars = [item.this for item in select.expressions if item.meta.get(_OF_STAR)]
    for column in [*read, *stars]:
        column.replace(exp.Paren(this=meant[fold(column.name)].copy()))


_UNNAMED = " "  # no name in a text is this one
_OF_STAR = "lancegpu_of_star"  # in an item's meta: a star stood for it


def _names(query: exp.Select, alias: exp.Expr | None) -> list[str] | None:
    given = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    names = [column.name for column in given] if given else [item.alias_or_name for item in query.expressions]
    if len(names) != len(query.expressions):
        return None
    return names if all(names) and len(set(map(fold, names))) == len(names) else None


def _is_simple(select: exp.Select, join: exp.Join) -> bool:
    """Whether a row of the query stands beside each row of what is on its left, and no join makes it null."""
    on = join.args.get("on")
    if join.side not in ("", "LEFT") or not (on is None or (isinstance(on, exp.Boolean) and on.this)):
        return False
    return not select.args.get("laterals") and not any(
        other.args.get("using") or other.method or other.side in ("RIGHT", "FULL") or other.kind in ("SEMI", "ANTI")
        for other in select.args["joins"]
    )


def _stars_fit(select: exp.Select, source: str, *, is_last: bool) -> bool:
    """Whether it can be said where in a star the columns of a source stand."""
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            takes = not isinstance(item, exp.Column) or fold(item.table) == source
            if takes and (any(star.args.values()) or (star is item and not is_last)):
                return False
        elif is_star(item):
            return False
    return True


def _read(
    select: exp.Select, join: exp.Join, source: str, names: set[str], sources: Sources
) -> list[exp.Column] | None:
    """The columns of the block that are of the query; None where they cannot be told, or another query reads them."""
    aliases = {fold(item.alias) for item in select.expressions if item.alias}
    found = []
    inside = {id(node) for node in join.this.walk()}
    others = [alias for alias, node in sources.nodes.items() if id(node) not in inside]
    own = {id(node) for value in select.args.values() for root in _listed(value) for node in own_nodes(root)}
    for joined in select.args["joins"]:
        own |= {id(node) for node in own_nodes(joined)}
    for column in select.find_all(exp.Column):
        if id(column) in inside or isinstance(column.this, exp.Star):
            continue
        name, table = fold(column.name), fold(column.table)
        if (not table and name == source) or len(column.parts) > 2:
            return None
        if table != source and (table or name not in names):
            continue
        known = [sources.names(alias) for alias in others]
        hidden = not table and (name in aliases or any(found is None or name in found for found in known))
        if id(column) not in own or hidden:
            return None
        found.append(column)
    return found if source not in _inner_mentions(select, join) else None


def _listed(value: object) -> list[exp.Expr]:
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]


def _inner_mentions(select: exp.Select, join: exp.Join) -> set[str]:
    """The names in queries inside of the block, the written-out one aside."""
    inner = [query for query in select.find_all(exp.Select) if query is not select and query is not _rowless(join.this)]
    return {name for query in inner for name in mentioned(query)}


def _items(select: exp.Select, source: str, names: Sequence[str]) -> list[exp.Expr]:
    """The block's items, with the query's columns named, and written behind a star that stood for them."""
    folded = set(map(fold, names))
    items: list[exp.Expr] = []
    for item in select.expressions:
        is_column = isinstance(item, exp.Column) and fold(item.table) in ("", source)
        if is_column and fold(item.name) in folded and not isinstance(item.this, exp.Star):
            items.append(named(item, item.name, quoted=True))
            continue
        star = item.this if isinstance(item, exp.Column) else item
        takes = isinstance(star, exp.Star) and (star is item or fold(item.table) == source)
        items += [] if takes and star is not item else [item]
        for name in names if takes else ():
            items.append(named(exp.column(name, quoted=True), name, quoted=True))
            items[-1].meta[_OF_STAR] = True
    return items
