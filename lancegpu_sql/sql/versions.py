"""``FROM t AT (VERSION => n)``: an older version of a table, found in any SQL by its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.places import query_error
from lancegpu_sql.sql.tokens import Token, TokenType, is_name, tokens_of

_NAMED = re.compile(r"(.+) \(version (\d{1,18})\)", re.DOTALL)
# After these words a name is a table's; after any other word it is the alias of one.
_BEFORE_TABLE = frozenset(
    {"FROM", "JOIN", "INTO", "USING", "DESCRIBE", "SUMMARIZE", "TABLE", "UPDATE", "PIVOT", "UNPIVOT"}
)


def with_version_names(text: str) -> tuple[str, dict[str, tuple[str, int]]]:
    """A text in which each table at a version has a name of its own.

    Returns
    -------
    str, dict
        The text, and for each such name the table's name as written and its version.

    Raises
    ------
    InvalidQuery
        It asks for something else than the number of a version.
    """
    if "version" not in text.lower():
        return text, {}
    tokens = tokens_of(text)
    edits: list[tuple[int, int, str]] = []
    names: dict[str, tuple[str, int]] = {}
    for index in range(1, len(tokens) - 2):
        if not _is_clause(tokens, index):
            continue
        table, alias = _table_before(tokens, index)
        if table is None:
            continue
        number, end = _number(text, tokens, index)
        name = f"{table.text} (version {number})"
        names[name] = (table.text, number)
        shown = "" if alias or _is_alias(tokens, end + 1) else f" AS {quote(table.text)}"
        edits.append((table.start, table.end + 1, quote(name) + shown))
        edits.append((tokens[index - 1].end + 1, tokens[end].end + 1, ""))
    for start, stop, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[stop:]
    return text, names


def version_named(name: str) -> tuple[str, int] | None:
    """The table and the version that a name of `with_version_names` stands for; None for another name."""
    found = _NAMED.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def _word(tokens: Sequence[Token], index: int) -> str:
    token = tokens[index] if 0 <= index < len(tokens) else None
    return "" if token is None or token.token_type is TokenType.IDENTIFIER else token.text.upper()


def _is_clause(tokens: Sequence[Token], index: int) -> bool:
    return (
        _word(tokens, index) == "AT"
        and tokens[index + 1].token_type is TokenType.L_PAREN
        and _word(tokens, index + 2) == "VERSION"
        and is_name(tokens[index - 1])
    )


def _table_before(tokens: Sequence[Token], index: int) -> tuple[Token | None, bool]:
    """The token of the table's name, None where another database's name stands before it; and whether it has an alias."""
    at, alias = index - 1, False
    if _word(tokens, at - 1) == "AS":
        at, alias = at - 2, True
    elif at and is_name(tokens[at - 1]) and _word(tokens, at - 1) not in _BEFORE_TABLE:
        at, alias = at - 1, True
    dotted = at > 0 and tokens[at - 1].token_type is TokenType.DOT
    return (None if dotted or at < 0 else tokens[at]), alias


def _is_alias(tokens: Sequence[Token], index: int) -> bool:
    """Whether an alias stands behind the clause."""
    aliases = {TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER}
    return index < len(tokens) and tokens[index].token_type in aliases


def _number(text: str, tokens: Sequence[Token], index: int) -> tuple[int, int]:
    """The number of the version, and the index of the closing bracket."""
    end = index + 5
    inside = tokens[index + 3 : end]
    if (
        len(tokens) <= end
        or tokens[end].token_type is not TokenType.R_PAREN
        or inside[1].token_type is not TokenType.NUMBER
        or not inside[1].text.isdigit()
        or inside[0].token_type not in {TokenType.FARROW, TokenType.COLON_EQ, TokenType.EQ}
    ):
        raise query_error("A version is given by its number: AT (VERSION => 3).", text, tokens[index].start)
    return int(inside[1].text), end
