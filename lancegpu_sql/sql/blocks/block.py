"""One SELECT with its clauses: the unit that is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import (
    is_aggregate,
    is_expanding,
    is_star,
    is_unknown,
    is_volatile,
    markers_in,
    own_nodes,
)
from lancegpu_sql.sql.blocks.marked import Marked, NotPlanned
from lancegpu_sql.sql.names import fold

CLAUSES = ("expressions", "distinct", "where", "group", "having", "windows", "qualify", "order", "limit", "offset")
_SOURCE = ("from_", "joins", "laterals", "sample")
REF = "lancegpu_block"  # in a column's meta: the number of the block whose FROM it reads


class Block:
    """A SELECT that is being cut, whose columns and aliases have been told apart.

    Parameters
    ----------
    number
        Its columns' meta `REF`.
    stages
        The relations of the stages so far.
    stands_alone
        Tells whether a subquery of it reads none of its columns.
    """

    def __init__(
        self,
        select: exp.Select,
        number: int,
        marked: Marked,
        stages: set[str],
        stands_alone: Callable[[exp.Query], bool] = lambda _query: True,
    ) -> None:
        self.select, self.number, self.marked, self.stages = select, number, marked, stages
        self.stands_alone = stands_alone
        known = {*CLAUSES, *_SOURCE, "with_"}
        others = [key for key, value in select.args.items() if value and key not in known]
        if others:
            raise NotPlanned(f"its block has {', '.join(others).upper()}")

    # -- its parts ------------------------------------------------------------------------------------------------

    @property
    def items(self) -> list[exp.Expr]:
        return list(self.select.expressions)

    def clause(self, key: str) -> list[exp.Expr]:
        """The expressions at the roots of a clause."""
        value = self.select.args.get(key)
        if value is None:
            return []
        return list(value) if isinstance(value, list) else [value]

    def nodes(self, *clauses: str) -> Iterator[exp.Expr]:
        """The nodes of some clauses, without those in subqueries."""
        for key in clauses or CLAUSES:
            for root in self.clause(key):
                yield from own_nodes(root)

    def has(self, *clauses: str) -> bool:
        return any(self.select.args.get(key) for key in clauses)

    @property
    def aggregated(self) -> bool:
        """Whether its rows are groups."""
        if self.has("group", "having"):
            return True
        return any(is_aggregate(node) for node in self.nodes("expressions", "qualify", "order", "windows"))

    @property
    def has_unknown(self) -> bool:
        """Whether it calls a macro outside of WHERE, which may be an aggregate or a window."""
        return any(
            is_unknown(node) for node in self.nodes("expressions", "group", "having", "qualify", "order", "windows")
        )

    @property
    def expands(self) -> bool:
        """Whether an item makes other than one row of one."""
        return any(is_expanding(node) for node in self.nodes("expressions"))

    def is_ref(self, node: exp.Expr) -> bool:
        """Whether a node is a column of this block's FROM."""
        return isinstance(node, exp.Column) and node.meta.get(REF) == self.number

    def refs(self, node: exp.Expr) -> bool:
        """Whether an expression depends on the row."""
        return any(self.is_ref(column) for column in node.find_all(exp.Column))

    def may_be_copied(self, node: exp.Expr) -> bool:
        """Whether evaluating an expression twice changes nothing."""
        steady = not is_volatile(node) and all(map(self.marked.is_deterministic, markers_in(node)))
        return steady and not self.reads_stage(node) and not is_star(node)

    def reads_stage(self, node: exp.Expr) -> bool:
        return any(table.name in self.stages for table in node.find_all(exp.Table))

    def item_for(self, expression: exp.Expr, *, columns_first: bool) -> exp.Expr | None:
        """The item that a key of ORDER BY or GROUP BY means: by its position, or by its alias alone."""
        if isinstance(expression, exp.Literal) and not expression.is_string:
            position = int(expression.this) if str(expression.this).isdigit() else 0
            if not 0 < position <= len(self.items) or any(is_star(item) for item in self.items[:position]):
                raise NotPlanned("a position in ORDER BY or GROUP BY means a column of a star")
            return self.items[position - 1].unalias()
        if not isinstance(expression, exp.Column) or expression.table or (columns_first and self.is_ref(expression)):
            return None
        for item in self.items:
            if fold(item.alias) == fold(expression.name):
                return item.unalias()
        return None

    def calls_for_each_row(self, node: exp.Expr) -> bool:
        """Whether an expression has a subquery with calls that reads the row around it."""
        queries = [found for found in own_nodes(node) if isinstance(found, exp.Query) and markers_in(found)]
        return any(not self.stands_alone(query) for query in queries)

    def order_keys(self) -> list[exp.Expr]:
        """What ORDER BY orders by, aliases and positions replaced; every item for ALL."""
        keys: list[exp.Expr] = []
        for root in self.clause("order"):
            for ordered in root.expressions:
                if isinstance(ordered.this, exp.Var):
                    keys += [item.unalias() for item in self.items]
                else:
                    keys.append(self.item_for(ordered.this, columns_first=False) or ordered.this)
        return keys

    def group_keys(self) -> list[exp.Expr]:
        """What GROUP BY groups by, aliases and positions replaced; for ALL every item that reads the row without an aggregate."""
        keys: list[exp.Expr] = []
        for group in self.clause("group"):
            if group.args.get("all"):
                plain = [item for item in self.items if not any(map(is_aggregate, own_nodes(item)))]
                keys += [item.unalias() for item in plain if self.refs(item)]
            for written in flat_keys(group):
                keys.append(self.item_for(written, columns_first=True) or written)
        return keys


def flat_keys(group: exp.Expr) -> Iterator[exp.Expr]:
    """What GROUP BY groups by, as it is written."""
    for key in ("expressions", "grouping_sets", "cube", "rollup"):
        for part in group.args.get(key) or ():
            yield from _flat_key(part)


def _flat_key(part: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(part, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        for inner in part.expressions:
            yield from _flat_key(inner)
    elif isinstance(part, exp.Paren):
        yield from _flat_key(part.this)
    else:
        yield part
