from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.sql.literals import literal_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-7, "-7"),
        ("it's", "'it''s'"),
        ("a\\b -- c", "'a\\b -- c'"),
        (b"\x00'", "X'0027'"),
        (math.inf, "CAST('inf' AS DOUBLE)"),
        (date(2024, 1, 2), "CAST('2024-01-02' AS DATE)"),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "CAST('2024-01-02T03:00:00+00:00' AS TIMESTAMP)"),
        (Decimal("1E+3"), "CAST('1000' AS DECIMAL(4, 0))"),
        (Decimal("-0.10"), "CAST('-0.10' AS DECIMAL(3, 2))"),
        ([1, 2.5], "[1.0, 2.5]"),
    ],
)
def test_a_value_is_written_as_the_expression_that_has_it(value: Any, text: str) -> None:
    assert literal_of(value) == text


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        (1,),
        [],
        [1, None],
        [[1]],
        [1, "a"],
        [math.nan],
        [date(2024, 1, 2)],
        Decimal("NaN"),
        Decimal("1." + "0" * 38),
    ],
)
def test_what_has_no_literal_is_refused_with_what_to_use(value: Any) -> None:
    with pytest.raises(InvalidData, match="values_sql"):
        literal_of(value)
