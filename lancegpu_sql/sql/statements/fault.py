"""What is said of SQL that is not understood: where, what stands there, and what was expected."""

from __future__ import annotations

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.places import place_of

# Those that would be taken for the sentence's own.
_SIGNS = frozenset("(),.=")


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
        says += f"; expected {listed(tuple(repr(one) if one in _SIGNS else one for one in wanted))}"
    return ParseError(f"{says}.\n{place.shown}", line=place.line, column=place.column, position=at, expected=wanted)


def listed(wanted: tuple[str, ...]) -> str:
    """Return alternatives as people write them."""
    return wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} or {wanted[-1]}"
