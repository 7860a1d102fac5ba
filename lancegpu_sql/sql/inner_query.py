"""The query inside of a statement of DuckDB's own: ``CREATE TABLE t AS …``, ``COPY (…) TO …``, ``INSERT INTO t …``."""

from __future__ import annotations

from collections.abc import Sequence

from lancegpu_sql.sql.call_sites import CLOSING, OPENING, closings, word_of
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.tokens import Token, TokenType, tokens_of

_BEGINS_QUERY = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "SUMMARIZE"})


def inner_query(text: str) -> tuple[int, int] | None:
    """Where the query stands in a statement that makes something of its columns; None where there is none."""
    tokens = tokens_of(text)
    verb = word_of(tokens[0]) if tokens else ""
    if verb == "COPY" and len(tokens) > 1 and tokens[1].token_type is TokenType.L_PAREN:
        close = closings(tokens).get(1)
        return None if close is None else (tokens[1].end + 1, tokens[close].start)
    if verb == "CREATE" and {"TABLE", "VIEW"} & {word_of(token) for token in tokens[:6]}:
        start = _after_as(tokens)
        end = len(tokens) - (tokens[-1].token_type is TokenType.SEMICOLON)
        return None if start is None else (tokens[start].start, tokens[end - 1].end + 1)
    return None


def inserted_query(text: str) -> tuple[int, int] | None:
    """Where the query stands whose rows an INSERT adds; None where that cannot be told, or it is VALUES."""
    tokens = tokens_of(text)
    if not tokens or word_of(tokens[0]) != "INSERT":
        return None
    start, depth, end = None, 0, len(tokens) - (tokens[-1].token_type is TokenType.SEMICOLON)
    for index in range(1, end):
        token, word = tokens[index], word_of(tokens[index])
        if depth == 0 and start is None and word in _BEGINS_QUERY:
            start = index
        elif depth == 0 and start is not None and (word == "RETURNING" or _is_conflict(tokens, index)):
            end = index
            break
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
    if start is None or word_of(tokens[start]) in ("VALUES", "DESCRIBE", "SUMMARIZE"):
        return None
    return tokens[start].start, tokens[end - 1].end + 1


def _is_conflict(tokens: Sequence[Token], index: int) -> bool:
    return word_of(tokens[index]) == "ON" and index + 1 < len(tokens) and word_of(tokens[index + 1]) == "CONFLICT"


def with_column_names(text: str, span: tuple[int, int], names: Sequence[str], name: str) -> str:
    """A statement in which the query inside has a name, and its columns these."""
    start, end = span
    named = f"FROM (\n{text[start:end]}\n) AS {quote(name)}({', '.join(map(quote, names))})"
    return f"{text[:start]}{named}{text[end:]}"


def _after_as(tokens: Sequence[Token]) -> int | None:
    """The index of the first token of the query behind AS."""
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        after = tokens[index + 1]
        begins = word_of(after) in _BEGINS_QUERY or after.token_type is TokenType.L_PAREN
        if depth == 0 and word_of(token) == "AS" and begins:
            return index + 1
    return None
