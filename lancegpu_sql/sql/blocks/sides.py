"""A call as a column of the source whose row it reads: the source becomes a query, below the joins of its block."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import (
    has_subquery,
    is_marker,
    is_unknown,
    is_volatile,
    markers_in,
    own_nodes,
    same_key,
)
from lancegpu_sql.sql.blocks.marked import Marked
from lancegpu_sql.sql.blocks.sources import Sources, mentioned, stars_of, takes_all
from lancegpu_sql.sql.blocks.wanted import Names
from lancegpu_sql.sql.names import fold

_PROTECTS = (exp.Case, exp.If, exp.Coalesce, exp.Try, exp.Lambda, exp.Comprehension)


def calls_of_one_source(root: exp.Expr, sources: Sources, marked: Marked) -> list[tuple[exp.Anonymous, str]]:
    """The calls in a condition that are made for every row it is asked of, and the source that each reads."""
    found = []
    for node in list(own_nodes(root)):
        if is_marker(node) and isinstance(node, exp.Anonymous) and _is_plain(node, root):
            owners = {sources.owner(column) for column in node.find_all(exp.Column)}
            owner = owners.pop() if len(owners) == 1 else None
            if owner is not None and marked.is_deterministic(node):
                found.append((node, owner))
    return found


def _is_plain(node: exp.Expr, root: exp.Expr) -> bool:
    """Whether a call is reached for every row, and depends on nothing but its columns."""
    if has_subquery(node) or is_volatile(node) or any(map(is_unknown, own_nodes(node))):
        return False
    while node is not root:
        parent = node.parent
        assert parent is not None
        if isinstance(parent, _PROTECTS) or is_marker(parent):
            return False
        node = parent
    return True


def may_stand_before(select: exp.Select, sources: Sources, alias: str) -> bool:
    """Whether a source can become a query of its columns, and of calls."""
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
    return not natural and (not takes_all(select, alias) or stars_of(select, alias) is not None)


def is_filter(part: exp.Expr, sources: Sources, alias: str) -> bool:
    """Whether a condition asks a source's row alone, and calls nothing."""
    columns = list(part.find_all(exp.Column))
    if not columns or any(sources.owner(column) != alias for column in columns):
        return False
    plain = not has_subquery(part) and not is_volatile(part) and not markers_in(part)
    return plain and part.find(exp.Lambda, exp.Comprehension) is None


def put_before(
    select: exp.Select,
    sources: Sources,
    alias: str,
    call: exp.Anonymous,
    marked: Marked,
    names: Names,
    filters: Sequence[exp.Expr],
    *,
    once: bool = False,
) -> None:
    """Make a call a column of a source, which becomes a query of the columns that the block may read.

    Parameters
    ----------
    filters
        What its rows must pass to be of use.
    once
        Whether it must be a CTE of the whole query, since the block is run for each row of another query.
    """
    node = sources.nodes[alias]
    side = node if node.meta.get(_SIDE) else _made_side(select, sources, alias, filters)
    inner = _query_of(side)
    alike = [item for item in inner.expressions if is_marker(item.unalias()) and _same(item.unalias(), call, marked)]
    if alike:
        result = alike[0].alias
    else:
        result = names.new("in")
        inner.append("expressions", exp.alias_(call.copy(), result))
        for star in stars_of(select, alias) or ():
            star.set("except_", [*(star.args.get("except_") or []), exp.to_identifier(result)])
    call.replace(exp.column(result, table=exp.to_identifier(node.alias_or_name, quoted=True)))
    if once and isinstance(side, exp.Subquery):
        sources.nodes[alias] = _made_cte(select, side, names)


_SIDE = "lancegpu_side"


def _made_side(select: exp.Select, sources: Sources, alias: str, filters: Sequence[exp.Expr]) -> exp.Expr:
    node = sources.nodes[alias]
    columns: list[exp.Expr] = [exp.Star()]
    if not stars_of(select, alias) or isinstance(select.parent, exp.Exists):  # EXISTS reads no column
        wanted = sorted((sources.names(alias) or frozenset()) & mentioned(select))
        columns = [exp.column(name, quoted=True) for name in wanted]
    inner = exp.Select(expressions=columns, from_=exp.From(this=node.copy()))
    if filters:
        inner.set("where", exp.Where(this=exp.and_(*filters, copy=True)))
    side = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True)))
    side.meta[_SIDE] = True
    node.replace(side)
    sources.nodes[alias] = side
    return side


def _made_cte(select: exp.Select, side: exp.Subquery, names: Names) -> exp.Table:
    """Read a source from a CTE of the whole query, which DuckDB runs once."""
    root = select.root()
    assert isinstance(root, exp.Query)
    name = names.new("side")
    root.with_(name, as_=side.this, materialized=True, copy=False)
    table = exp.to_table(name)
    table.set("alias", side.args["alias"].copy())
    table.meta[_SIDE] = True
    side.replace(table)
    return table


def _query_of(side: exp.Expr) -> exp.Select:
    """The query that a source has become."""
    query = side.this
    if isinstance(side, exp.Table):
        query = next(cte.this for cte in side.root().args["with_"].expressions if cte.alias == side.name)
    assert isinstance(query, exp.Select)
    return query


def may_be_cte(select: exp.Select, sources: Sources, alias: str) -> bool:
    """Whether what a source reads can be read at the beginning of the whole query."""
    node, with_ = sources.nodes[alias], select.root().args.get("with_")
    inner = [
        cte.alias for clause in select.root().find_all(exp.With) if clause is not with_ for cte in clause.expressions
    ]
    named = isinstance(node, exp.Table) and fold(node.name) not in map(fold, inner)
    return named and not (with_ is not None and with_.args.get("recursive"))


def _same(one: exp.Expr, other: exp.Anonymous, marked: Marked) -> bool:
    assert isinstance(one, exp.Anonymous)
    alike = marked.function(one) == marked.function(other)
    return alike and list(map(same_key, one.expressions)) == list(map(same_key, other.expressions))
