"""One SELECT with its clauses: the unit that is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import (
    has_subquery,
    is_aggregate,
    is_expanding,
    is_marker,
    is_star,
    is_unknown,
    is_volatile,
    markers_in,
    own_nodes,
    same_key,
)
from lancegpu_sql.sql.blocks.marked import Marked, NotPlanned
from lancegpu_sql.sql.names import fold

CLAUSES = ("expressions", "distinct", "where", "group", "having", "windows", "qualify", "order", "limit", "offset")
_SOURCE = ("from_", "joins", "laterals", "sample")
REF = "lancegpu_block"  # in a column's meta: the number of the block whose FROM it reads


@dataclass(frozen=True)
class Occurrence:
    """One place where a block calls a Function, outside of its FROM and of subqueries.

    Attributes
    ----------
    call
        The call.
    node
        What is replaced: the call, or the TRY around it.
    clause
        The part of the block that it stands in.
    item
        Which expression of that part.
    in_aggregate, in_window
        Whether it is inside an aggregate, or a window.
    conditions
        What must all be true where it is reached, outermost first.
    """

    call: exp.Anonymous
    node: exp.Expr
    clause: str
    item: int
    in_aggregate: bool
    in_window: bool
    conditions: tuple[exp.Expr, ...]

    @property
    def is_try(self) -> bool:
        return self.node is not self.call


class Block:
    """A SELECT that is being cut, whose columns and aliases have been told apart.

    Parameters
    ----------
    number
        Its columns' meta `REF`.
    stages
        The relations of the stages so far.
    """

    def __init__(self, select: exp.Select, number: int, marked: Marked, stages: set[str]) -> None:
        self.select, self.number, self.marked, self.stages = select, number, marked, stages
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
        """What GROUP BY groups by, aliases and positions replaced; every item without an aggregate for ALL."""
        keys: list[exp.Expr] = []
        for group in self.clause("group"):
            if group.args.get("all"):
                keys += [item.unalias() for item in self.items if not any(map(is_aggregate, own_nodes(item)))]
            for written in _flat_keys(group):
                keys.append(self.item_for(written, columns_first=True) or written)
        return keys

    # -- its calls ------------------------------------------------------------------------------------------------

    def occurrences(self) -> list[Occurrence]:
        """The calls that may be made in a stage, in the order of the clauses."""
        found = []
        for key in ("where", "group", "having", "windows", "qualify", "distinct", "order", "expressions"):
            for index, root in enumerate(self.clause(key)):
                for node in own_nodes(root):
                    if is_marker(node):
                        occurrence = self._occurrence(node, key, index, root)
                        if occurrence is not None:
                            found.append(occurrence)
        return found

    def _occurrence(self, call: exp.Expr, key: str, index: int, root: exp.Expr) -> Occurrence | None:
        assert isinstance(call, exp.Anonymous)
        if any(
            has_subquery(part) or is_star(part) or any(map(is_unknown, own_nodes(part))) for part in call.expressions
        ):
            return None
        if self.marked.is_deterministic(call) and not self._varies(call):
            return None  # made once, wherever it stands
        if not call.expressions:
            return None
        in_aggregate = in_window = crossed = False
        conditions: list[exp.Expr] = []
        node: exp.Expr = call
        target: exp.Expr = call
        while node is not root:
            parent = node.parent
            assert parent is not None
            if isinstance(parent, (exp.Lambda, exp.Comprehension, exp.Star, exp.Columns)):
                return None
            if isinstance(parent, exp.Try):
                if target is not node or not all(
                    isinstance(part, (exp.Column, exp.Literal)) for part in call.expressions
                ):
                    return None
                target = parent
            if not crossed or isinstance(parent, exp.Filter):
                conditions = [*conditions_of(parent, node), *conditions]
            in_aggregate = in_aggregate or (not in_window and is_aggregate(parent))
            in_window = in_window or isinstance(parent, exp.Window)
            crossed = in_aggregate or in_window  # what stands around an aggregate or a window does not protect it
            node = parent
        if is_star(root if key == "expressions" else call):
            return None
        if any(not self._may_be_mask(condition) for condition in conditions):
            return None
        return Occurrence(call, target, key, index, in_aggregate, in_window, tuple(conditions))

    def _varies(self, call: exp.Expr) -> bool:
        if self.refs(call) or is_volatile(call):
            return True
        return any(isinstance(node, exp.Window) or is_aggregate(node) for node in own_nodes(call))

    def _may_be_mask(self, condition: exp.Expr) -> bool:
        return self.may_be_copied(condition) and not any(map(is_unknown, own_nodes(condition)))

    def key_of(self, occurrence: Occurrence) -> str:
        """What two calls share that may be made once."""
        call = occurrence.call
        try_ = "TRY " if occurrence.is_try else ""
        volatile = any(is_volatile(part) for part in call.expressions)
        if volatile or not all(self.marked.is_deterministic(marker) for marker in markers_in(call)):
            return f"{try_}{call.this}"  # copies of one call, as an alias makes them, are one call
        return f"{try_}{self.marked.function(call)}({', '.join(same_key(part) for part in call.expressions)})"

    def in_groups(self, occurrence: Occurrence, grouping: frozenset[str]) -> bool:
        """Whether a call of an aggregated block is made for groups, not for rows.

        Parameters
        ----------
        grouping
            Keys of the calls that GROUP BY makes.
        """
        if not self.aggregated or occurrence.in_aggregate or occurrence.clause in {"where", "group"}:
            return False
        return self.key_of(occurrence) not in grouping


def conditions_of(parent: exp.Expr, child: exp.Expr) -> list[exp.Expr]:
    """What is true where the child of an expression is reached, because the parent evaluates it only then."""
    if isinstance(parent, exp.If) and not isinstance(parent.parent, exp.Case):
        if child.arg_key == "true":
            return [_is_true(parent.this)]
        return [_is_not_true(parent.this)] if child.arg_key == "false" else []
    if isinstance(parent, exp.If) and isinstance(parent.parent, exp.Case) and child.arg_key == "true":
        return [_is_true(_tested(parent.parent, parent))]
    if isinstance(parent, exp.Case) and child.arg_key in {"ifs", "default"}:
        before = parent.args["ifs"][: child.index] if child.arg_key == "ifs" else parent.args["ifs"]
        return [_is_not_true(_tested(parent, branch)) for branch in before]
    if isinstance(parent, exp.Coalesce) and child.arg_key == "expressions":
        return [
            exp.Is(this=_wrapped(part), expression=exp.null())
            for part in [parent.this, *parent.expressions[: child.index]]
        ]
    if isinstance(parent, exp.Filter) and child.arg_key == "this":
        return [_is_true(parent.expression.this)]
    return []


def _tested(case: exp.Case, branch: exp.If) -> exp.Expr:
    operand = case.this
    if operand is None:
        condition: exp.Expr = branch.this
        return condition
    return exp.EQ(this=_wrapped(operand), expression=_wrapped(branch.this))


def _wrapped(node: exp.Expr) -> exp.Expr:
    return node.copy() if isinstance(node, (exp.Column, exp.Literal)) else exp.Paren(this=node.copy())


def _is_true(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=node.copy()), expression=exp.true())


def _is_not_true(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=_is_true(node))


def _flat_keys(group: exp.Expr) -> Iterator[exp.Expr]:
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
