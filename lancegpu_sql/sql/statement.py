"""Statements that write: what they write to, and whether it lives only as long as the session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.tokens import Token, TokenType, is_name, tokens_of

_WRITING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "COPY", "COMMENT"})
_KINDS = frozenset(
    {"TABLE", "VIEW", "MACRO", "FUNCTION", "SEQUENCE", "TYPE", "INDEX", "SCHEMA", "SECRET", "DATABASE", "TRIGGER"}
)
# What may stand between the verb and the name of what is written to.
_FILLERS = frozenset(
    {
        "OR",
        "REPLACE",
        "IGNORE",
        "INTO",
        "FROM",
        "ONLY",
        "IF",
        "NOT",
        "EXISTS",
        "UNIQUE",
        "PERSISTENT",
        "RECURSIVE",
        "ON",
    }
    | {"TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "MATERIALIZED", "COLUMN", "UNLOGGED"}
)
_TEMPORARY = frozenset({"TEMP", "TEMPORARY"})


@dataclass(frozen=True)
class Write:
    """One statement that writes.

    Attributes
    ----------
    verb
        Its first word, such as ``INSERT`` or ``CREATE``.
    kind
        What sort of thing it writes to, such as ``TABLE`` or ``MACRO``; ``TABLE`` where it does not say.
    target
        The parts of its name; empty where it has none.
    temporary
        Whether it says ``TEMP``.
    text
        The statement without that word.
    """

    verb: str
    kind: str
    target: tuple[str, ...]
    temporary: bool
    text: str

    @property
    def words(self) -> list[str]:
        """The words before the name, in capitals: ``CREATE``, ``OR``, ``REPLACE``, …"""
        tokens = tokens_of(self.text)
        name = next(
            (at for at, token in enumerate(tokens) if self.target and token.text == self.target[0]), len(tokens)
        )
        return [token.text.upper() for token in tokens[:name]]

    @property
    def replaces(self) -> bool:
        """Whether it says ``OR REPLACE``."""
        return self.words[1:3] == ["OR", "REPLACE"]

    @property
    def if_not_exists(self) -> bool:
        """Whether it says ``IF NOT EXISTS``."""
        return self.words[-3:] == ["IF", "NOT", "EXISTS"]

    @property
    def keeps_as(self) -> str:
        """What the session knows it as: ``VIEW``, also of a table, which cannot be beside one, ``MACRO``, or nothing."""
        words = set(self.words[1:])
        if words & {"MACRO", "FUNCTION"}:
            return "MACRO"
        return "VIEW" if words & {"VIEW"} or (self.verb == "CREATE" and "TABLE" in words) else ""

    @property
    def title(self) -> str:
        """The statement's name for people: ``CREATE TABLE``, ``INSERT``."""
        return f"{self.verb} {self.kind}" if self.verb in {"CREATE", "ALTER", "DROP"} else self.verb


def write_in(text: str) -> Write | None:
    """What a statement writes; None where it writes nothing that has a name."""
    tokens = tokens_of(text)
    start = _verb_at(tokens)
    if start is None:
        return None
    verb = tokens[start].text.upper()
    kind, temporary, at = "TABLE", None, start + 1
    while at < len(tokens):
        word = tokens[at].text.upper() if tokens[at].token_type is not TokenType.IDENTIFIER else ""
        if word in _TEMPORARY and verb == "CREATE":
            temporary = tokens[at]
        elif word in _KINDS and not (verb == "INSERT" or _is_dotted(tokens, at)):
            kind = word
        elif word not in _FILLERS:
            break
        at += 1
    if verb == "CREATE" and kind == "INDEX":
        at = _after_word(tokens, at, "ON")
    target = _dotted_name(tokens, at)
    if verb == "COPY" and not (target and _word(tokens, at + 2 * len(target) - 1, skip_brackets=True) == "FROM"):
        return None  # it copies to a file
    plain = text if temporary is None else text[: temporary.start] + text[temporary.end + 1 :].lstrip()
    return Write(verb, kind, target, temporary is not None, plain)


def replace_tables(text: str, replacements: dict[str, str]) -> str:
    """A query in which the tables spelled exactly so are other ones, under the names they had.

    Parameters
    ----------
    replacements
        A name as spelled in the query, and the table it shall mean.
    """
    try:
        tree = sqlglot.parse_one(text, dialect="duckdb")
    except (SqlglotError, RecursionError) as exc:
        raise InvalidQuery(
            f"The tables {', '.join(sorted(replacements))} differ in case only, and this query is too unusual to tell "
            "them apart. Read one of them into a TEMP table of another name first.",
        ) from exc
    edits: list[tuple[int, int, str]] = []
    for table in tree.find_all(exp.Table):
        name = table.this
        if not isinstance(name, exp.Identifier) or table.db or name.name not in replacements:
            continue
        alias = "" if table.alias else f" AS {quote(name.name)}"
        edits.append((name.meta["start"], name.meta["end"] + 1, quote(replacements[name.name]) + alias))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _verb_at(tokens: Sequence[Token]) -> int | None:
    """Where the verb stands: first, or after the list that a WITH begins."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type is not TokenType.IDENTIFIER and token.text.upper() in _WRITING:
            return index
        if index == 0 and token.text.upper() != "WITH":
            return None
    return None


def _is_dotted(tokens: Sequence[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT


def _after_word(tokens: Sequence[Token], at: int, word: str) -> int:
    while at < len(tokens) and tokens[at].text.upper() != word:
        at += 1
    return at + 1


def _word(tokens: Sequence[Token], at: int, *, skip_brackets: bool) -> str:
    depth = 0
    for token in tokens[at:]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not (skip_brackets and (depth or token.token_type is TokenType.R_PAREN)):
            return token.text.upper()
    return ""


def _dotted_name(tokens: Sequence[Token], at: int) -> tuple[str, ...]:
    parts: list[str] = []
    while at < len(tokens) and is_name(tokens[at]):
        parts.append(tokens[at].text)
        if not _is_dotted(tokens, at):
            break
        at += 2
    return tuple(parts)
