"""EXPLAIN of DuckDB's statements: what is explained, and the query in it."""

from __future__ import annotations

import re
from collections.abc import Callable

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.inner_query import inner_query, inserted_query
from lancegpu_sql.sql.statements import split
from lancegpu_sql.sql.statements.model import Describe, Explain, Query

_EXPLAINS = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)


def explained_in(text: str) -> Explain | None:
    """The statement that a text has explained; None for another text."""
    statements = split(text, lambda _name: True) if _EXPLAINS.match(text) else []
    return statements[0] if len(statements) == 1 and isinstance(statements[0], Explain) else None


def query_explained(explained: Explain) -> str:
    """The query that is explained: of a statement that does something with rows, the one that gives them.

    Raises
    ------
    InvalidQuery
        There is none, or it is to be run.
    """
    statement = explained.statement
    if isinstance(statement, Query | Describe):
        return statement.text
    span = None if explained.analyze else inner_query(statement.text) or inserted_query(statement.text)
    if span is None:
        raise InvalidQuery("EXPLAIN tells how a query runs: give it the query of the statement, without the statement.")
    return statement.text[slice(*span)]


def with_explained(text: str, changed: Callable[[str], str]) -> str:
    """A text as changed by what changes queries, or the query in it that it has explained: to sqlglot that is one word."""
    explained = explained_in(text)
    if explained is None:
        return changed(text)
    inner = explained.statement.text
    return text.replace(inner, changed(inner))
