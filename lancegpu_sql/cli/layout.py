"""How a table of answers fits a terminal: pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

LONGEST_WORD = 30
"""A longer word (a path, a digest) may be cut in two; any other stands whole."""

GAP = 2


def column_widths(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, whole: int = 0
) -> list[int] | None:
    """Return how wide each column of a table should be, or None where its words do not fit beside each other.

    Parameters
    ----------
    titles, rows
        What stands in the table.
    width
        Of the terminal.
    whole
        The column that is never wrapped: a name or an id, which one copies.
    """
    cells = [[title, *(row[at] for row in rows)] for at, title in enumerate(titles)]
    widths = [max(len(cell) for cell in column) for column in cells]
    least = [widths[at] if at == whole else max(map(_longest_word, column)) for at, column in enumerate(cells)]
    room = width - GAP * (len(titles) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # The widest gives way: it is text, which loses nothing by another line.
        at = max((at for at in range(len(widths)) if widths[at] > least[at]), key=lambda at: widths[at])
        widths[at] -= 1
    return widths


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines no wider than that, parted between words."""
    lines = [
        part for line in text.splitlines() for part in (textwrap.wrap(line, width, break_on_hyphens=False) or [""])
    ]
    return lines or [""]


def _longest_word(text: str) -> int:
    return min(max((len(word) for word in re.split(r"\s+", text)), default=0), LONGEST_WORD)
