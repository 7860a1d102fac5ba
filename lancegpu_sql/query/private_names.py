"""Names under which DuckDB knows Functions while a query runs, and words of DuckDB's put back to what the user wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

from lancegpu_sql.sql.names import fold

# A character for private use that no name holds (Unicode, plane 15), so that such a name is never mistaken for another.
_FIRST, _COUNT = 0xF0000, 65_534
_numbers = itertools.count()

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_FIRST_SIGN = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + _COUNT - 1)}]")
_PRIVATE = re.compile(f'"?([{chr(_FIRST)}-{chr(_FIRST + _COUNT - 1)}][^\\s"(]*)"?')


def private_name(function: str) -> str:
    """A name for a Function in one query: as long as its own, so that what DuckDB points at in a line stays in place."""
    return chr(_FIRST + next(_numbers) % _COUNT) + "_" * (len(function) - 1)


def holds_private(text: str) -> bool:
    """Whether a text has such a name in it."""
    return _FIRST_SIGN.search(text) is not None


def unquoted(text: str, names: Iterable[str]) -> str:
    """A text with private names as the tokens they stand for: DuckDB reads them without quotes as well."""
    for private in names:
        text = text.replace(f'"{private}"', private)
    return text


def as_written(words: str, written: Mapping[str, str]) -> str:
    """What DuckDB says, with the names of Functions as it would write them.

    Parameters
    ----------
    written
        By private name, the Function's own.
    """

    def name_of(match: re.Match[str]) -> str:
        if match[1] not in written:
            return match[0]
        name = fold(written[match[1]])
        return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'

    return _PRIVATE.sub(name_of, words)


class WrittenLines:
    """The lines of texts with private names as they were written, to show these where DuckDB shows one of those."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}

    def note(self, private: str, written: str) -> None:
        """Note a text's lines; each character stands where it stood."""
        if len(private) == len(written):
            lines = zip(private.split("\n"), written.split("\n"), strict=True)
            self._written |= {one: other for one, other in lines if one != other}

    def put_back(self, words: str) -> str:
        """What DuckDB says, with a line that it shows as it was written."""
        return _SHOWN_LINE.sub(lambda match: match[1] + self._as_written(match[2]), words)

    def _as_written(self, shown: str) -> str:
        if shown in self._written:
            return self._written[shown]
        before, after = (_CUT if cut else "" for cut in (shown.startswith(_CUT), shown.endswith(_CUT)))
        part = shown[len(before) : len(shown) - len(after)]
        found = [line for line in self._written if (before or after) and line.count(part) == 1]
        if len(found) != 1:
            return shown
        start = found[0].index(part)
        return f"{before}{self._written[found[0]][start : start + len(part)]}{after}"


_SHOWN_LINE = re.compile(r"(\nLINE \d+: )(.*)")
_CUT = "..."
