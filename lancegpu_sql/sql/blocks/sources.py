"""Which source of a FROM a column comes from, and which sources a join may fill with nulls."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_star, own_nodes
from lancegpu_sql.sql.blocks.scopes import AsWritten, source_aliases
from lancegpu_sql.sql.names import fold


class Sources:
    """The sources of one block.

    Attributes
    ----------
    nodes
        What is read, by the folded name under which its columns may be asked for.
    """

    def __init__(self, select: exp.Select, written: AsWritten) -> None:
        self._select, self._written = select, written
        self.nodes = source_aliases(select)
        self._names: dict[str, frozenset[str] | None] = {}

    def names(self, alias: str) -> frozenset[str] | None:
        """The folded names of a source's columns; None where it cannot be asked by itself."""
        if alias not in self._names:
            found = self._written.columns_of(self._select, self.nodes[alias])
            self._names[alias] = None if found is None else frozenset(map(fold, found))
        return self._names[alias]

    def owner(self, column: exp.Expr) -> str | None:
        """The source that a column is certainly of."""
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star) or len(column.parts) > 2:
            return None
        name, table = fold(column.name), fold(column.table)
        if table:
            names = self.names(table) if table in self.nodes else None
            return table if names is not None and name in names else None
        owners = []
        for alias in self.nodes:
            names = self.names(alias)
            if names is None:
                return None
            owners += [alias] if name in names else []
        return owners[0] if len(owners) == 1 else None

    def read_instead(self, alias: str, relation: str, more: Sequence[str]) -> bool:
        """Read another relation, with more columns, under a table's name; False where these would be seen."""
        node = self.nodes[alias]
        if isinstance(node, exp.Table) and node.name == relation:
            return True
        natural = any(fold(join.method or "") == "natural" for join in self._select.args.get("joins") or [])
        stars = stars_of(self._select, alias)
        if not isinstance(node, exp.Table) or natural or (takes_all(self._select, alias) and stars is None):
            return False
        if node.db or "rowid" in mentioned(self._select):
            return False
        for star in stars or ():
            hidden = [exp.to_identifier(column, quoted=True) for column in more]
            star.set("except_", [*(star.args.get("except_") or []), *hidden])
        name = node.alias_or_name
        node.set("this", exp.to_identifier(relation, quoted=True))
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        return True

    def may_be_null(self, alias: str) -> bool:
        """Whether a join may fill this source's columns with nulls, or what joins there are is not simple."""
        first = self._select.args["from_"].this
        joins = self._select.args.get("joins") or []
        if any(node.args.get("joins") or node.args.get("pivots") for node in self.nodes.values()):
            return True
        kinds = [(fold(join.side or ""), fold(join.method or ""), join.this) for join in joins]
        if any(side in {"right", "full"} or method in {"positional", "natural"} for side, method, _ in kinds):
            return True
        node = self.nodes[alias]
        return not (node is first or any(right is node and side == "" for side, _, right in kinds))


def mentioned(select: exp.Select) -> set[str]:
    """Every folded name in a block."""
    return {fold(name.name) for name in select.find_all(exp.Identifier)}


def takes_all(select: exp.Select, alias: str) -> bool:
    """Whether a block may take columns of a source without naming them: by a star, or a whole row as a value."""
    for root in (*select.expressions, select.args.get("where")):
        if root is not None and is_star(root):
            return True
    return any(not column.table and fold(column.name) == alias for column in select.find_all(exp.Column))


def stars_of(select: exp.Select, alias: str) -> list[exp.Star] | None:
    """The stars of a block that take a source's columns; None where it may take them in another way."""
    stars = []
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            stars += [star] if star is item or fold(item.table) == alias else []
        elif is_star(item):
            return None
    where = select.args.get("where")
    row = any(not column.table and fold(column.name) == alias for column in select.find_all(exp.Column))
    return None if row or (where is not None and is_star(where)) else stars


def on_calls(join: exp.Join) -> list[exp.Expr]:
    """The nodes of a join's condition, those of subqueries aside."""
    condition = join.args.get("on")
    return list(own_nodes(condition)) if condition is not None else []
