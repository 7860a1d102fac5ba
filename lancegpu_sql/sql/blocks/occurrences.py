"""Where a block calls Functions: which of the calls a stage can make, and what they see."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.conditions import conditions_of, is_filter, undecided
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
from lancegpu_sql.sql.blocks.marked import NotPlanned

# Masks are asked for each row, and each holds all its conditions.
_MOST_CONDITIONS = 16
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

    @property
    def expands(self) -> bool:
        """Whether it reads what makes other than one row of one."""
        parts = (*self.call.expressions, *self.conditions)
        return any(is_expanding(node) for part in parts for node in own_nodes(part))


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
    return _narrowed(block, found)


def _narrowed(block: Block, found: list[Occurrence]) -> list[Occurrence]:
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
            if len(needed) + len(conditions) > _MOST_CONDITIONS:
                raise NotPlanned("it is called under many conditions")
            sparing = block.marked.is_deterministic(call) and not is_filter(parent, root, key)
            conditions = [*needed, *conditions]
            narrower = [*needed, *(undecided(block, parent, node) if sparing else ()), *narrower]
        in_aggregate = in_aggregate or (not in_window and is_aggregate(parent))
        in_window = in_window or isinstance(parent, exp.Window)
        crossed = in_aggregate or in_window  # what stands around an aggregate or a window does not protect it
        node = parent
    if key == "expressions" and is_star(root):
        raise NotPlanned("it stands in an expression for several columns")
    if any(not block.may_be_copied(part) or any(map(is_unknown, own_nodes(part))) for part in conditions):
        if not in_aggregate and _is_key(block, call):  # it is there, whatever stands around a mention of it
            return Occurrence(call, target, key, index, in_aggregate, in_window, (), ())
        raise NotPlanned("whether it is called depends on what must not be evaluated twice")
    return Occurrence(call, target, key, index, in_aggregate, in_window, tuple(conditions), tuple(narrower))


def _is_key(block: Block, call: exp.Anonymous) -> bool:
    keys = (key.unnest() for key in block.group_keys()) if block.has("group") else ()
    return any(isinstance(key, exp.Anonymous) and str(key.this) == str(call.this) for key in keys)


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
