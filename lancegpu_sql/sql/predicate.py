"""Predicates: one SQL expression over the columns of one table."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.tokens import TokenType, is_name, tokens_of

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def columns_of(predicate: str, known: Sequence[str]) -> tuple[str, ...] | None:
    """Which of the known columns a predicate reads, in their order.

    Never too few: a name that could be a column counts as one.

    Parameters
    ----------
    predicate
        One expression in DuckDB's SQL, without subqueries.
    known
        The table's columns.

    Returns
    -------
    tuple of str, or None
        None where it cannot be told, so that every column must be read: ``COLUMNS(*)``, a whole row taken as a value,
        syntax that only DuckDB reads.

    Raises
    ------
    InvalidQuery
        It is empty, more than one expression, a statement, or holds a subquery.
    """
    words = _checked_words(predicate)
    try:
        (expression,) = sqlglot.parse(predicate, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    if expression is None:
        raise InvalidQuery("The condition is empty.")
    if expression.find(exp.Query, exp.Values, exp.DDL, exp.DML, exp.Command) is not None:
        raise InvalidQuery(
            f"The condition {predicate.strip()!r} must be one expression over this table's columns, without a subquery. "
            "Find the keys with db.sql(...) first and name them in the condition.",
        )
    by_fold = {fold(name) for name in known}
    if expression.find(exp.Star, exp.Columns) is not None or not _all_known(expression, by_fold):
        return None
    return tuple(name for name in known if fold(name) in words)


def _checked_words(predicate: str) -> frozenset[str]:
    """Every word of the predicate, folded; refuses text that would not stay between a pair of brackets."""
    tokens = tokens_of(predicate)
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if depth < 0 or token.token_type is TokenType.SEMICOLON:
            raise InvalidQuery(f"The condition {predicate.strip()!r} must be one expression.")
    if depth or not tokens:
        raise InvalidQuery(f"The condition {predicate.strip()!r} is not complete.")
    return frozenset(fold(token.text) for token in tokens if is_name(token))


def _all_known(expression: exp.Expr, by_fold: set[str]) -> bool:
    """Whether each column reference has a part that is a known column, parameters of lambdas aside."""
    for column in expression.find_all(exp.Column):
        parts = {fold(part.name) for part in column.parts}
        if not parts & by_fold:
            return False
    return True
