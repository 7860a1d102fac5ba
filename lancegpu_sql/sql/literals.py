"""Python values as SQL literals, through sqlglot: nothing from outside is formatted into SQL by hand."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lancegpu_sql.errors import InvalidData

_PLAIN = (bool, int, float, str, Decimal, date, datetime)


def literal_of(value: Any) -> str:
    """Return the expression, in Lance's SQL (DataFusion's), that has this value.

    Raises
    ------
    InvalidData
        There is no such literal; write an SQL expression instead.
    """
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, list):
        return f"[{', '.join(literal_of(item) for item in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "double").sql(dialect="duckdb")
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), "timestamp").sql(dialect="postgres")
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "date").sql(dialect="postgres")
    if value is None or isinstance(value, _PLAIN):
        return exp.convert(value).sql(dialect="postgres")
    raise InvalidData(
        f"{value!r} of type {type(value).__name__} cannot be written as an SQL literal; "
        "use values_sql with an expression, or merge_insert with Arrow data"
    )
