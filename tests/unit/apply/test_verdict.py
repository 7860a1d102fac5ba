"""What becomes of a call that failed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.retry import NO_RETRY, RetryPolicy
from lancegpu_sql.apply.verdict import Elsewhere, Fail, Retry, Skip, Split, on_failure, on_losses, on_timeout
from lancegpu_sql.errors import Owner
from lancegpu_sql.workers import CallFailure

OWNERS: tuple[Owner, ...] = ("user", "input", "function", "device", "memory", "environment", "timeout", "ours")


def verdict(owner: Owner, *, rows: int = 1, row_index: int | None = None, **given: Any) -> Any:
    usual: dict[str, Any] = {
        "tries": 1,
        "devices": 0,
        "device_failures": 0,
        "retry": NO_RETRY,
        "skips": True,
        "max_worker_losses": 3,
    }
    failure = CallFailure("raised", "ValueError: no", "ValueError", row_index=row_index)
    return on_failure(failure, owner, rows=rows, **(usual | given))


def test_a_row_that_raises_is_skipped_or_fails_the_work() -> None:
    assert verdict("user") == Skip("user")
    assert verdict("user", skips=False) == Fail("user")


def test_a_batch_that_raises_is_cut_into_many_pieces_so_that_few_rows_are_computed_often() -> None:
    assert verdict("user", rows=7) == Split((1,) * 7)
    assert verdict("user", rows=10_000) == Split((625,) * 16)


def test_a_row_that_raises_among_others_is_cut_out() -> None:
    assert verdict("user", rows=10, row_index=3) == Split((3, 1, 6), failed=1, then=Skip("user"))
    assert verdict("user", rows=3, row_index=0) == Split((1, 2), failed=0, then=Skip("user"))


def test_the_rows_behind_a_failed_one_come_in_growing_pieces() -> None:
    assert verdict("user", rows=1000, row_index=0).sizes == (1, 8, 16, 32, 64, 128, 256, 495)


def test_what_is_worth_another_try_waits_twice_as_long_each_time() -> None:
    retry = RetryPolicy(attempts=4, backoff_seconds=2.0)
    assert [verdict("user", tries=tries, retry=retry) for tries in (1, 2, 3, 4)] == [
        Retry(2.0),
        Retry(4.0),
        Retry(8.0),
        Skip("user"),
    ]


def test_a_row_to_be_tried_again_does_not_hold_up_the_others_of_its_call() -> None:
    retry = RetryPolicy(attempts=2)
    assert verdict("user", rows=5, row_index=4, retry=retry) == Split((4, 1), failed=1, then=Retry(1.0))


def test_a_device_gets_another_chance_elsewhere_and_two_of_them_clear_each_other() -> None:
    assert verdict("device", devices=1, device_failures=1) == Elsewhere()
    assert verdict("device", devices=2, device_failures=2) == Skip("input")
    assert verdict("device", devices=2, device_failures=2, rows=4) == Split((2, 2))
    assert verdict("device", devices=1, device_failures=4) == Fail("device")


def test_what_needs_too_much_memory_is_halved_down_to_a_row_which_fails_the_work() -> None:
    assert verdict("memory", rows=9) == Split((5, 4))
    assert verdict("memory") == Fail("memory")


@given(
    st.sampled_from(OWNERS),
    st.integers(1, 10_000),
    st.data(),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_only_users_and_inputs_cost_a_row_its_value_and_pieces_are_all_the_rows(
    owner, rows, data, skips, tries, devices
):
    index = data.draw(st.none() | st.integers(0, rows - 1))
    found = verdict(owner, rows=rows, row_index=index, skips=skips, tries=tries, devices=devices, retry=RetryPolicy(3))
    skip = found if isinstance(found, Skip) else found.then if isinstance(found, Split) else None
    if isinstance(skip, Skip):
        assert skips
        assert skip.owner in ("user", "input")
        assert owner in ("user", "device")
    if isinstance(found, Split):
        assert sum(found.sizes) == rows
        assert min(found.sizes) >= 1
        assert len(found.sizes) >= 2


@pytest.mark.parametrize(
    ("owner", "found"), [("input", Skip("input")), ("memory", Fail("memory")), ("environment", Fail("environment"))]
)
def test_a_row_alone_that_costs_workers(owner: Owner, found: object) -> None:
    assert on_losses(owner, rows=1, skips=True) == found


def test_rows_that_cost_workers_are_halved_unless_workers_are_lost_for_other_reasons() -> None:
    assert on_losses("input", rows=4, skips=False) == Split((2, 2))
    assert on_losses("environment", rows=4, skips=True) == Fail("environment")


@given(st.integers(1, 10_000))
def test_a_call_that_took_too_long_is_cut_until_one_row_is_left_which_fails_the_work(rows: int) -> None:
    times = 1
    while isinstance(cut := on_timeout(rows), Split):
        assert sum(cut.sizes) == rows
        assert 1 <= min(cut.sizes) <= max(cut.sizes) < rows
        rows, times = max(cut.sizes), times + 1
    assert cut == Fail("timeout")
    assert times <= 6
