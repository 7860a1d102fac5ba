"""Where a block is to be cut, and what is known of a stage while it is being cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import is_marker, own_nodes, same_key
from lancegpu_sql.sql.blocks.occurrences import Occurrence

Level = Literal["rows", "groups", "windows"]


class Names:
    """Fresh names of relations and columns, which stand nowhere in the query."""

    def __init__(self, text: str) -> None:
        self.prefix = "lancegpu"
        while self.prefix in text.lower():
            self.prefix += "_"
        self._counts = {kind: count(1) for kind in ("stage", "side", "in", "out")}

    def new(self, kind: Literal["stage", "side", "in", "out"]) -> str:
        return f"{self.prefix}_{kind}_{next(self._counts[kind])}"


@dataclass(frozen=True)
class Wanted:
    """Where a block is to be cut.

    Attributes
    ----------
    calls
        What the stage computes; identical calls elsewhere in the block are taken from it too.
    level
        What the stage's rows are: rows of FROM, groups, or rows with the values of windows.
    inside, outside
        Of the condition that filters at this level (WHERE, HAVING, QUALIFY), the parts before and after the stage.
    with_end
        Whether ORDER BY, LIMIT and OFFSET come before the stage.
    rule
        For people: what is done.
    """

    calls: tuple[Occurrence, ...]
    level: Level
    rule: str
    inside: tuple[exp.Expr, ...] = ()
    outside: tuple[exp.Expr, ...] = ()
    with_end: bool = False


@dataclass
class StageParts:
    """The columns of a stage's input, and those that it hands on."""

    name: str
    names: Names
    inputs: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    stars: list[tuple[exp.Expr, list[str]]] = field(default_factory=list)
    carried: dict[str, None] = field(default_factory=dict)

    def input(self, expression: exp.Expr) -> str:
        """The column of the input with an expression's value."""
        key = same_key(expression)
        if key not in self.inputs:
            self.inputs[key] = (self.names.new("in"), expression.copy())
        return self.inputs[key][0]


def conjuncts(select: exp.Select, key: str) -> list[exp.Expr]:
    """The parts of a clause's condition."""
    clause = select.args.get(key)
    return conjuncts_of(clause.this) if clause is not None else []


def conjuncts_of(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all be true, in their order."""
    parts: list[exp.Expr] = []
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And):
            pending += [part.expression, part.this]
        elif isinstance(part, exp.Paren) and isinstance(part.this, exp.And):
            pending.append(part.this)
        else:
            parts.append(part)
    return parts


def has_calls(node: exp.Expr, calls: Iterable[Occurrence]) -> bool:
    """Whether some of these calls stand in an expression."""
    nodes = {id(occurrence.call) for occurrence in calls}
    return any(is_marker(found) and id(found) in nodes for found in own_nodes(node))
