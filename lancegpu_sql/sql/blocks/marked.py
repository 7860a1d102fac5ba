"""A query as a tree in which each call of a Function has a name of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.sql.blocks.dialect import Written, written
from lancegpu_sql.sql.blocks.kinds import MARKER, is_marker, markers_in
from lancegpu_sql.sql.functions_in_text import Signature, TextCall, renamed
from lancegpu_sql.sql.tokens import TokenType, tokens_of


class NotPlanned(Exception):
    """Something that the planner leaves to be called in place, and why."""


@dataclass(frozen=True)
class Marked:
    """A query's tree, and what its markers stand for."""

    tree: exp.Query
    calls: Mapping[str, str]  # marker -> folded name of the Function
    known: Mapping[str, Signature]

    def function(self, marker: exp.Anonymous) -> str:
        """The folded name of the Function that a marker calls."""
        return self.calls[str(marker.this)]

    def is_deterministic(self, marker: exp.Anonymous) -> bool:
        return self.known[self.function(marker)].deterministic

    def sql(self, node: exp.Expr) -> str:
        """SQL in which the Functions have their names again."""
        copy = node.copy()
        for marker in markers_in(copy):
            name = self.known[self.function(marker)].name
            marker.set("this", exp.to_identifier(name, quoted=True))
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
