"""Places in a text: line and column, and the line shown with a caret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lancegpu_sql.errors import InvalidQuery

_MOST_SHOWN_COLUMNS = 100


@dataclass(frozen=True)
class Place:
    """Where something stands in a text.

    Attributes
    ----------
    line
        Counted from 1.
    column
        In characters, counted from 1.
    shown
        The line, cut where it is long, and under it a caret.
    """

    line: int
    column: int
    shown: str


def place_of(text: str, offset: int) -> Place:
    """The place of the character at an offset; its end for one beyond it."""
    offset = min(max(offset, 0), len(text))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = offset - start
    first = max(0, column - _MOST_SHOWN_COLUMNS // 2)
    cut = line[first : first + _MOST_SHOWN_COLUMNS]
    # A tab before the caret stays one, so that both lines are set alike.
    lead = "".join(char if char == "\t" else " " for char in cut[: column - first])
    return Place(text.count("\n", 0, offset) + 1, column + 1, f"{cut}\n{lead}^")


def offset_of(text: str, place: Place) -> int:
    """The offset of the character at a place."""
    return sum(len(line) + 1 for line in text.split("\n")[: place.line - 1]) + place.column - 1


def query_error(message: str, text: str, offset: int, **facts: Any) -> InvalidQuery:
    """An error that says where: with the attributes `line` and `column`, and the line and a caret in its message."""
    place = place_of(text, offset)
    return InvalidQuery(
        f"{message}\nLine {place.line}, column {place.column}:\n{place.shown}",
        line=place.line,
        column=place.column,
        **facts,
    )
