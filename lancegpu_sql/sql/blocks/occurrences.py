"""Where a block calls Functions: which of the calls a stage can make, and what they see."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import (
    has_subquery,
    is_aggregate,
    is_marker,
    is_star,
    is_unknown,
    is_volatile,
    markers_in,
    own_nodes,
    same_key,
)
from lancegpu_sql.sql.blocks.marked import NotPlanned

_CALLED_IN = ("where", "group", "having", "windows", "qualify", "distinct", "order", "expressions")


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
    narrower
        The same, and what is true where the AND and OR around it are not decided before it.
    """

    call: exp.Anonymous
    node: exp.Expr
    clause: str
    item: int
    in_aggregate: bool
    in_window: bool
    conditions: tuple[exp.Expr, ...]
    narrower: tuple[exp.Expr, ...]

    @property
    def is_try(self) -> bool:
        return self.node is not self.call


def occurrences(block: Block) -> list[Occurrence]:
    """The calls that may be made in a stage, in the order of the clauses."""
    found = []
    for key in _CALLED_IN:
        for index, root in enumerate(block.clause(key)):
            for node in own_nodes(root):
                if isinstance(node, exp.Anonymous) and is_marker(node):
                    try:
                        found.append(_occurrence(block, node, key, index, root))
                    except NotPlanned:
                        continue
    return _with_undecided(block, found)


def _with_undecided(block: Block, found: list[Occurrence]) -> list[Occurrence]:
    """Calls that see fewer rows where AND or OR is decided without them, unless the same call is made for all rows."""
    if all(one.narrower == one.conditions for one in found):
        return found
    keys = [key_of(block, one) for one in found]
    everywhere = {key for key, one in zip(keys, found, strict=True) if not one.narrower}
    return [
        one if key in everywhere else replace(one, conditions=one.narrower)
        for key, one in zip(keys, found, strict=True)
    ]


def why_in_place(block: Block, unread: Container[int]) -> list[tuple[exp.Anonymous, str]]:
    """The calls of a block that are made in place, each with the reason.

    Parameters
    ----------
    unread
        The items of the SELECT list that nobody reads.
    """
    in_source = "it stands in FROM, or in the condition of a join that needs both sides"
    roots = [root for key in ("from_", "joins", "laterals") for root in block.clause(key)]
    found = [
        (node, in_source)
        for root in roots
        for node in own_nodes(root)
        if isinstance(node, exp.Anonymous) and is_marker(node)
    ]
    for key in (*_CALLED_IN, "limit", "offset"):
        for index, root in enumerate(block.clause(key)):
            for node in own_nodes(root):
                if isinstance(node, exp.Anonymous) and is_marker(node):
                    try:
                        _occurrence(block, node, key, index, root)
                    except NotPlanned as reason:
                        found.append((node, str(reason)))
                    else:
                        unused = key == "expressions" and index in unread
                        found.append((node, "nobody reads it" if unused else "it depends on what is computed in place"))
    return found


def _occurrence(block: Block, call: exp.Anonymous, key: str, index: int, root: exp.Expr) -> Occurrence:
    _check_arguments(block, call)
    if key in {"limit", "offset"}:
        raise NotPlanned("it says how many rows there are")
    in_aggregate = in_window = crossed = False
    conditions: list[exp.Expr] = []
    narrower: list[exp.Expr] = []
    node: exp.Expr = call
    target: exp.Expr = call
    while node is not root:
        parent = node.parent
        assert parent is not None
        if isinstance(parent, (exp.Lambda, exp.Comprehension)):
            raise NotPlanned("it is called for the elements of a list")
        if isinstance(parent, exp.Try):
            target = _tried(call, node, parent)
        if not crossed or isinstance(parent, exp.Filter):
            needed = conditions_of(parent, node)
            sparing = block.marked.is_deterministic(call) and not _is_filter(parent, root, key)
            conditions = [*needed, *conditions]
            narrower = [*needed, *(_undecided(block, parent, node) if sparing else ()), *narrower]
        in_aggregate = in_aggregate or (not in_window and is_aggregate(parent))
        in_window = in_window or isinstance(parent, exp.Window)
        crossed = in_aggregate or in_window  # what stands around an aggregate or a window does not protect it
        node = parent
    if key == "expressions" and is_star(root):
        raise NotPlanned("it stands in an expression for several columns")
    if any(not block.may_be_copied(part) or any(map(is_unknown, own_nodes(part))) for part in conditions):
        raise NotPlanned("whether it is called depends on what must not be evaluated twice")
    return Occurrence(call, target, key, index, in_aggregate, in_window, tuple(conditions), tuple(narrower))


