"""Which fragments are made fewer, and for whom some are left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.maintenance.compaction import plan_compaction
from lancegpu_sql.maintenance.facts import Checkpoints, Refreshing, TableFacts
from lancegpu_sql.maintenance.steps import Wanted
from lancegpu_sql.tables import DataFileRef, Fragment
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS
from lancegpu_sql.tables.upkeep import FRAGMENT_BYTES

ASKED = Wanted(keep_seconds=0.0, checkpoint_seconds=60.0)
BY_ITSELF = Wanted(keep_seconds=0.0, checkpoint_seconds=60.0, small_fragments=3, sparing=True)
REFRESH = Refreshing("job 1", frozenset({1}), computes_again=True)
CHECKPOINTS = Checkpoints(Path("x"), "job 7", JobState.PAUSED, False, datetime(2020, 1, 1, tzinfo=UTC), 10, "lock")


def fragment(number: int, rows: int = 10, *, deleted: int = 0, size_bytes: int = 100) -> Fragment:
    return Fragment(number, rows, rows - deleted, (DataFileRef(f"f{number}", (0,), size_bytes),))


def table(*fragments: Fragment, stable: bool = True, **facts: object) -> TableFacts:
    return TableFacts("t", 1, fragments, stable, (), **facts)  # type: ignore[arg-type]


def groups(facts: TableFacts, wanted: Wanted = ASKED) -> list[list[int]]:
    return [list(group) for group in plan_compaction(facts, wanted)[0]]


def told(facts: TableFacts, wanted: Wanted = ASKED) -> list[tuple[str, str, str]]:
    return [(step.action, step.what, step.reason) for step in plan_compaction(facts, wanted)[1]]


def test_small_neighbours_become_one():
    assert groups(table(*map(fragment, range(3)))) == [[0, 1, 2]]


def test_a_small_fragment_alone_stays():
    assert groups(table(fragment(0))) == []


def test_a_large_fragment_parts_its_neighbours():
    facts = table(fragment(0), fragment(1), fragment(2, FRAGMENT_ROWS), fragment(3), fragment(4))
    assert groups(facts) == [[0, 1], [3, 4]]


def test_few_rows_of_many_bytes_are_not_small():
    large = fragment(1, size_bytes=FRAGMENT_BYTES)
    assert groups(table(fragment(0), large, fragment(2))) == []


def test_a_large_fragment_with_many_deleted_rows_is_written_anew():
    facts = table(fragment(0, FRAGMENT_ROWS, deleted=FRAGMENT_ROWS // 5))
    assert groups(facts) == [[0]]
    assert "more than 10% of the rows are deleted" in told(facts)[0][2]


def test_a_few_deleted_rows_are_left_where_they_are():
    assert groups(table(fragment(0, FRAGMENT_ROWS, deleted=9))) == []


def test_agents_wait_until_there_are_enough_small_fragments():
    assert groups(table(fragment(0), fragment(1)), BY_ITSELF) == []
    assert groups(table(*map(fragment, range(3))), BY_ITSELF) == [[0, 1, 2]]


def test_agents_do_not_write_a_larger_fragment_anew_for_the_sake_of_small_ones():
    facts = table(fragment(0), fragment(1, size_bytes=1000), *map(fragment, range(2, 6)))
    assert groups(facts, BY_ITSELF) == [[2, 3, 4, 5]]
    assert groups(facts) == [[0, 1, 2, 3, 4, 5]]


def test_what_a_refresh_would_compute_again_is_left_alone_and_that_is_told():
    facts = table(*map(fragment, range(5)), refreshing=(REFRESH,))
    assert groups(facts) == [[2, 3, 4]]
    assert ("leave fragments", "fragment 1", "for job 1") in told(facts)


def test_a_refresh_that_computes_nothing_again_holds_up_agents_only():
    facts = table(*map(fragment, range(5)), refreshing=(Refreshing("job 1", frozenset(range(5)), False),))
    assert groups(facts) == [[0, 1, 2, 3, 4]]
    assert groups(facts, BY_ITSELF) == []


@pytest.mark.parametrize("stable", [True, False])
def test_where_rows_change_their_ids_checkpoints_hold_compaction_up(stable: bool):
    facts = table(fragment(0), fragment(1), stable=stable, checkpoints=(CHECKPOINTS,))
    assert groups(facts) == ([[0, 1]] if stable else [])


def test_where_rows_change_their_ids_a_refresh_holds_compaction_up():
    refresh = Refreshing("job 1", frozenset({0, 1}), computes_again=False)
    assert groups(table(fragment(0), fragment(1), stable=False, refreshing=(refresh,))) == []
