"""Which calls have constants for arguments and are certain to be reached: DuckDB may make them once, while it plans."""

from __future__ import annotations

from collections.abc import Container, Sequence

from lancegpu_sql.sql.call_sites import CLOSING, OPENING, word_of
from lancegpu_sql.sql.tokens import Token, TokenType, is_name

_CONSTANT = frozenset(
    {TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.PARAMETER}
    | {TokenType.PLACEHOLDER, TokenType.COMMA, TokenType.DASH, *OPENING, *CLOSING}
)
_NAMES_ARGUMENT = frozenset({TokenType.COLON_EQ, TokenType.FARROW})
# Functions that do not evaluate every argument for every row.
_PROTECT = frozenset({"COALESCE", "IF", "IFF", "IFNULL", "NVL", "TRY"})


def is_constant(tokens: Sequence[Token], span: tuple[int, int], calls: Container[int]) -> bool:
    """Whether all that stands in the brackets of a call is constants, and calls with such.

    Parameters
    ----------
    span
        The brackets' places among the tokens.
    calls
        The places of the names of all calls.
    """
    first, last = span
    for index in range(first + 1, last):
        token, after = tokens[index], tokens[index + 1]
        named = is_name(token) and after.token_type in _NAMES_ARGUMENT
        if not (token.token_type in _CONSTANT | _NAMES_ARGUMENT or named or index in calls):
            return False
    return last > first + 1


def is_reached(tokens: Sequence[Token], index: int) -> bool:
    """Whether nothing around a name may keep what it calls from being evaluated: no CASE, no COALESCE and the like."""
    depth = cases = 0
    for at in range(index - 1, -1, -1):
        token = tokens[at]
        if token.token_type in CLOSING:
            depth += 1
        elif token.token_type in OPENING:
            depth -= 1
            if depth < 0:
                depth = 0
                if at and word_of(tokens[at - 1]) in _PROTECT:
                    return False
        elif depth == 0 and token.token_type is TokenType.CASE:
            cases += 1
        elif depth == 0 and token.token_type is TokenType.END:
            cases -= 1
        if cases > 0:
            return False
    return True