def _check_arguments(block: Block, call: exp.Anonymous) -> None:
    if any(map(has_subquery, call.expressions)):
        raise NotPlanned("an argument of it is a subquery")
    if any(map(is_star, call.expressions)):
        raise NotPlanned("an argument of it stands for several columns")
    if any(is_unknown(node) for part in call.expressions for node in own_nodes(part)):
        raise NotPlanned("an argument of it calls a macro")
    varies = block.refs(call) or is_volatile(call)
    varies = varies or any(isinstance(node, exp.Window) or is_aggregate(node) for node in own_nodes(call))
    if not call.expressions or (block.marked.is_deterministic(call) and not varies):
        raise NotPlanned("its arguments are constants: it is called once")


def _tried(call: exp.Anonymous, inside: exp.Expr, around: exp.Expr) -> exp.Expr:
    """The TRY that is evaluated with a call."""
    if inside is not call:
        raise NotPlanned("TRY holds more than the call")
    if not all(isinstance(part, (exp.Column, exp.Literal)) for part in call.expressions):
        raise NotPlanned("TRY holds arguments that may fail")
    return around


def key_of(block: Block, occurrence: Occurrence) -> str:
    """What two calls share that may be made once."""
    call = occurrence.call
    try_ = "TRY " if occurrence.is_try else ""
    volatile = any(is_volatile(part) for part in call.expressions)
    if volatile or not all(block.marked.is_deterministic(marker) for marker in markers_in(call)):
        return f"{try_}{call.this}"  # copies of one call, as an alias makes them, are one call
    return f"{try_}{block.marked.function(call)}({', '.join(same_key(part) for part in call.expressions)})"


def grouping_of(block: Block) -> frozenset[str]:
    """The keys of the calls that are part of what a block groups by."""
    return frozenset(
        key_of(block, occurrence) for occurrence in occurrences(block) if _in_group_keys(block, occurrence)
    )


def in_groups(block: Block, occurrence: Occurrence, grouping: frozenset[str]) -> bool:
    """Whether a call of an aggregated block is made for groups, not for rows.

    Parameters
    ----------
    grouping
        Keys of the calls that GROUP BY makes.
    """
    if not block.aggregated or occurrence.in_aggregate or occurrence.clause in {"where", "group"}:
        return False
    return key_of(block, occurrence) not in grouping


def _in_group_keys(block: Block, occurrence: Occurrence) -> bool:
    if occurrence.clause == "group":
        return True
    if occurrence.clause != "expressions" or occurrence.in_aggregate or not block.has("group"):
        return False
    item = block.items[occurrence.item].unalias()
    return any(key is item for key in block.group_keys())


def mask_of(occurrence: Occurrence) -> exp.Expr | None:
    """What is true for exactly the rows that a call sees; None for all of them.

    Each condition is evaluated where those before it are true, and may fail elsewhere.
    """
    mask: exp.Expr | None = None
    for condition in reversed(occurrence.conditions):
        inner = condition.copy()
        mask = inner if mask is None else exp.Case(ifs=[exp.If(this=inner, true=mask)])
    return mask


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


def _undecided(block: Block, parent: exp.Expr, child: exp.Expr) -> list[exp.Expr]:
    """What is true where the value of AND or OR depends on its second operand: what is cheap of the first is no decision.

    Null, as the value of a call that is not made, then changes nothing.
    """
    if not isinstance(parent, (exp.And, exp.Or)) or child.arg_key != "expression":
        return []
    cheap = [part for part in _operands(parent.this, type(parent)) if _is_cheap(block, part)]
    if isinstance(parent, exp.Or):
        return [_is_not_true(part) for part in cheap]
    return [exp.Not(this=exp.Is(this=_wrapped(part), expression=exp.false())) for part in cheap]


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    inside = node.unnest()
    if not isinstance(inside, kind):
        return [node]
    return [*_operands(inside.this, kind), *_operands(inside.expression, kind)]


def _is_cheap(block: Block, part: exp.Expr) -> bool:
    """Whether an expression may well be evaluated twice to spare a call."""
    nodes = list(own_nodes(part))
    return (
        block.may_be_copied(part)
        and not has_subquery(part)
        and not markers_in(part)
        and not any(isinstance(node, exp.Window) or is_aggregate(node) or is_unknown(node) for node in nodes)
        and any(isinstance(node, exp.Column) for node in nodes)
    )


def _is_filter(node: exp.Expr, root: exp.Expr, key: str) -> bool:
    """Whether a condition is one of those that must all be true, of which cheap ones come first anyway."""
    if key not in {"where", "having", "qualify"}:
        return False
    while node is not root and isinstance(node, (exp.And, exp.Paren)):
        assert node.parent is not None
        node = node.parent
    return node is root and isinstance(node, (exp.And, exp.Paren, exp.Where, exp.Having, exp.Qualify))


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
