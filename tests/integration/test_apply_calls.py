"""Calls: rows submitted by whoever has some, to a real worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
import worker_functions
from applied import Remembering, need_for, numbers

from lancegpu_sql.apply import ApplyOptions, Calls, Memo
from lancegpu_sql.errors import Cancelled, RowFailed
from lancegpu_sql.placement import LocalPlacement
from lancegpu_sql.workers import WorkerPool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    placement = LocalPlacement(tmp_path_factory.mktemp("run"))
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()
    placement.close()


class Caller:
    """Makes calls that are closed at the end, and what they are made with."""

    def __init__(self, pool: WorkerPool) -> None:
        self.watch = Remembering()
        self.cancelled = threading.Event()
        self._pool = pool
        self._open: list[Calls] = []

    def of(self, target: Any, *, memo: Memo | None = None, output: pa.DataType | None = None, **how: Any) -> Calls:
        calls = Calls(
            need_for(target, output=output),
            self._pool,
            ApplyOptions(),
            value_type=output or pa.int64(),
            watch=self.watch,
            cancelled=self.cancelled,
            memo=memo,
            **how,
        )
        self._open.append(calls)
        return calls

    def rows_computed(self) -> int:
        return sum(rows for rows, _, _ in self.watch.calls)

    def close(self) -> None:
        for calls in self._open:
            calls.close()


@pytest.fixture
def caller(pool: WorkerPool) -> Iterator[Caller]:
    one = Caller(pool)
    yield one
    one.close()


def test_values_come_back_to_who_submitted_their_rows(caller: Caller):
    calls = caller.of(worker_functions.double)
    pending = [calls.submit(numbers(range(start, start + 300))) for start in range(0, 3000, 300)]
    assert [value for one in pending for value in one.result().to_pylist()] == [2 * number for number in range(3000)]


def test_a_single_row_does_not_wait_for_more(caller: Caller):
    calls = caller.of(worker_functions.double)
    for number in range(20):
        assert calls.submit(numbers([number])).result().to_pylist() == [2 * number]


def test_threads_may_submit_at_once(caller: Caller):
    calls = caller.of(worker_functions.double, memo=Memo(1 << 20))
    with ThreadPoolExecutor(4) as threads:
        starts = range(0, 4000, 100)
        found = list(threads.map(lambda start: calls.submit(numbers(range(start, start + 150))).result(), starts))
    assert [values.to_pylist() for values in found] == [[2 * n for n in range(start, start + 150)] for start in starts]


def test_equal_arguments_are_computed_once(caller: Caller):
    calls = caller.of(worker_functions.double, memo=Memo(1 << 20))
    for _ in range(5):
        assert calls.submit(numbers([1, 2, 1, 2])).result().to_pylist() == [2, 4, 2, 4]
    assert caller.rows_computed() == 2


def test_without_rows_there_is_no_worker(caller: Caller):
    assert caller.of(worker_functions.double).submit(numbers([])).result().to_pylist() == []
    assert caller.watch.placements == []


def test_a_row_that_fails_fails_what_was_submitted_and_names_its_arguments(caller: Caller):
    calls = caller.of(worker_functions.fails_on_negative)
    before, failing = calls.submit(numbers([1])), calls.submit(numbers([-7]))
    assert before.result().to_pylist() == [1]
    with pytest.raises(RowFailed, match="number=-7"):
        failing.result()
    with pytest.raises(RowFailed):
        calls.submit(numbers([1])).result()


@pytest.mark.parametrize("target", [worker_functions.fails_on_negative, worker_functions.fails_on_negative_in_batch])
def test_where_it_is_asked_for_a_failing_row_is_null_and_the_others_are_not(caller: Caller, target: Any):
    calls = caller.of(target, on_error="null")
    rows = [-7, 1, *range(2, 100), -7, -7, 5]
    pending = calls.submit(numbers(rows))
    assert pending.result().to_pylist() == [None if number < 0 else number for number in rows]
    assert pending.failed().to_pylist() == [number < 0 for number in rows]
    assert calls.submit(numbers([3, -7])).result().to_pylist() == [3, None]


def test_a_failed_row_is_remembered_as_such(caller: Caller):
    calls = caller.of(worker_functions.fails_on_negative, on_error="null", memo=Memo(1 << 20))
    assert calls.submit(numbers([-7, 1])).failed().to_pylist() == [True, False]
    assert calls.submit(numbers([1, -7, 2])).failed().to_pylist() == [False, True, False]


def test_closing_ends_a_long_call(caller: Caller):
    calls = caller.of(worker_functions.forever)
    pending = calls.submit(numbers([1]))
    while not caller.watch.placements:
        pass
    calls.close()
    with pytest.raises(Cancelled):
        pending.result()


def test_a_cancellation_ends_the_wait_for_values(caller: Caller):
    pending = caller.of(worker_functions.forever).submit(numbers([1]))
    caller.cancelled.set()
    with pytest.raises(Cancelled):
        pending.result()


def test_what_a_closed_one_never_computed_is_computed_by_the_next_with_its_memo(caller: Caller):
    memo = Memo(1 << 20)
    first = caller.of(worker_functions.double, memo=memo)
    first.submit(numbers([1])).result()
    first.close()
    with pytest.raises(Cancelled):
        first.submit(numbers([2])).result()
    second = caller.of(worker_functions.double, memo=memo)
    assert second.submit(numbers([1, 2])).result().to_pylist() == [2, 4]
