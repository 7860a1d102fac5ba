"""Conditions on a derived table or CTE that makes calls: they filter its rows before the calls are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import (
    has_subquery,
    is_aggregate,
    is_expanding,
    is_star,
    is_unknown,
    is_volatile,
    markers_in,
    own_nodes,
)
from lancegpu_sql.sql.blocks.scopes import AsWritten, tables_named, visible_ctes
from lancegpu_sql.sql.blocks.sources import Sources
from lancegpu_sql.sql.blocks.wanted import conjuncts
from lancegpu_sql.sql.names import fold

_STOPS = ("distinct", "group", "having", "qualify", "windows", "limit", "offset", "pivots")


def push_filters(
    select: exp.Select,
    sources: Sources,
    written: AsWritten,
    tree: exp.Expr,
    is_deterministic: Callable[[exp.Anonymous], bool],
) -> bool:
    """Move the conditions of one block's WHERE that a source can check; False where there are none."""
    done = False
    for part in conjuncts(select, "where"):
        owners = {sources.owner(column) for column in part.find_all(exp.Column)}
        alias = owners.pop() if len(owners) == 1 else None
        if alias is None or sources.may_be_null(alias) or not _is_cheap(part):
            continue
        source = sources.nodes[alias]
        inner = _query_of(source, tree)
        meant: Mapping[str, exp.Expr] = {}
        if inner is not None and _may_filter_first(inner) and all(map(is_deterministic, markers_in(inner))):
            meant = _meanings(inner, source, written)
        if meant and inner is not None and all(fold(column.name) in meant for column in part.find_all(exp.Column)):
            inner.where(_in_terms_of(part, meant), copy=False, append=True)
            done = True
            _take_out(select, part)
    return done


def _is_cheap(part: exp.Expr) -> bool:
    nodes = list(own_nodes(part))
    if has_subquery(part) or is_volatile(part) or markers_in(part) or is_star(part):
        return False
    return not any(isinstance(node, (exp.Lambda, exp.Comprehension)) or is_unknown(node) for node in nodes)


def _query_of(source: exp.Expr, tree: exp.Expr) -> exp.Select | None:
    """The SELECT with calls that a source is, read nowhere else."""
    query: exp.Expr | None = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(source, exp.Table):
        found = [cte for cte in visible_ctes(source) if fold(cte.alias) == fold(source.name)]
        if (
            len(found) == 1
            and not source.db
            and tables_named(tree, source.name) == 1
            and not found[0].args.get("materialized")
        ):
            query = found[0].this
    return query if isinstance(query, exp.Select) and markers_in(query) else None


def _may_filter_first(query: exp.Select) -> bool:
    """Whether a row of a query depends on no other row."""
    if any(query.args.get(key) for key in _STOPS) or not query.args.get("from_"):
        return False
    nodes = [node for item in query.expressions for node in own_nodes(item)]
    return not any(
        isinstance(node, exp.Window) or is_aggregate(node) or is_expanding(node) or is_unknown(node) for node in nodes
    )


def _meanings(query: exp.Select, source: exp.Expr, written: AsWritten) -> Mapping[str, exp.Expr]:
    """What the columns of a source stand for in its query, those with calls left out."""
    if any(is_star(item) for item in query.expressions):
        return _through_star(query, source, written)
    names = [item.alias_or_name for item in query.expressions]
    for place in (source, query.parent):
        alias = place.args.get("alias") if place is not None else None
        columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        if columns and len(columns) == len(names):
            names = [column.name for column in columns]
        elif columns:
            return {}
    folded = [fold(name) for name in names]
    return {
        name: item.unalias()
        for name, item in zip(folded, query.expressions, strict=True)
        if name and folded.count(name) == 1 and _is_cheap(item.unalias())
    }


def _through_star(query: exp.Select, source: exp.Expr, written: AsWritten) -> Mapping[str, exp.Expr]:
    """The same for ``SELECT *, ...`` over one table."""
    stars = [item for item in query.expressions if is_star(item)]
    sources = Sources(query, written)
    only = next(iter(sources.nodes), "")
    renamed = any(
        place is not None
        and isinstance(place.args.get("alias"), exp.TableAlias)
        and place.args["alias"].args.get("columns")
        for place in (source, query.parent)
    )
    plain = len(stars) == 1 and isinstance(stars[0], exp.Star) and not any(stars[0].args.values())
    if renamed or not plain or len(sources.nodes) != 1:
        return {}
    others = {fold(item.alias_or_name) for item in query.expressions if item is not stars[0]}
    names = (sources.names(only) or frozenset()) - others
    table = sources.nodes[only].alias_or_name
    return {name: exp.column(name, table=exp.to_identifier(table, quoted=True), quoted=True) for name in names}


def _in_terms_of(part: exp.Expr, meant: Mapping[str, exp.Expr]) -> exp.Expr:
    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        expression = meant[fold(node.name)].copy()
        return expression if isinstance(expression, exp.Column) else exp.Paren(this=expression)

    return part.copy().transform(replaced)


def _take_out(select: exp.Select, part: exp.Expr) -> None:
    rest = [other for other in conjuncts(select, "where") if other is not part]
    if rest:
        select.set("where", exp.Where(this=exp.and_(*rest, copy=False)))
    else:
        select.set("where", None)
