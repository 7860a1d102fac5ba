"""Where in a text DuckDB stumbled: it says so where it runs one, not where it makes a relation of one."""

from __future__ import annotations

import re
from typing import Any

import duckdb

_LINE = re.compile(r"\n\nLINE (\d+): .*\Z", re.DOTALL)


def placed(error: duckdb.Error, cursor: duckdb.DuckDBPyConnection, text: str, parameters: Any = None) -> duckdb.Error:
    """The error with which a text did not bind, with the line that DuckDB points at and its caret, where it says them."""
    if _LINE.search(str(error)):
        return error
    try:
        cursor.execute(f"EXPLAIN\n{text}", parameters)  # binds it, and runs nothing
    except duckdb.Error as exc:
        line = _LINE.search(str(exc))
        if line is None or not str(exc).startswith(str(error)) or int(line[1]) < 2:
            return error
        number = int(line[1]) - 1
        before, after = f"LINE {line[1]}: ", f"LINE {number}: "
        shown, _, caret = line[0].removeprefix("\n\n").partition("\n")
        return type(error)(f"{error}\n\n{shown.replace(before, after, 1)}\n{caret[len(before) - len(after) :]}")
    return error
