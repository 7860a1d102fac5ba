"""Types of DuckDB's that Arrow does not keep, and what carries their values through it.

DuckDB has a setting for that, `arrow_lossless_conversion`; it holds for every connection of an engine, and results would
come in types that hardly anybody reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lancegpu_sql.sql.names import quote

# A name of a field, which may read like a type, or a type.
_NAMES_AND_TYPES = re.compile(r'"(?:[^"]|"")*"|\b(?:U?HUGEINT|BIGNUM|UUID|BIT|TIME WITH TIME ZONE|JSON)\b')


def carrier_of(kind: str) -> str:
    """The type in which Arrow carries all values of a type: itself, or one with text in the place of what it loses."""
    return _NAMES_AND_TYPES.sub(lambda found: found[0] if found[0].startswith('"') else "VARCHAR", kind)


def carried(relation: Any) -> tuple[Any, Mapping[str, str]]:
    """A relation whose columns Arrow keeps, and the types of those that had another; `restored` gives them back."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    lost = {name: kind for name, kind in kinds.items() if carrier_of(kind) != kind}
    if not lost:
        return relation, {}
    return relation.project(_replaced({name: carrier_of(kind) for name, kind in lost.items()})), lost


def rows_of(relation: Any) -> tuple[pa.Table, Mapping[str, str]]:
    """All rows of a relation, in types that Arrow keeps, and the types of columns that had another."""
    whole, kinds = carried(relation)
    return whole.to_arrow_table(), kinds


def restored(source: str, kinds: Mapping[str, str]) -> str:
    """A query for the rows of a relation, with columns under the types that they had."""
    columns = _replaced(kinds) if kinds else "*"
    return f"SELECT {columns} FROM {quote(source)}"  # noqa: S608  # both are names of our own, quoted


def _replaced(kinds: Mapping[str, str]) -> str:
    casts = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in kinds.items())
    return f"* REPLACE ({casts})"
