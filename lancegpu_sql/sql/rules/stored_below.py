"""Computed columns below a query in FROM: a derived table or CTE hands on the columns that a call reads, and so the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_aggregate, is_star, own_nodes
from lancegpu_sql.sql.blocks.scopes import AsWritten, tables_named, visible_ctes
from lancegpu_sql.sql.blocks.sources import Sources, stars_of
from lancegpu_sql.sql.blocks.wanted import Names
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.stages import StoredColumn

Computed = Mapping[str, Sequence[StoredColumn]]
# Rows of these are made of several rows; a sorting by ALL would sort by what is handed on as well.
_MIXES = ("distinct", "group", "having", "pivots")


@dataclass(frozen=True)
class _Level:
    """One query in FROM: the SELECT, and which of its sources hands the columns on."""

    select: exp.Select
    sources: Sources
    alias: str
    read_once: bool


@dataclass(frozen=True)
class Below:
    """What a source hands on of a table below it."""

    stored: StoredColumn
    siblings: Sequence[StoredColumn]
    levels: Sequence[_Level] = field(default_factory=tuple)  # outermost first

    def in_source(self, alias: str, select: exp.Select, names: Names) -> tuple[str, str | None] | None:
        """Have the source give the value and, where some rows are out of date, the proof: their names in it.

        None where they would be seen by a star, or the rows that they come from are read in another way.
        """
        stored = self.stored
        if stored.fully_fresh and (name := self._handed_on()) is not None:
            return name, None
        readers = [(select, alias), *((level.select, level.alias) for level in self.levels[:-1])]
        stars = [stars_of(reader, name) for reader, name in readers]
        if any(found is None for found in stars) or not all(level.read_once for level in self.levels):
            return None
        if any(_is_natural(reader) for reader, _ in readers):
            return None
        columns = [stored.column]
        if not stored.fully_fresh:
            if stored.proved is None or stored.proof is None or not self._read_proved(stored.proved):
                return None
            columns.append(stored.proof)
        for number in range(len(self.levels) - 1, -1, -1):
            level = self.levels[number]
            added = [names.new("in") for _ in columns]
            for column, name in zip(columns, added, strict=True):
                level.select.append("expressions", _added(column, level.alias, name))
            for star in stars[number] or ():
                hidden = [exp.to_identifier(name, quoted=True) for name in added]
                star.set("except_", [*(star.args.get("except_") or []), *hidden])
            columns = added
        return columns[0], columns[1] if len(columns) > 1 else None

    def _read_proved(self, relation: str) -> bool:
        last = self.levels[-1]
        alike = [one for one in self.siblings if one.proved == relation]
        more = [one.proof for one in alike if one.proof is not None] + [one.column for one in alike if one.added]
        return last.sources.read_instead(last.alias, relation, more)

    def _handed_on(self) -> str | None:
        """The name under which the source has the column already."""
        name: str | None = self.stored.column
        if self.stored.added:
            return None
        for level in reversed(self.levels):
            name = next(
                (
                    given
                    for given, meant in _meanings(level.select, level.sources).items()
                    if level.sources.owner(meant) == level.alias and fold(meant.name) == fold(name or "")
                ),
                None,
            )
            if name is None:
                return None
        return name


def stored_below(
    source: exp.Expr,
    function: str,
    inputs: tuple[str, ...],
    tree: exp.Expr,
    written: AsWritten,
    computed: Computed,
) -> Below | None:
    """Find the computed column that holds what a Function gives for columns of a derived table or CTE."""
    found = _query_of(source, tree)
    if found is None:
        return None
    select, read_once = found
    sources = Sources(select, written)
    meanings = _meanings(select, sources)
    meant = [meanings.get(name) for name in inputs]
    owners = {None if column is None else sources.owner(column) for column in meant}
    alias = owners.pop() if len(owners) == 1 else None
    if alias is None or sources.may_be_null(alias):
        return None
    level = _Level(select, sources, alias, read_once)
    below = tuple(fold(column.name) for column in meant if column is not None)
    hidden = {fold(cte.alias) for cte in visible_ctes(select)}
    columns = columns_of(sources.nodes[alias], computed, hidden)
    stored = holder(columns, function, below)
    if stored is not None:
        return Below(stored, columns, (level,))
    deeper = stored_below(sources.nodes[alias], function, below, tree, written, computed)
    return None if deeper is None else replace(deeper, levels=(level, *deeper.levels))


def columns_of(node: exp.Expr, computed: Computed, hidden: set[str]) -> Sequence[StoredColumn]:
    """The computed columns of a source, if it is a table under its own column names."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or fold(node.name) in hidden:
        return ()
    alias = node.args.get("alias")
    if node.args.get("when") or (alias is not None and alias.args.get("columns")):
        return ()
    exact = computed.get(node.name) or next(
        (columns for columns in computed.values() if any(one.proved == node.name for one in columns)), None
    )
    alike = [columns for name, columns in computed.items() if fold(name) == fold(node.name)]
    return exact if exact is not None else alike[0] if len(alike) == 1 else ()


