"""Part sizes: a probe, growth, the target."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.parts import GROWTH, PROBE_ROWS, PartPlan, next_part_rows

rows = st.integers(1, 1_000_000)
rates = st.none() | st.floats(1e-3, 1e9)


def test_the_first_part_is_a_probe():
    assert next_part_rows(None, None, target_seconds=30, max_rows=1_000_000) == PROBE_ROWS


def test_a_probe_is_no_larger_than_a_part_may_be():
    assert next_part_rows(None, None, target_seconds=30, max_rows=3) == 3


def test_a_fast_function_reaches_the_largest_part_in_six_steps():
    sizes = itertools.accumulate(
        range(6), lambda size, _: next_part_rows(size, 1e7, target_seconds=30, max_rows=1_000_000), initial=10
    )
    assert list(sizes) == [10, 160, 2560, 40_960, 655_360, 1_000_000, 1_000_000]


def test_a_slow_function_gets_parts_of_the_target_time():
    assert next_part_rows(160, 20.0, target_seconds=30, max_rows=1_000_000) == 600


def test_a_function_that_became_slow_gets_smaller_parts_at_once():
    assert next_part_rows(655_360, 2.0, target_seconds=30, max_rows=1_000_000) == 60


@given(rows, rates, st.floats(0.001, 3600), rows)
def test_a_part_is_never_empty_too_large_or_grown_too_fast(previous, rate, target_seconds, max_rows):
    size = next_part_rows(previous, rate, target_seconds=target_seconds, max_rows=max_rows)
    assert 1 <= size <= max(PROBE_ROWS, min(max_rows, previous * GROWTH))
    assert size <= max_rows


def test_a_larger_part_waits_for_a_measure_of_the_one_before():
    plan = PartPlan(30, 1_000_000)
    assert plan.take(plan.rows_left(None))
    assert not plan.may_go_on
    plan.measured(plan.index)
    assert plan.may_go_on


def test_a_measure_of_an_earlier_part_is_not_enough():
    plan = PartPlan(30, 1_000_000)
    plan.take(plan.rows_left(None))
    plan.measured(0)
    plan.take(plan.rows_left(1e6))
    plan.measured(0)
    assert not plan.may_go_on


def test_the_largest_parts_do_not_wait():
    plan = PartPlan(30, 10)
    plan.take(plan.rows_left(None))
    assert plan.may_go_on


def test_without_a_bound_there_is_one_part():
    plan = PartPlan(30, None)
    assert not any(plan.take(min(plan.rows_left(None), 1_000_000)) for _ in range(20))
    assert plan.may_go_on
    assert plan.index == 0


def test_rows_fill_a_part_until_it_closes():
    plan = PartPlan(30, 1_000_000)
    assert plan.rows_left(None) == 10
    assert not plan.take(4)
    assert plan.rows_left(None) == 6
    assert plan.take(6)
