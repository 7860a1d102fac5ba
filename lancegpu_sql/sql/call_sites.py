"""Where a name before a bracket calls a scalar function, told by tokens alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.tokens import Token, TokenType, is_name

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})

# The words after which an expression begins; after any other word a name with brackets is an alias, a type or a target.
_BEFORE_EXPRESSION = frozenset(
    {"ALL", "AND", "ASYMMETRIC", "BETWEEN", "BOTH", "BY", "CASE", "DEFAULT", "DISTINCT", "DIV", "ELSE", "ESCAPE", "FOR"}
    | {"FROM", "GLOB", "GROUPS", "HAVING", "IF", "ILIKE", "IN", "JOIN", "LATERAL", "LEADING", "LIKE", "LIMIT", "NOT"}
    | {"OFFSET", "ON", "OR", "PIVOT", "PLACING", "QUALIFY", "RANGE", "RETURNING", "ROWS", "SELECT", "SYMMETRIC", "THEN"}
    | {"TO", "TRAILING", "UNPIVOT", "USING", "WHEN", "WHERE", "ZONE"}
)
_NOT_BEFORE_CALL = frozenset(
    {TokenType.DOT, TokenType.DCOLON, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.STRING, TokenType.NUMBER}
    | {TokenType.PLACEHOLDER, TokenType.HEREDOC_STRING, TokenType.SEMICOLON, TokenType.IDENTIFIER}
)
_SCHEMAS = frozenset({"main", "memory", "temp", "system", "pg_catalog", "information_schema"})
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "LATERAL", "PIVOT", "UNPIVOT"})
_AFTER_TABLES = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "UNION", "EXCEPT", "INTERSECT"}
    | {"SELECT", "SET", "VALUES", "RETURNING"}
)
_BEGINS_QUERY = frozenset({"SELECT", "FROM", "WITH", "VALUES", "PIVOT", "UNPIVOT", "TABLE"})


class Site(Enum):
    """What a name before a bracket is."""

    CALL = auto()
    METHOD = auto()  # what stands before the dot is its first argument
    TABLE_FUNCTION = auto()
    OTHER = auto()


@dataclass
class _Frame:
    """What is inside one pair of brackets, as far as it has been read."""

    of_call: bool = False
    holds_query: bool = True
    in_tables: bool = False
    expects_table: bool = False
    of_distinct_on: bool = False


def word_of(token: Token) -> str:
    """A word of the language in capitals, the first where a token holds several (ORDER BY); empty for anything else."""
    words = _words_of(token)
    return words[0] if words else ""


def _words_of(token: Token) -> list[str]:
    return token.text.upper().split() if token.token_type is not TokenType.IDENTIFIER and is_name(token) else []


def closings(tokens: Sequence[Token]) -> dict[int, int]:
    """For each opening bracket that is closed, the index of the closing one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(index)
        elif token.token_type in CLOSING and opened:
            pairs[opened.pop()] = index
    return pairs


def sites(tokens: Sequence[Token], pairs: dict[int, int]) -> dict[int, Site]:
    """What each name before a bracket is, by its index."""
    found: dict[int, Site] = {}
    frames = [_Frame()]
    closed_distinct_on = False
    names_macro = _makes(tokens, "MACRO", "FUNCTION")
    names_index = _makes(tokens, "INDEX")
    for index, token in enumerate(tokens):
        frame, word = frames[-1], word_of(token)
        if index + 1 < len(tokens) and is_name(token) and tokens[index + 1].token_type is TokenType.L_PAREN:
            method = _is_method(tokens, index)
            macro_body = names_macro and len(frames) == 1 and index > 0 and word_of(tokens[index - 1]) == "AS"
            can_be = macro_body or _can_be_call(tokens, index, closed_distinct_on)
            if method:
                found[index] = Site.METHOD
            elif not can_be or _names_cte(tokens, pairs.get(index + 1)) or (names_index and len(frames) == 1):
                found[index] = Site.OTHER
            else:
                found[index] = Site.TABLE_FUNCTION if frame.expects_table else Site.CALL
        closed_distinct_on = False
        if token.token_type in OPENING:
            frames.append(_frame_at(tokens, index, frame))
            frame.expects_table = False
        elif token.token_type in CLOSING:
            if len(frames) > 1:
                closed_distinct_on = frames.pop().of_distinct_on
        else:
            _read(frame, tokens, index, word)
    return found


