"""SQL text as words with their exact places, read as DuckDB reads them.

sqlglot's tokens do not serve where places matter: it takes all that follows some words (EXPLAIN, CALL, FETCH) for one
string, counts columns from the wrong line behind a comment, and does not say where an open quote began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from lancegpu_sql.sql.statements.fault import fault


class Kind(Enum):
    """What a word is."""

    NAME = "name"
    QUOTED = "quoted name"
    STRING = "string"
    BODY = "text between $$"
    NUMBER = "number"
    PARAMETER = "parameter"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True)
class Word:
    """One word: its kind, what it means (quotes and escapes gone), and the characters it stands on.

    `folded` is what a keyword is compared by; empty for a word that cannot be one.
    """

    kind: Kind
    value: str
    start: int
    end: int

    @property
    def folded(self) -> str:
        """The word in upper case, where it is written bare."""
        return self.value.upper() if self.kind is Kind.NAME and self.value.isascii() else ""

    @property
    def is_name(self) -> bool:
        """Whether it can name something."""
        return self.kind in (Kind.NAME, Kind.QUOTED)


# The last are no spaces to Python, but to DuckDB: files begin with one of them.
_BLANK = r"[\s\u200b-\u200d\u2060\ufeff]"
_SPACE = re.compile(rf"(?:{_BLANK}|--[^\n\r]*)+")
_COMMENT_PART = re.compile(r"/\*|\*/")
_LETTER = rf"(?:[A-Za-z_]|(?!{_BLANK})[\u0080-\U0010ffff])"
_NAME = re.compile(rf"{_LETTER}(?:{_LETTER}|[0-9$])*")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?", re.ASCII
)
# Possessive: a quote that ends nothing is not taken for the end of what it stands in.
_STRING = re.compile(r"'(?:[^']|'')*+'")
_ESCAPED_STRING = re.compile(r"[eE]'(?:[^'\\]|\\.|'')*+'", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"]|"")*+"')
_DOLLAR = re.compile(rf"\$(?:{_LETTER}(?:{_LETTER}|[0-9])*)?\$")
_PARAMETER = re.compile(rf"\?\d*|\$\d+|\${_LETTER}(?:{_LETTER}|[0-9])*", re.ASCII)
_SIGN = re.compile(r":=|=>|->>|->|::|<=|>=|<>|!=|==|\|\||\.\.|.", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)


def words_of(text: str) -> list[Word]:
    """All words of a text, comments left out, and one of kind END.

    Raises
    ------
    ParseError
        A quote or a comment does not end; it says where it began.
    """
    return list(_words(text))


def _words(text: str) -> Iterator[Word]:
    at, end = 0, len(text)
    while True:
        at = _skipped(text, at)
        if at >= end:
            yield Word(Kind.END, "", end, end)
            return
        word = _word_at(text, at)
        yield word
        at = word.end


def _skipped(text: str, at: int) -> int:
    """Where the next word begins, spaces and comments left behind."""
    while at < len(text):
        space = _SPACE.match(text, at)
        if space is not None:
            at = space.end()
        elif text.startswith("/*", at):
            at = _comment_end(text, at)
        else:
            break
    return at


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for part in _COMMENT_PART.finditer(text, start):
        depth += 1 if part[0] == "/*" else -1
        if depth == 0:
            return part.end()
    raise fault(text, start, "This comment does not end", expected="*/")


def _word_at(text: str, at: int) -> Word:
    first = text[at]
    if first == "'":
        return _matched(text, at, _STRING, Kind.STRING, "This string does not end", "'")
    if first in "eE" and text.startswith("'", at + 1):
        return _matched(text, at, _ESCAPED_STRING, Kind.STRING, "This string does not end", "'")
    if first == '"':
        return _matched(text, at, _QUOTED, Kind.QUOTED, "This quoted name does not end", '"')
    if first == "$":
        opening = _DOLLAR.match(text, at)
        if opening is not None:
            return _body(text, at, opening[0])
    for pattern, kind in ((_PARAMETER, Kind.PARAMETER), (_NAME, Kind.NAME), (_NUMBER, Kind.NUMBER)):
        found = pattern.match(text, at)
        if found is not None:
            return Word(kind, found[0], at, found.end())
    sign = _SIGN.match(text, at)
    assert sign is not None
    return Word(Kind.SIGN, sign[0], at, sign.end())


def _matched(text: str, at: int, pattern: re.Pattern[str], kind: Kind, told: str, closing: str) -> Word:
    found = pattern.match(text, at)
    if found is None:
        _refuse_open(text, at, told, closing)
    return Word(kind, _unquoted(found[0]), at, found.end())


def _body(text: str, at: int, opening: str) -> Word:
    end = text.find(opening, at + len(opening))
    if end < 0:
        _refuse_open(text, at, f"This text that begins with {opening} does not end", opening)
    return Word(Kind.BODY, text[at + len(opening) : end], at, end + len(opening))


def _refuse_open(text: str, at: int, told: str, closing: str) -> NoReturn:
    raise fault(text, at, told, expected=closing)


def _unquoted(written: str) -> str:
    if written[0] == '"':
        return written[1:-1].replace('""', '"')
    if written[0] == "'":
        return written[1:-1].replace("''", "'")
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else "'", written[2:-1])
