"""Values and names of a query's rows as texts: pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

# What would move a terminal's cursor, or worse. New lines and tabs have escapes of their own.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text without characters that a terminal obeys; its lines stay."""
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    """Return a text as one line."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def distinct(names: Sequence[str]) -> list[str]:
    """Return names that are all different: a second `a` is `a_1`, as in a DataFrame of DuckDB's."""
    found: list[str] = []
    for name in names:
        number, told = 0, name
        while told in found:
            number += 1
            told = f"{name}_{number}"
        found.append(told)
    return found


def is_said_as_json(kind: pa.DataType) -> bool:
    """Tell whether JSON has values of an Arrow type, at any depth."""
    if (
        pa.types.is_struct(kind)
        or pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
    ):
        return all(is_said_as_json(kind.field(at).type) for at in range(kind.num_fields))
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_null(kind)
    )


def _escaped(match: re.Match[str]) -> str:
    return "\\r" if match[0] == "\r" else f"\\x{ord(match[0]):02x}"
