"""The memo: what is asked for once, what is asked for again, and where values are found."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.memo import Found, Memo

ROOM = 1 << 20


class Later:
    """Values that come when they are let."""

    def __init__(self, values: pa.Array, *, done: bool = True) -> None:
        self._values = values
        self._there = threading.Event()
        if done:
            self._there.set()

    @property
    def done(self) -> bool:
        return self._there.is_set()

    @property
    def nbytes(self) -> int | None:
        return self._values.nbytes if self.done else None

    def result(self) -> pa.Array:
        assert self._there.wait(10)
        return self._values

    def come(self) -> None:
        self._there.set()


class Squares:
    """Squares numbers, and remembers which."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.asked: list[int | None] = []
        self.given: list[Later] = []
        self._at_once = at_once

    def __call__(self, arguments: pa.RecordBatch) -> Later:
        numbers = arguments.column(0)
        self.asked += numbers.to_pylist()
        self.given.append(Later(pc.multiply(numbers, numbers), done=self._at_once))
        return self.given[-1]


def batch(*numbers: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], names=["n"])


def values(found: Found) -> list[int | None]:
    return found.gather().to_pylist()


def test_equal_rows_of_a_batch_are_asked_for_once():
    squares = Squares()
    assert values(Memo(ROOM).find(batch(2, 3, 2, None, None), squares)) == [4, 9, 4, None, None]
    assert squares.asked == [2, 3, None]


def test_what_was_asked_for_before_is_not_asked_for_again():
    memo, squares = Memo(ROOM), Squares()
    memo.find(batch(1, 2), squares)
    assert values(memo.find(batch(2, 5, 1), squares)) == [4, 25, 1]
    assert squares.asked == [1, 2, 5]
    assert (memo.rows, memo.computed_rows) == (5, 3)


def test_values_that_are_still_computed_are_waited_for_and_not_asked_for_again():
    memo, squares = Memo(ROOM), Squares(at_once=False)
    memo.find(batch(7), squares)
    again = memo.find(batch(7, 7), squares)
    assert not again.done
    squares.given[0].come()
    assert values(again) == [49, 49]
    assert squares.asked == [7]


@given(st.lists(st.lists(st.integers(0, 20) | st.none(), min_size=1, max_size=30), max_size=20))
def test_values_are_those_of_their_rows_whatever_came_before(batches: list[list[int | None]]):
    memo, squares = Memo(ROOM), Squares()
    for numbers in batches:
        found = memo.find(batch(*numbers), squares)
        assert values(found) == [None if number is None else number * number for number in numbers]
    assert len(squares.asked) == len({number for numbers in batches for number in numbers})


def test_a_full_memo_begins_anew():
    memo, squares = Memo(2_000), Squares()
    for start in range(0, 100, 10):
        memo.find(batch(*range(start, start + 10)), squares)
    assert values(memo.find(batch(0, 99), squares)) == [0, 99 * 99]
    assert squares.asked.count(0) == 2


def asked_after_it_was_full(row_seconds: float) -> list[int | None]:
    memo, squares = Memo(800_000), Squares()
    memo.took(1, row_seconds)
    memo.find(batch(*range(2_000)), squares)
    squares.asked.clear()
    for _ in range(3):
        assert values(memo.find(batch(*[7] * 1_000), squares)) == [49] * 1_000
    assert memo.computed_rows == 2_000 + len(squares.asked)
    return squares.asked


def test_a_part_of_the_memory_without_repeats_has_a_quick_function_rest_for_as_many_rows():
    assert asked_after_it_was_full(row_seconds=1e-7) == [7] * 2_001


def test_values_of_a_slow_function_are_kept_up_to_the_limit():
    assert asked_after_it_was_full(row_seconds=1e-4) == []


def test_values_of_a_quick_function_that_repeat_are_kept_up_to_the_limit():
    memo, squares = Memo(800_000), Squares()
    memo.took(1, 1e-6)
    memo.find(batch(*[*range(2_000)] * 2), squares)
    memo.find(batch(7, 7), squares)
    assert squares.asked[2_000:] == []


def test_each_rest_is_twice_as_long_as_the_one_before_it():
    memo, squares = Memo(800_000), Squares()
    memo.took(1, 1e-7)
    for rests in (1, 2, 4, 8, 8):
        memo.find(batch(*range(2_000)), squares)
        squares.asked.clear()
        for _ in range(rests):
            memo.find(batch(*[7] * 2_000), squares)
        assert squares.asked == [7] * 2_000 * rests
    memo.find(batch(7, 7), squares)
    assert len(squares.asked) == 2_000 * rests + 1


def test_what_never_came_is_asked_for_again_and_what_came_is_kept():
    memo, squares = Memo(ROOM), Squares(at_once=False)
    memo.find(batch(1), squares)
    memo.find(batch(2), squares)
    squares.given[0].come()
    memo.settle()
    memo.find(batch(1, 2), squares)
    assert squares.asked == [1, 2, 2]