def _read(frame: _Frame, tokens: Sequence[Token], index: int, word: str) -> None:
    """Follow whether the next name in this frame would be a table."""
    token = tokens[index]
    if word in _BEFORE_TABLE and frame.holds_query and not compares(tokens, index):
        frame.in_tables = frame.expects_table = True
    elif word in _AFTER_TABLES:
        frame.in_tables = frame.expects_table = False
    elif token.token_type is TokenType.COMMA:
        frame.expects_table = frame.in_tables
    elif token.token_type is not TokenType.COLON:  # FROM alias: table
        named = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.COLON
        frame.expects_table = frame.expects_table and named


def compares(tokens: Sequence[Token], index: int) -> bool:
    """Whether this FROM belongs to IS [NOT] DISTINCT FROM."""
    before = [word_of(token) for token in tokens[max(index - 2, 0) : index]]
    return word_of(tokens[index]) == "FROM" and before in (["IS", "DISTINCT"], ["NOT", "DISTINCT"])


def _frame_at(tokens: Sequence[Token], index: int, outer: _Frame) -> _Frame:
    first = word_of(tokens[index + 1]) if index + 1 < len(tokens) else ""
    before = tokens[index - 1] if index else None
    of_call = tokens[index].token_type is not TokenType.L_PAREN or (
        before is not None and is_name(before) and word_of(before) not in _BEFORE_EXPRESSION
    )
    nested = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    holds_query = first in _BEGINS_QUERY or (not of_call and (nested or outer.expects_table))
    distinct_on = index > 1 and [word_of(token) for token in tokens[index - 2 : index]] == ["DISTINCT", "ON"]
    in_tables = outer.expects_table and not of_call and first not in _BEGINS_QUERY
    return _Frame(of_call, holds_query, in_tables, in_tables, distinct_on)


def _can_be_call(tokens: Sequence[Token], index: int, closed_distinct_on: bool) -> bool:
    if index == 0:
        return True
    before = tokens[index - 1]
    if before.token_type in _NOT_BEFORE_CALL:
        return False
    if before.token_type is TokenType.R_PAREN:
        return closed_distinct_on
    if before.token_type is TokenType.PARAMETER:
        return before.text == "@"
    return _words_of(before)[-1] in _BEFORE_EXPRESSION if is_name(before) else True


def _is_method(tokens: Sequence[Token], index: int) -> bool:
    """Whether a name is called on what stands before it: ``x.f()``, and not a function of a schema, ``main.f()``."""
    if index < 2 or tokens[index - 1].token_type is not TokenType.DOT:
        return False
    first = index - 2
    while first >= 2 and is_name(tokens[first]) and tokens[first - 1].token_type is TokenType.DOT:
        first -= 2
    return not (is_name(tokens[first]) and fold(tokens[first].text) in _SCHEMAS)


def _names_cte(tokens: Sequence[Token], close: int | None) -> bool:
    """Whether what stands in brackets is the list of columns of a CTE: ``name(a, b) [USING KEY (a)] AS (...``."""
    if close is None:
        return False
    after = [word_of(token) or token.text for token in tokens[close + 1 : close + 5]]
    if after[:2] == ["USING", "KEY"]:
        return True
    if after[:1] != ["AS"]:
        return False
    return after[1:2] == ["("] or after[1:3] == ["MATERIALIZED", "("] or after[1:4] == ["NOT", "MATERIALIZED", "("]


def _makes(tokens: Sequence[Token], *kinds: str) -> bool:
    """Whether the statement is a CREATE of one of these kinds."""
    words = [word_of(token) for token in tokens[:6]]
    return words[:1] == ["CREATE"] and any(kind in words for kind in kinds)
