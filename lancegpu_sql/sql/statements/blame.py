"""What DuckDB says of a query, told of the statement that the query was made for. Pure.

DuckDB shows a line of the query that it was given. Where that is not what the user wrote, its parts that the user wrote
still stand in it as they were, and so the place can be found in the user's text.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from itertools import accumulate

from lancegpu_sql.errors import InvalidQuery, LanceGpuError, ParseError
from lancegpu_sql.sql.places import offset_of, place_of, query_error
from lancegpu_sql.sql.statements.changes import FOUND, ROW_COLUMNS
from lancegpu_sql.sql.statements.fault import fault
from lancegpu_sql.sql.statements.model import Statement
from lancegpu_sql.sql.statements.scanner import Kind, Word, words_of

_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^.*\s*\Z")
_CUT = "..."
_LEAST_SHOWN = 30  # of a cut line, to be sure of where it is from
_PARSER = "Parser Error: "
_NOT_WRITTEN = (*ROW_COLUMNS, FOUND)
_CANDIDATES = re.compile(r"\nCandidate bindings: (.*)")
_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
# Words that no statement ends with, and what comes behind them.
_THEN = {
    **dict.fromkeys(("FROM", "JOIN", "INTO"), "a table"),
    **dict.fromkeys(("WHERE", "HAVING", "QUALIFY", "ON", "AND", "OR", "NOT"), "a condition"),
    **dict.fromkeys(("SELECT", "BY", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "LIKE", "LIMIT"), "an expression"),
    **dict.fromkeys(("GROUP", "ORDER", "PARTITION"), "BY"),
    **dict.fromkeys(("UNION", "EXCEPT", "INTERSECT", "WITH"), "a query"),
}


def told_of(
    error: InvalidQuery, query: str, statement: Statement, whole: str, *, written: str = "", parts: Iterable[str] = ()
) -> LanceGpuError:
    """Return the error as one about the statement.

    Parameters
    ----------
    query
        What DuckDB was given.
    statement, whole
        What the user wrote, and the text that it is part of.
    written
        The statement with its parameters numbered, where `parts` are pieces of that.
    parts
        Pieces of it that stand in the query as they were written; the whole of it if left out.
    """
    message = _without_row_columns(error.message)
    place = _PLACE.search(message)
    if place is None and message.startswith(_PARSER):
        begins = offset_of(whole, statement.place)
        return _unfinished(whole, begins, statement.text, len(statement.text)) or fault(
            whole, begins, message.removeprefix(_PARSER).strip().rstrip(".")
        )
    if place is None:
        return error if message == error.message else InvalidQuery(message, **error.facts)
    said = message[: place.start()].rstrip()
    at = _offset(query, place)
    text = written or statement.text
    found = None if at is None else _in_statement(query, at, text, parts or (text,))
    if found is None:
        return error if query == statement.text else InvalidQuery(said, **error.facts)
    start, is_end = found
    at = offset_of(whole, statement.place) + _before_numbering(statement.text, text, start)
    if said.startswith(_PARSER):
        if is_end:
            return fault(whole, at, "This expression is not complete")
        begins = offset_of(whole, statement.place)
        return _unfinished(whole, begins, statement.text, at - begins) or fault(
            whole, at, said.removeprefix(_PARSER) + _meant(statement.text, at - begins)
        )
    if query == statement.text and offset_of(whole, statement.place) == 0:  # DuckDB shows just that
        shown = place_of(whole, at)
        return InvalidQuery(message, **{"line": shown.line, "column": shown.column, **error.facts})
    return query_error(said, whole, at, **error.facts)


def _unfinished(whole: str, begins: int, text: str, at: int) -> ParseError | None:
    """The error of a statement that stops short, if its last word is what DuckDB does not take."""
    words = words_of(text)[:-1]
    if not words or at < words[-1].start:
        return None
    last = words[-1]
    if last.folded in _THEN:
        return fault(whole, begins + last.end, "The statement is not complete", expected=_THEN[last.folded])
    opened: list[Word] = []
    for word in words:
        if _mark(word) in _CLOSED_BY:
            opened.append(word)
        elif opened and _mark(word) == _CLOSED_BY[_mark(opened[-1])]:
            opened.pop()
    if not opened:
        return None
    return fault(whole, begins + opened[-1].start, "This is not closed", expected=_CLOSED_BY[_mark(opened[-1])])


def _mark(word: Word) -> str:
    return word.value if word.kind is Kind.SIGN else word.folded


def _meant(text: str, at: int) -> str:
    """The keyword that was perhaps meant by the word that DuckDB does not take, or by the one before, which it took for a name."""
    words = words_of(text)[:-1]
    near = [index for index, word in enumerate(words) if word.start <= at]
    for word in words[max(near[-1] - 1, 0) : near[-1] + 1] if near else ():
        guess = difflib.get_close_matches(word.folded, _THEN, n=1, cutoff=0.75) if word.folded not in _THEN else []
        if guess:
            return f" (did you mean {guess[0]}?)"
    return ""


def _before_numbering(original: str, numbered: str, at: int) -> int:
    """Where a character of the numbered text stands in the original, which has the same words."""
    if original == numbered:
        return at
    before, after = words_of(original), words_of(numbered)
    number = max(index for index, word in enumerate(after) if word.start <= at or index == 0)
    return min(before[number].start + at - after[number].start, len(original))


def _offset(query: str, place: re.Match[str]) -> int | None:
    """Which character of the query DuckDB points at; None where that cannot be told from what it shows."""
    lines = query.split("\n")
    number, column = int(place[1]) - 1, _characters(place[2], len(place[3]) - len(f"LINE {place[1]}: "))
    if number >= len(lines) or column < 0:
        return None
    before = sum(len(line) + 1 for line in lines[:number])
    for spaces in (False, True):
        pieces = [_as_shown(character, spaces=spaces) for character in lines[number]]
        found = _in_line("".join(pieces), place[2].rstrip(), column)
        if found is not None:
            return before + sum(end <= found for end in accumulate(map(len, pieces)))
    return None


def _in_line(line: str, shown: str, column: int) -> int | None:
    """Where in a line something is that stands at a column of what is shown of it: of a long line, a part."""
    if line.rstrip() == shown:
        return column
    cut = len(_CUT) if shown.startswith(_CUT) else 0
    part = shown[cut:].removesuffix(_CUT)
    if len(part) < _LEAST_SHOWN or line.count(part) != 1:
        return None
    return column + line.index(part) - cut


def _as_shown(character: str, *, spaces: bool) -> str:
    """A character as DuckDB shows it: once it has understood a text, each byte of a space that is none in ASCII as a plain one."""
    if character == "\0":
        return "\\0"
    return " " * len(character.encode()) if spaces and character.isspace() and not character.isascii() else character


def _characters(shown: str, width: int) -> int:
    """How many characters of a line are before its caret, which DuckDB places as a terminal shows them."""
    for count, character in enumerate(shown):
        if width <= 0:
            return count
        wide = unicodedata.east_asian_width(character) in "WF"
        width -= 0 if unicodedata.combining(character) else 2 if wide else 1
    return len(shown) + width


def _in_statement(query: str, at: int, statement: str, parts: Iterable[str]) -> tuple[int, bool] | None:
    """Which character of the statement stands at one of the query, and whether a part has ended before it."""
    ended = None
    for part in filter(None, parts):
        start = query.find(part)
        while start >= 0 and part in statement:
            if start <= at < start + len(part):
                return statement.index(part) + at - start, False
            # What is missing at a part's end is missed at what follows it in the query.
            if start + len(part) <= at <= start + len(part) + 1:
                ended = ended or (statement.index(part) + len(part), part != query)
            start = query.find(part, start + 1)
    return ended


def _without_row_columns(message: str) -> str:
    """The message, without the columns that only a statement's own query knows."""
    found = _CANDIDATES.search(message)
    if found is None:
        return message
    left = [one for one in found[1].split(", ") if one.strip('"').rpartition(".")[2].strip('"') not in _NOT_WRITTEN]
    shown = f"\nCandidate bindings: {', '.join(left)}" if left else ""
    return message[: found.start()] + shown + message[found.end() :]
