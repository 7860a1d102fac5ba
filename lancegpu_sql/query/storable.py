"""As what tables keep DuckDB's types that Arrow has no like of. Pure."""

from __future__ import annotations

import re

from lancegpu_sql.errors import InvalidData

# A name of a field or a value of an ENUM, which may read like a type, or a type.
_QUOTED = r"""\"(?:[^"]|"")*"|'(?:[^']|'')*'"""
_LOST = re.compile(rf"{_QUOTED}|\b(?:BIT|TIME WITH TIME ZONE)\b")
_REFUSED = re.compile(rf"{_QUOTED}|\b(?:INTERVAL|UNION|VARIANT|GEOMETRY)\b")


def arrow_keeps(kind: str) -> str:
    """The type under which Arrow keeps all values of a type: itself, or one with text in the place of what it loses."""
    return _LOST.sub(lambda found: found[0] if found[0][0] in "\"'" else "VARCHAR", kind)


def check_stored(kind: str, column: str) -> None:
    """Refuse a column of a type that no table keeps.

    Raises
    ------
    InvalidData
        With what to do.
    """
    for found in _REFUSED.finditer(kind):
        if found[0][0] not in "\"'":
            raise InvalidData(
                f"Column {column!r} has the type {kind}, and no table keeps {found[0]}: cast it to another type, such as VARCHAR.",
                column=column,
            )
