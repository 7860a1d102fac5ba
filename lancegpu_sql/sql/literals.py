"""Python values as SQL literals, through sqlglot: nothing from outside is formatted into SQL by hand."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lancegpu_sql.errors import InvalidData

_PLAIN = (bool, int, float, str)
_MOST_DECIMAL_DIGITS = 38  # of Arrow's decimal128, which is as far as a cast from text goes


def literal_of(value: Any) -> str:
    """Return the expression, in Lance's SQL (DataFusion's), that has this value.

    Raises
    ------
    InvalidData
        There is no such literal; write an SQL expression instead.
    """
    expression = _expression_of(value)
    if expression is None:
        raise InvalidData(
            f"{value!r} of type {type(value).__name__} cannot be written as an SQL literal; "
            "use values_sql with an expression, or merge_insert with Arrow data"
        )
    return expression


def _expression_of(value: Any) -> str | None:
    match value:
        case None:
            return exp.null().sql(dialect="postgres")
        case bytes():
            return f"X'{value.hex()}'"
        case list():
            return _list(value)
        case float() if not math.isfinite(value):
            return exp.cast(exp.Literal.string(str(value)), "double").sql(dialect="duckdb")
        case datetime():
            return _cast(value.isoformat(), "timestamp")
        case date():
            return _cast(value.isoformat(), "date")
        case Decimal():
            return _decimal(value)
        case int() if not -(2**63) <= value < 2**64:
            raise InvalidData("a whole number of more than 64 bits fits no column; a decimal.Decimal may")
        case _ if isinstance(value, _PLAIN):
            return exp.convert(value).sql(dialect="postgres")
    return None


def _list(items: list[Any]) -> str | None:
    """A list as DataFusion reads one: plain literals of one type, neither casts nor nulls nor lists, and not empty."""
    kinds = set(map(type, items))
    if kinds == {int, float}:
        items, kinds = [float(item) for item in items], {float}
    if len(kinds) != 1 or not kinds <= set(_PLAIN) or (kinds == {float} and not all(map(math.isfinite, items))):
        return None
    return f"[{', '.join(map(literal_of, items))}]"


def _decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None
    text = format(value, "f")
    scale = len(text.partition(".")[2])
    digits = max(sum(map(str.isdigit, text)), 1)
    # Written as a number it would be read as a float, and lose digits.
    return _cast(text, f"decimal({digits}, {scale})") if digits <= _MOST_DECIMAL_DIGITS else None


def _cast(text: str, kind: str) -> str:
    return exp.cast(exp.Literal.string(text), kind).sql(dialect="postgres")