def holder(columns: Sequence[StoredColumn], function: str, inputs: tuple[str, ...]) -> StoredColumn | None:
    """The column that holds what a Function gives for these columns of its table."""
    return next((one for one in columns if one.function == function and tuple(map(fold, one.inputs)) == inputs), None)


def _query_of(source: exp.Expr, tree: exp.Expr) -> tuple[exp.Select, bool] | None:
    """The SELECT that a source is, each of whose rows is made of one row of its FROM, and whether it is read once."""
    alias = source.args.get("alias")
    if source.args.get("pivots") or (isinstance(alias, exp.TableAlias) and alias.args.get("columns")):
        return None
    query: exp.Expr | None = source.this if isinstance(source, exp.Subquery) else None
    once = True
    if isinstance(source, exp.Table) and not source.db:
        ctes = [cte for cte in visible_ctes(source) if fold(cte.alias) == fold(source.name)]
        if len(ctes) == 1 and not ctes[0].args["alias"].args.get("columns"):
            query = ctes[0].this
            once = tables_named(tree, source.name) == 1
    if not isinstance(query, exp.Select) or not query.args.get("from_") or any(map(query.args.get, _MIXES)):
        return None
    nodes = [node for item in query.expressions for node in own_nodes(item)]
    order = query.args.get("order")
    by_all = order is not None and any(isinstance(key.this, exp.Var) for key in order.expressions)
    recursive = isinstance(source, exp.Table) and tables_named(query, source.name) > 0
    return None if by_all or recursive or any(map(is_aggregate, nodes)) else (query, once)


def _meanings(select: exp.Select, sources: Sources) -> Mapping[str, exp.Column]:
    """The columns that a SELECT hands on as they are, by their folded names in what it gives."""
    names: list[str] = []
    found: dict[str, exp.Column] = {}
    for item in select.expressions:
        if is_star(item):
            given = _through_star(item, sources)
            if given is None:
                return {}
            names += given
            found |= given
            continue
        name, column = fold(item.alias_or_name), item.unalias()
        names.append(name)
        if name and isinstance(column, exp.Column):
            found[name] = column
    return {name: column for name, column in found.items() if names.count(name) == 1}


def _through_star(item: exp.Expr, sources: Sources) -> dict[str, exp.Column] | None:
    """What a star without further words stands for, over one source; None of another one."""
    star = item.this if isinstance(item, exp.Column) else item
    table = fold(item.table) if isinstance(item, exp.Column) else ""
    alias = table or next(iter(sources.nodes), "")
    names = sources.names(alias) if alias in sources.nodes else None
    plain = isinstance(star, exp.Star) and not (star.args.get("replace") or star.args.get("rename"))
    if names is None or not plain or (not table and len(sources.nodes) != 1):
        return None
    left_out = {fold(each.name) for each in star.args.get("except_") or []}
    of = exp.to_identifier(alias, quoted=True)
    return {name: exp.column(name, table=of.copy(), quoted=True) for name in names - left_out}


def _is_natural(select: exp.Select) -> bool:
    return any(fold(join.method or "") == "natural" for join in select.args.get("joins") or [])


def _added(column: str, alias: str, name: str) -> exp.Expr:
    return exp.alias_(exp.column(column, table=exp.to_identifier(alias, quoted=True), quoted=True), name, quoted=True)
