"""SQL text as tokens of DuckDB's dialect, each with its place in the text."""

from __future__ import annotations

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from lancegpu_sql.errors import InvalidQuery

__all__ = ["Token", "TokenType", "is_name", "tokens_of"]


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, comments left out.

    Raises
    ------
    InvalidQuery
        A quote or a comment has no end.
    """
    try:
        return list(DuckDB().tokenize(text))
    except SqlglotError as exc:
        raise InvalidQuery(f"This SQL has a quote or a comment that does not end: {text.strip()[:200]}") from exc


def is_name(token: Token) -> bool:
    """Whether a token can name something: anything but a literal or a sign."""
    if token.token_type is TokenType.IDENTIFIER:
        return True
    literal = token.token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.HEREDOC_STRING, TokenType.PARAMETER}
    return not literal and (token.text[:1].isalpha() or token.text[:1] == "_")
