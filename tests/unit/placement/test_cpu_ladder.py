"""The sizes of CPU workers, as an operator writes them."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.cpu_ladder import CpuRung, parse_cpu_ladder, rung_named

GIB = 1024**3
TWO = (CpuRung("small", 0.5, GIB), CpuRung("large", 4.0, 32 * GIB))


def test_a_ladder_is_read_rung_by_rung() -> None:
    assert parse_cpu_ladder("small 0.5 1GiB,  large 4 32GiB") == TWO


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the CPU ladder is empty"),
        ("small 1", "'small 1' is no rung"),
        ("Small 1 2GiB", "'Small 1 2GiB' is no rung"),
        ("small many 2GiB", "is no rung"),
        ("small nan 2GiB", "is no rung"),
        ("small 0 2GiB", "is no rung"),
        ("small 1 2 gigs", "is no rung"),
        ("small 1 0GiB", "is no rung"),
        ("small 1 2Gi", "is no rung"),
        ("small 1 2GiB, small 2 4GiB", "has small twice"),
        ("small 1 2GiB, medium 2 2GiB", "'medium' of the CPU ladder has no more memory than 'small'"),
    ],
)
def test_what_is_no_ladder_is_refused_with_the_rung_at_fault(text: str, says: str) -> None:
    with pytest.raises(InvalidPlacement, match=says):
        parse_cpu_ladder(text)


def test_a_rung_that_is_gone_from_the_ladder_is_its_lowest() -> None:
    assert [rung_named(TWO, name).name for name in (None, "medium", "large")] == ["small", "small", "large"]


def test_a_rung_is_said_with_its_memory() -> None:
    assert str(TWO[1]) == "large (32 GiB)"
