"""What size the CPU workers of a Function have, as they are killed for memory."""

from __future__ import annotations

import pytest
import worker_functions
from applied import need_for

from lancegpu_sql.errors import CatalogError
from lancegpu_sql.placement.cpu_ladder import parse_cpu_ladder
from lancegpu_sql.workers.cpu_sizes import CpuSizes

LADDER = parse_cpu_ladder("small 1 2GiB, medium 2 8GiB, large 4 32GiB")
LOAD = need_for(worker_functions.double).load


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.rungs: dict[tuple[str, int], str] = {}

    def cpu_rung(self, name: str, version: int) -> str | None:
        return self.rungs.get((name, version))

    def keep_cpu_rung(self, name: str, version: int, rung: str) -> None:
        self.rungs[name, version] = rung


class Locked:
    """A store that is never to be had."""

    def cpu_rung(self, name: str, version: int) -> str | None:
        raise CatalogError("locked")

    def keep_cpu_rung(self, name: str, version: int, rung: str) -> None:
        raise CatalogError("locked")


def test_a_function_begins_at_the_lowest_rung() -> None:
    assert CpuSizes(LADDER, None).rung_of(LOAD) == "small"


def test_a_worker_killed_for_memory_is_replaced_one_rung_up() -> None:
    sizes = CpuSizes(LADDER, None)
    told = sizes.outgrow(LOAD, "small")
    assert told == "a worker of double was killed for memory at small (2 GiB); the next one is medium (8 GiB)"
    assert sizes.rung_of(LOAD) == "medium"


def test_two_workers_killed_on_one_rung_are_one_step() -> None:
    sizes = CpuSizes(LADDER, None)
    for _ in range(2):
        assert "the next one is medium" in str(sizes.outgrow(LOAD, "small"))
    assert sizes.rung_of(LOAD) == "medium"


def test_there_is_nothing_above_the_highest_rung() -> None:
    sizes = CpuSizes(LADDER, None)
    assert sizes.outgrow(LOAD, "large") is None
    assert sizes.rung_of(LOAD) == "small"


def test_the_next_pool_begins_where_the_last_one_ended() -> None:
    kept = Kept()
    CpuSizes(LADDER, kept).outgrow(LOAD, "medium")
    assert CpuSizes(LADDER, kept).rung_of(LOAD) == "large"


def test_a_rung_that_the_operator_took_away_is_forgotten() -> None:
    kept = Kept()
    kept.keep_cpu_rung(LOAD.function, LOAD.version, "huge")
    assert CpuSizes(LADDER, kept).rung_of(LOAD) == "small"


def test_without_a_ladder_there_are_no_sizes() -> None:
    sizes = CpuSizes((), Kept())
    assert sizes.rung_of(LOAD) is None
    assert sizes.outgrow(LOAD, None) is None


def test_what_cannot_be_kept_holds_as_long_as_the_pool_does(caplog: pytest.LogCaptureFixture) -> None:
    sizes = CpuSizes(LADDER, Locked())
    sizes.outgrow(LOAD, "small")
    assert sizes.rung_of(LOAD) == "medium"
    assert "could not be kept: locked" in caplog.text
