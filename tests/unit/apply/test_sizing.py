"""Call sizes, calls ahead, and when another worker pays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.sizing import (
    GROWTH,
    MAX_CALL_ROWS,
    BusyMeter,
    Pace,
    PaceMeter,
    another_worker_pays,
    call_rows,
    calls_ahead,
)

OPTIONS = ApplyOptions()
paces = st.builds(Pace, st.floats(1e-3, 1e9), st.floats(1e-6, 1e4), st.floats(0, 1e9), st.integers(1, MAX_CALL_ROWS))


def pace(rows_per_second=1e9, seconds_per_call=0.01, result_bytes_per_row=8.0, largest_rows=MAX_CALL_ROWS):
    return Pace(rows_per_second, seconds_per_call, result_bytes_per_row, largest_rows)


def test_the_very_first_call_has_one_row():
    assert call_rows(None, 50, OPTIONS) == 1


def test_a_fast_function_gets_the_largest_calls():
    assert call_rows(pace(), 50, OPTIONS) == MAX_CALL_ROWS


def test_batch_size_bounds_a_call():
    assert call_rows(pace(), 50, ApplyOptions(batch_size=256)) == 256


def test_calls_grow_from_the_largest_measured_one():
    assert call_rows(pace(largest_rows=9), 50, OPTIONS) == 9 * GROWTH


def test_a_slow_function_is_called_for_about_a_second():
    assert call_rows(pace(rows_per_second=40), 50, OPTIONS) == 40


def test_large_arguments_make_small_calls():
    assert call_rows(pace(), 1_000_000, ApplyOptions(call_target_bytes=8_000_000)) == 8


def test_large_results_make_small_calls():
    assert call_rows(pace(result_bytes_per_row=1536), 50, ApplyOptions(call_target_bytes=1_536_000)) == 1000


@given(st.none() | paces, st.floats(0, 1e10), st.none() | st.integers(1, 100_000))
def test_a_call_is_never_empty_and_never_above_its_bounds(measured, row_bytes, batch_size):
    rows = call_rows(measured, row_bytes, ApplyOptions(batch_size=batch_size))
    assert 1 <= rows <= min(MAX_CALL_ROWS, batch_size or MAX_CALL_ROWS)


def test_nothing_goes_ahead_of_the_first_measure():
    assert calls_ahead(None, 1, OPTIONS) == 1


def test_short_calls_go_ahead_several_at_a_time():
    assert calls_ahead(pace(seconds_per_call=0.01), 1, ApplyOptions(in_flight_calls=4)) == 4


def test_of_long_calls_one_goes_ahead():
    assert calls_ahead(pace(seconds_per_call=1.0), 1, OPTIONS) == 2


def test_a_worker_that_computes_many_calls_at_a_time_gets_as_many_and_one():
    assert calls_ahead(pace(), 16, OPTIONS) == 17


def test_the_pace_forgets_a_slow_start():
    meter = PaceMeter()
    for rows, seconds in ((1, 20.0), (16, 0.001), (16, 0.001), (16, 0.001)):
        meter.note(rows, seconds, 8 * rows)
    assert meter.pace is not None
    assert meter.pace.rows_per_second > 10_000


@pytest.mark.parametrize(("rows_per_second", "rows"), [(1_000_000, GROWTH * GROWTH), (3, 3), (0.1, 1)])
def test_before_anything_is_measured_the_pace_of_earlier_work_counts_up_to_a_bound(rows_per_second, rows):
    meter = PaceMeter()
    meter.expect(rows_per_second)
    assert call_rows(meter.pace, 50, OPTIONS) == rows


def test_what_is_measured_takes_the_place_of_what_was_expected():
    meter = PaceMeter()
    meter.note(100, 10.0, 800)
    meter.expect(1_000_000)
    assert call_rows(meter.pace, 50, OPTIONS) == 10


def test_workers_that_wait_are_not_busy():
    meter = BusyMeter()
    for second in range(1, 9):
        meter.note(second, 0.1)
    assert meter.share(8.0, workers=1) < 0.2


def test_workers_that_compute_all_the_time_are_busy():
    meter = BusyMeter()
    for second in range(1, 9):
        meter.note(second, 0.99)
    assert meter.share(8.0, workers=1) > 0.9


def test_a_warm_worker_pays_at_once():
    assert another_worker_pays(busy_share=1.0, computing_seconds=0.01, starting_seconds=10, warm=True)


def test_a_worker_that_must_be_started_pays_once_the_work_has_gone_on_for_longer_than_that():
    assert not another_worker_pays(busy_share=1.0, computing_seconds=15, starting_seconds=10, warm=False)
    assert another_worker_pays(busy_share=1.0, computing_seconds=25, starting_seconds=10, warm=False)


def test_work_that_comes_in_pieces_gets_another_worker_sooner():
    pieces = {"busy_share": 1.0, "computed_before_seconds": 1000, "starting_seconds": 10, "warm": False}
    assert another_worker_pays(**pieces, computing_seconds=3)
    assert not another_worker_pays(**pieces, computing_seconds=1)


def test_work_that_comes_in_pieces_gets_it_for_the_next_ones_where_little_is_left_of_this():
    started = {"busy_share": 1.0, "computing_seconds": 25, "starting_seconds": 10, "warm": False, "left_seconds": 9}
    assert not another_worker_pays(**started)
    assert another_worker_pays(**started, computed_before_seconds=1)


def test_a_warm_worker_pays_as_soon_as_rows_wait():
    begun = {"busy_share": 0.1, "computing_seconds": 0.001, "starting_seconds": 1, "queued_seconds": 0.01}
    assert another_worker_pays(**begun, warm=True)
    assert not another_worker_pays(**begun, warm=False)


def test_no_worker_pays_that_would_come_when_all_is_done():
    started = {"busy_share": 1.0, "computing_seconds": 1000, "starting_seconds": 10, "warm": False}
    assert not another_worker_pays(**started, left_seconds=9)
    assert another_worker_pays(**started, left_seconds=11)
    assert another_worker_pays(**{**started, "warm": True}, left_seconds=9)


def test_no_worker_pays_where_the_others_wait_for_rows():
    assert not another_worker_pays(busy_share=0.3, computing_seconds=1000, starting_seconds=1, warm=True)
