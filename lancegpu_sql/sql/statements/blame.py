"""What DuckDB says of a query, told of the statement that the query was made for. Pure.

DuckDB shows a line of the query that it was given. Where that is not what the user wrote, its parts that the user wrote
still stand in it as they were, and so the place can be found in the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.sql.places import offset_of, query_error
from lancegpu_sql.sql.statements.changes import ROW_COLUMNS
from lancegpu_sql.sql.statements.fault import fault
from lancegpu_sql.sql.statements.model import Statement
from lancegpu_sql.sql.statements.scanner import words_of

_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^.*\s*\Z")
_PARSER = "Parser Error: "
_CANDIDATES = re.compile(r"\nCandidate bindings: (.*)")


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
        return fault(whole, offset_of(whole, statement.place), message.removeprefix(_PARSER).strip().rstrip("."))
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
        return fault(whole, at, "This expression is not complete" if is_end else said.removeprefix(_PARSER))
    return error if query == statement.text else query_error(said, whole, at, **error.facts)


def _before_numbering(original: str, numbered: str, at: int) -> int:
    """Where a character of the numbered text stands in the original, which has the same words."""
    if original == numbered:
        return at
    before, after = words_of(original), words_of(numbered)
    number = max(index for index, word in enumerate(after) if word.start <= at or index == 0)
    return min(before[number].start + at - after[number].start, len(original))


def _offset(query: str, place: re.Match[str]) -> int | None:
    """Which character of the query DuckDB points at; None where it shows only a part of the line."""
    lines = query.split("\n")
    number, column = int(place[1]) - 1, len(place[3]) - len(f"LINE {place[1]}: ")
    if number >= len(lines) or lines[number].rstrip() != place[2].rstrip() or column < 0:
        return None
    return sum(len(line) + 1 for line in lines[:number]) + column


def _in_statement(query: str, at: int, statement: str, parts: Iterable[str]) -> tuple[int, bool] | None:
    """Which character of the statement stands at one of the query, and whether a part has ended before it."""
    for part in parts:
        start = query.find(part)
        while start >= 0:
            # What is missing at a part's end is missed at what follows it in the query.
            if start <= at <= start + len(part) + 1 and part in statement:
                is_end = at >= start + len(part) and part != query
                return statement.index(part) + min(at - start, len(part)), is_end
            start = query.find(part, start + 1)
    return None


def _without_row_columns(message: str) -> str:
    """The message, without the columns that only a statement's own query knows."""
    found = _CANDIDATES.search(message)
    if found is None:
        return message
    left = [one for one in found[1].split(", ") if one.strip('"').rpartition(".")[2].strip('"') not in ROW_COLUMNS]
    shown = f"\nCandidate bindings: {', '.join(left)}" if left else ""
    return message[: found.start()] + shown + message[found.end() :]
