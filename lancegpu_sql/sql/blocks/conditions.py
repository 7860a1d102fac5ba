"""What is true where an expression is evaluated, or decides the value of what it stands in."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.block import Block
from lancegpu_sql.sql.blocks.kinds import has_subquery, is_aggregate, is_unknown, markers_in, own_nodes

_MOST_SPARING = 4  # each is evaluated for every row


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


def undecided(block: Block, parent: exp.Expr, child: exp.Expr) -> list[exp.Expr]:
    """What is true where the value of AND or OR depends on its second operand: what is cheap of the first is no decision.

    Null, as the value of a call that is not made, then changes nothing.
    """
    if not isinstance(parent, (exp.And, exp.Or)) or child.arg_key != "expression":
        return []
    before = _operands(parent.this, type(parent))[-_MOST_SPARING:]
    cheap = [part for part in before if _is_cheap(block, part)]
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


def is_filter(node: exp.Expr, root: exp.Expr, key: str) -> bool:
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
