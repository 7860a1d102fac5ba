"""Which names a Function may have."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from lancegpu_sql.errors import InvalidName

# LanceDB's own rule, so that a Function keeps its name when it moves there.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def check_name(name: object) -> None:
    """Refuse a name that LanceDB or SQL could not carry.

    Raises
    ------
    InvalidName
        With the rule, or with what already has that name in SQL.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        hint = " Give it one with name=...." if name == "<lambda>" else ""
        raise InvalidName(
            f"{name!r} cannot name a Function: a name starts with a letter or _ and goes on with letters, digits, "
            f"_, . and -.{hint}",
            name=name,
        )
    if name.lower() in duckdb_names():
        raise InvalidName(
            f"{name!r} means something in SQL already: DuckDB has a function or a word of that name. "
            f"Choose another, such as name={'my_' + name!r}.",
            name=name,
        )


@cache
def duckdb_names() -> frozenset[str]:
    """Give DuckDB's own functions, and the words of its grammar that cannot be called, in lower case.

    They stand in a file, so that declaring a Function needs no DuckDB; `scripts/duckdb_names.py` writes it.
    """
    return frozenset(Path(__file__).with_name("duckdb_names.txt").read_text(encoding="ascii").split())
