"""Which names of a block are columns of its FROM; aliases are replaced by what they stand for."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.alike import unite
from lancegpu_sql.sql.blocks.block import CLAUSES, REF, Block
from lancegpu_sql.sql.blocks.kinds import ALONE, is_star, is_volatile, markers_in, own_nodes
from lancegpu_sql.sql.blocks.marked import NotPlanned
from lancegpu_sql.sql.blocks.scopes import AsWritten, source_aliases
from lancegpu_sql.sql.names import fold

_ROW_ID = "rowid"  # a column of every table that no star gives


def resolve(block: Block, written: AsWritten) -> None:
    """Mark the columns that a block reads from its FROM, also those in subqueries, and write out its aliases.

    Raises
    ------
    NotPlanned
        What a name means cannot be told.
    """
    select = block.select
    names = written.source_columns(select)
    if names is None:
        raise NotPlanned("what its FROM gives depends on another query's row")
    _Resolver(block, written, frozenset(map(fold, names))).run()
    unite(block)


class _Resolver:
    def __init__(self, block: Block, written: AsWritten, names: frozenset[str]) -> None:
        self._block, self._written, self._names = block, written, names
        self._original = block.select
        self._sources = source_aliases(block.select)
        self._aliases: dict[str, list[exp.Expr]] = {}
        for item in block.items:
            if item.alias:
                self._aliases.setdefault(fold(item.alias), []).append(item)

    def run(self) -> None:
        for key in ("expressions", *(key for key in CLAUSES if key != "expressions")):
            for root in self._block.clause(key):
                self._resolve(root, key)

    def _resolve(self, root: exp.Expr, key: str) -> None:
        if key != "expressions" and is_star(root) and (key != "where" or markers_in(root)):
            raise NotPlanned("it has COLUMNS outside of its SELECT list")
        for node in list(own_nodes(root)):
            if isinstance(node, exp.Query):
                self._resolve_query(node)
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                self._resolve_column(node, key)

    def _resolve_column(self, column: exp.Column, key: str) -> None:
        if _is_loop_variable(column):
            return
        if column.table:
            outer = {fold(part.name) for part in column.parts[:-1]}
            if not outer & (self._sources.keys() | self._names):
                raise NotPlanned(f"what {column.sql(dialect='duckdb')} means cannot be told")
            self._mark(column)
            return
        name = fold(column.name)
        is_column = name in self._names or (name == _ROW_ID and name not in self._aliases) or self._is_row(name)
        alone = _is_whole_key(column)
        if alone and key == "order" and name in self._aliases:
            return
        if is_column:
            if key in {"having", "qualify", "distinct"} and self._hides(name):
                raise NotPlanned(f"{column.name} is a column and another column's alias")
            self._mark(column)
        elif name not in self._aliases:
            raise NotPlanned(f"what {column.name} means cannot be told")
        elif not (alone and key == "group"):
            self._write_out(column, name)

    def _is_row(self, name: str) -> bool:
        return name in self._sources and name not in self._aliases

    def _hides(self, name: str) -> bool:
        return any(
            not (isinstance(item.unalias(), exp.Column) and fold(item.unalias().name) == name)
            for item in self._aliases.get(name, ())
        )

    def _write_out(self, column: exp.Column, name: str) -> None:
        if len(self._aliases[name]) > 1:
            raise NotPlanned(f"{column.name} is the alias of several columns")
        meant = self._aliases[name][0].unalias()
        if any(parent is meant for parent in _parents(column)) or meant.find(exp.Query) or is_star(meant):
            raise NotPlanned(f"the alias {column.name} stands for what cannot be written twice")
        if is_volatile(meant):
            raise NotPlanned(f"the alias {column.name} stands for what differs each time")
        column.replace(exp.Paren(this=meant.copy()))

    def _mark(self, column: exp.Column) -> None:
        column.meta[REF] = self._block.number
        source = next(iter(self._sources.values())) if len(self._sources) == 1 else None
        if source is not None and fold(column.table) == fold(source.alias_or_name) and len(column.parts) == 2:
            column.meta[ALONE] = True

    # -- subqueries -----------------------------------------------------------------------------------------------

    def _resolve_query(self, query: exp.Query) -> None:
        if self._block.reads_stage(query) or self._written.stands_alone(self._original, query):
            return
        inner = {id(select): self._inside(select) for select in query.find_all(exp.Select)}
        for column in list(query.find_all(exp.Column)):
            around = [parent for parent in _parents(column) if id(parent) in inner]
            if isinstance(column.this, exp.Star) or not around or _is_loop_variable(column):
                continue
            if self._is_outer(column, [inner[id(select)] for select in around]):
                self._mark(column)

    def _inside(self, select: exp.Expr) -> tuple[frozenset[str], frozenset[str]]:
        """The names of a query's columns and aliases, and of its sources."""
        assert isinstance(select, exp.Select)
        names: list[str] | None = []
        if select.args.get("from_"):
            names = self._written.columns_inside(self._original, select)
        if names is None:
            raise NotPlanned("a subquery's FROM depends on another query's row")
        aliases = (item.alias for item in select.expressions if item.alias)
        return frozenset(map(fold, [*names, *aliases, _ROW_ID])), frozenset(source_aliases(select))

    def _is_outer(self, column: exp.Column, around: list[tuple[frozenset[str], frozenset[str]]]) -> bool:
        first = fold(column.parts[0].name)
        if any(first in names or first in sources for names, sources in around):
            if column.table and not any(first in sources for _, sources in around) and first in self._sources:
                raise NotPlanned(f"what {column.sql(dialect='duckdb')} means cannot be told")
            return False
        if first in self._names or first in self._sources:
            return True
        raise NotPlanned(f"what {column.sql(dialect='duckdb')} means in a subquery cannot be told")


def _parents(node: exp.Expr) -> list[exp.Expr]:
    found = []
    parent = node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def _is_whole_key(column: exp.Column) -> bool:
    """Whether a column is all of a key of ORDER BY or GROUP BY."""
    parent = column.parent
    while isinstance(parent, (exp.Paren, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)):
        parent = parent.parent
    if isinstance(parent, exp.Ordered):
        return (
            parent.this is column
            and isinstance(parent.parent, exp.Order)
            and isinstance(parent.parent.parent, exp.Select)
        )
    return isinstance(parent, exp.Group)


def _is_loop_variable(column: exp.Column) -> bool:
    name = fold(column.parts[0].name)
    for parent in _parents(column):
        if isinstance(parent, exp.Comprehension):
            variables = [parent.expression, *parent.expression.expressions]
            if any(isinstance(variable, exp.Identifier) and fold(variable.name) == name for variable in variables):
                return True
    return False
