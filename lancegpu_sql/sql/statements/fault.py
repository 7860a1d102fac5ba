"""What is said of SQL that is not understood: where, what stands there, and what was expected."""

from __future__ import annotations

from dataclasses import dataclass

from lancegpu_sql.errors import ParseError

_MOST_CHARACTERS = 160  # of a line that is shown; longer ones are cut around the place


@dataclass(frozen=True)
class Place:
    """A place in a text, counted from 1 as editors do."""

    line: int
    column: int


def place_of(text: str, at: int) -> Place:
    """Return the line and column of a character."""
    before = text[:at]
    line_start = before.rfind("\n") + 1
    return Place(before.count("\n") + 1, at - line_start + 1)


def fault(text: str, at: int, told: str, *, expected: str | tuple[str, ...] = ()) -> ParseError:
    """Return the error for a place in a text.

    Parameters
    ----------
    told
        What is wrong, without a full stop.
    expected
        What could stand there, none where that cannot be said.
    """
    wanted = (expected,) if isinstance(expected, str) else tuple(expected)
    place = place_of(text, at)
    says = f"{told}, at line {place.line}, column {place.column}"
    if wanted:
        says += f"; expected {listed(wanted)}"
    return ParseError(
        f"{says}.\n{_shown(text, at)}", line=place.line, column=place.column, position=at, expected=wanted
    )


def listed(wanted: tuple[str, ...]) -> str:
    """Return alternatives as people write them."""
    return wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} or {wanted[-1]}"


def _shown(text: str, at: int) -> str:
    """The line, and a caret below the place."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line, column = text[start : len(text) if end < 0 else end].rstrip("\r"), at - start
    if len(line) > _MOST_CHARACTERS:
        cut = max(0, min(column - _MOST_CHARACTERS // 2, len(line) - _MOST_CHARACTERS))
        line, column = line[cut : cut + _MOST_CHARACTERS], column - cut
    # Tabs stay tabs below, so that the caret stands under its character whatever their width.
    below = "".join("\t" if character == "\t" else " " for character in line[:column].ljust(column))
    return f"    {line}\n    {below}^"
