"""The query as written, asked what its parts are called; and the CTEs that a part of it needs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.sql.blocks.kinds import own_nodes
from lancegpu_sql.sql.blocks.marked import Marked, NotPlanned
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import Describe


class AsWritten:
    """A copy of the query that stays as it was, to be asked while the query itself is being cut."""

    def __init__(self, marked: Marked, describe: Describe) -> None:
        self._marked, self._describe = marked, describe
        written = marked.tree.copy()
        self._written = {
            id(live): kept
            for live, kept in zip(marked.tree.find_all(exp.Query), written.find_all(exp.Query), strict=True)
        }
        self._known: dict[str, list[str] | None] = {}
        self._columns: dict[int, list[str] | None] = {}  # of the queries themselves, whose texts are long

    def knows(self, query: exp.Query) -> bool:
        """Whether a query stands as it was written, parts of it aside."""
        return id(query) in self._written

    def columns(self, query: exp.Query) -> list[str] | None:
        """The names of a query's columns; None where it does not stand alone, such as one that reads an outer row."""
        written = self._of(query)
        if id(written) not in self._columns:
            self._columns[id(written)] = self._names(written, written)
        return self._columns[id(written)]

    def source_columns(self, select: exp.Select) -> list[str] | None:
        """The names of the columns that its FROM gives, in the order of ``*``."""
        written = self._of(select)
        return self._names(written, _over_source(written, [exp.Star()]))

    def item_columns(self, select: exp.Select, item: exp.Expr) -> list[str] | None:
        """The names of the columns that an item with a star stands for."""
        written = self._of(select)
        return self._names(written, _over_source(written, [item.copy()]))

    def columns_of(self, select: exp.Select, source: exp.Expr) -> list[str] | None:
        """The names of the columns of one source of a block."""
        return self._names(self._of(select), exp.Select(expressions=[exp.Star()], from_=exp.From(this=source.copy())))

    def stands_alone(self, select: exp.Select, query: exp.Query) -> bool:
        """Whether a query in an expression of a block reads none of the block's columns."""
        return self._names(self._of(select), query) is not None

    def columns_inside(self, select: exp.Select, inner: exp.Select) -> list[str] | None:
        """The names that the FROM of a query in an expression of a block gives."""
        return self._names(self._of(select), _over_source(inner, [exp.Star()]))

    def _of(self, query: exp.Query) -> exp.Query:
        found = self._written.get(id(query))
        if found is None:
            raise NotPlanned("a part of the query stands in several places")
        return found

    def _names(self, place: exp.Query, query: exp.Query) -> list[str] | None:
        text = self._marked.sql(with_ctes(query, visible_ctes(place, own=query is not place)))
        if text not in self._known:
            try:
                self._known[text] = [name for name, _ in self._describe(text)]
            except LanceGpuError:
                self._known[text] = None
        return self._known[text]


def _over_source(select: exp.Query, items: Sequence[exp.Expr]) -> exp.Select:
    parts = {key: _copied(select.args.get(key)) for key in ("from_", "joins", "laterals")}
    return exp.Select(expressions=list(items), **parts)


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [part.copy() for part in value]
    return value.copy() if isinstance(value, exp.Expr) else value


def visible_ctes(query: exp.Expr, *, own: bool = True) -> list[exp.CTE]:
    """The CTEs that a query may name, outermost first.

    Raises
    ------
    NotPlanned
        One hides another.
    """
    found: list[exp.CTE] = []
    node: exp.Expr | None = query
    before: exp.CTE | None = None
    while node is not None:
        clause = node.args.get("with_") if isinstance(node, exp.Query) else None
        if clause is not None and (own or node is not query):
            ctes = list(clause.expressions)
            if before is not None and before in ctes:
                ctes = ctes[: next(index for index, cte in enumerate(ctes) if cte is before)]
            found = [*ctes, *found]
            before = None
        if isinstance(node, exp.CTE):
            before = node
        node = node.parent
    names = [fold(cte.alias) for cte in found]
    if len(set(names)) < len(names):
        raise NotPlanned("one CTE hides another of its name")
    return found


def with_ctes(query: exp.Query, ctes: Sequence[exp.CTE]) -> exp.Query:
    """A copy of a query, with these CTEs before its own."""
    copy = query.copy()
    if ctes:
        clause = copy.args.get("with_")
        own = clause.expressions if clause is not None else []
        recursive = any(isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive") for cte in ctes)
        recursive = recursive or (clause is not None and bool(clause.args.get("recursive")))
        copy.set("with_", exp.With(expressions=[*(cte.copy() for cte in ctes), *own], recursive=recursive))
    return copy


def tables_named(node: exp.Expr, name: str) -> int:
    """How often a table or CTE of this name is read in an expression."""
    return sum(
        1
        for table in node.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and not table.db and fold(table.name) == fold(name)
    )


def source_aliases(select: exp.Select) -> dict[str, exp.Expr]:
    """What a block reads, by the folded names under which its columns may be asked for."""
    found: dict[str, exp.Expr] = {}
    roots = [select.args.get("from_"), *select.args.get("joins", ()), *select.args.get("laterals", ())]
    for root in roots:
        for node in own_nodes(root) if root is not None else ():
            if isinstance(node, (exp.Table, exp.Subquery, exp.Unnest, exp.Lateral, exp.Values)):
                unnamed = f"unnamed_subquery{len(found) or ''}"
                found[fold(node.alias_or_name) or unnamed] = node
    return found


def inner_first(tree: exp.Expr) -> list[exp.Select]:
    """The blocks, each after those in it."""
    found: list[exp.Select] = []
    pending: list[tuple[exp.Expr, bool]] = [(tree, False)]
    while pending:
        node, done = pending.pop()
        if done:
            found += [node] if isinstance(node, exp.Select) else []
            continue
        pending.append((node, True))
        children = sorted(node.iter_expressions(), key=lambda child: child.arg_key != "with_")
        pending += [(child, False) for child in reversed(children)]
    return found
