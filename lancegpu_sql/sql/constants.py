"""Constants in a text as the values they are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.tokens import Token, TokenType

_WORDS = {TokenType.TRUE: True, TokenType.FALSE: False, TokenType.NULL: None}
_TEXTS = (TokenType.STRING, TokenType.HEREDOC_STRING)
_LONGEST_NUMBER = 40


class NoConstant(Exception):
    """Something else than a constant, and the token at which that is seen; None where something is missing."""

    def __init__(self, token: Token | None) -> None:
        super().__init__()
        self.token = token


def constant_of(tokens: Sequence[Token]) -> Any:
    """The value of a text, a number, TRUE, FALSE or NULL, or of a list ``[…]`` or struct ``{…}`` of such.

    Raises
    ------
    NoConstant
        The tokens are something else.
    """
    value, after = _value(tokens, 0)
    if after < len(tokens):
        raise NoConstant(tokens[after])
    return value


def constant_text(value: Any) -> str:
    """A constant as it may be written."""
    match value:
        case list():
            return f"[{', '.join(map(constant_text, value))}]"
        case dict():
            return (
                "{" + ", ".join(f"{constant_text(name)}: {constant_text(item)}" for name, item in value.items()) + "}"
            )
        case str():
            return "'" + value.replace("'", "''") + "'"
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
    return repr(value)


def number_of(text: str) -> int | float | None:
    """A number as it is written; None for what is none, or none that can be kept."""
    try:
        if len(text) > _LONGEST_NUMBER:
            return None
        return int(text, 0) if text[:2].lower() in ("0x", "0b") else int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _value(tokens: Sequence[Token], at: int) -> tuple[Any, int]:
    token = _at(tokens, at)
    kind = token.token_type
    if kind in _TEXTS:
        return token.text, at + 1
    if kind in _WORDS:
        return _WORDS[kind], at + 1
    if kind is TokenType.L_BRACKET:
        return _list(tokens, at + 1)
    if kind is TokenType.L_BRACE:
        return _struct(tokens, at + 1)
    negative = kind is TokenType.DASH
    token = _at(tokens, at + negative)
    number = number_of(token.text) if token.token_type is TokenType.NUMBER else None
    if number is None:
        raise NoConstant(token)
    return (-number if negative else number), at + negative + 1


def _list(tokens: Sequence[Token], at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while _at(tokens, at).token_type is not TokenType.R_BRACKET:
        item, at = _value(tokens, at)
        items.append(item)
        at = _after_item(tokens, at, TokenType.R_BRACKET)
    return items, at + 1


def _struct(tokens: Sequence[Token], at: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    while (token := _at(tokens, at)).token_type is not TokenType.R_BRACE:
        if token.token_type in (TokenType.NUMBER, TokenType.COMMA, TokenType.COLON):
            raise NoConstant(token)
        colon = _at(tokens, at + 1)
        if colon.token_type is not TokenType.COLON:
            raise NoConstant(colon)
        bare = token.token_type not in (*_TEXTS, TokenType.IDENTIFIER)
        fields[fold(token.text) if bare else token.text], at = _value(tokens, at + 2)
        at = _after_item(tokens, at, TokenType.R_BRACE)
    return fields, at + 1


def _after_item(tokens: Sequence[Token], at: int, end: TokenType) -> int:
    token = _at(tokens, at)
    if token.token_type is TokenType.COMMA:
        return at + 1
    if token.token_type is not end:
        raise NoConstant(token)
    return at


def _at(tokens: Sequence[Token], at: int) -> Token:
    if at >= len(tokens):
        raise NoConstant(None)
    return tokens[at]
