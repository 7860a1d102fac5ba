"""A query as a tree in which each call of a Function has a name of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.sql.blocks.dialect import Written, written
from lancegpu_sql.sql.blocks.kinds import MARKER, is_marker, markers_in
from lancegpu_sql.sql.call_reader import Signature, TextCall, values_in, without_values
from lancegpu_sql.sql.constants import constant_text
from lancegpu_sql.sql.functions_in_text import renamed
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.tokens import TokenType, tokens_of


class NotPlanned(Exception):
    """Something that the planner leaves to be called in place, and why."""


@dataclass(frozen=True)
class Marked:
    """A query's tree, and what its markers stand for."""

    tree: exp.Query
    calls: Mapping[str, str]  # marker -> the Function that it calls, as in `TextCall.function`
    known: Mapping[str, Signature]

    def function(self, marker: exp.Anonymous) -> str:
        """The Function that a marker calls, as in `TextCall.function`."""
        return self.calls[str(marker.this)]

    def signature(self, function: str) -> Signature:
        """What is known of a Function."""
        return self.known[without_values(function)]

    def is_deterministic(self, marker: exp.Anonymous) -> bool:
        return self.signature(self.function(marker)).deterministic

    def call(self, function: str, arguments: Sequence[exp.Expr], *, with_values: bool = True) -> exp.Expr:
        """A call of a Function by its name."""
        values = values_in(function) if with_values else {}
        named = [exp.Var(this=f"{quote(name)} := {constant_text(value)}") for name, value in values.items()]
        name = exp.to_identifier(self.signature(function).name, quoted=True)
        return exp.Anonymous(this=name, expressions=[*arguments, *named])

    def sql(self, node: exp.Expr, *, with_values: bool = True) -> str:
        """SQL in which the Functions have their names again, and the constants that their classes are made with."""
        copy = node.copy()
        for marker in markers_in(copy):
            call = self.call(self.function(marker), marker.expressions, with_values=with_values)
            marker.set("this", call.this)
            marker.set("expressions", call.expressions)
        return written(copy)


def mark(text: str, calls: Sequence[TextCall], known: Mapping[str, Signature]) -> Marked:
    """Parse a query.

    Raises
    ------
    NotPlanned
        sqlglot does not understand it, or it is something else than one query.
    """
    names = {call.start: f"{MARKER}{number}" for number, call in enumerate(calls, 1)}
    renamed_text = numbered(renamed(text, calls, lambda call: names[call.start]))
    try:
        trees = [tree for tree in sqlglot.parse(renamed_text, dialect=Written) if tree is not None]
    except (SqlglotError, RecursionError) as exc:
        raise NotPlanned("this SQL is understood by DuckDB alone") from exc
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotPlanned("this is no single query")
    tree = trees[0]
    if {str(node.this) for node in tree.find_all(exp.Anonymous) if is_marker(node)} != set(names.values()):
        raise NotPlanned("this SQL is understood by DuckDB alone")
    return Marked(tree, {names[call.start]: call.function for call in calls}, known)


def numbered(text: str) -> str:
    """The text with ``$1``, ``$2``... for its parameters ``?``, so that they can be taken apart."""
    places = [token.start for token in tokens_of(text) if token.token_type is TokenType.PLACEHOLDER]
    for number, place in reversed(list(enumerate(places, 1))):
        text = f"{text[:place]}${number}{text[place + 1 :]}"
    return text
