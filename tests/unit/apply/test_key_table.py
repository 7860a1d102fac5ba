"""Numbers of digests: alike for equal ones, in the order in which they come."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.digest import Lanes
from lancegpu_sql.apply.key_table import KeyTable

# Few distinct ones, and halves that agree: slots are fought for, and a slot's owner is not always the same key.
HALVES = st.integers(0, 3).map(lambda number: number << 1)
BATCHES = st.lists(st.lists(st.tuples(HALVES, HALVES), max_size=40), max_size=6)


def lanes(keys: list[tuple[int, int]]) -> Lanes:
    return np.array(keys, dtype=np.uint64).reshape(-1, 2)


@given(BATCHES)
def test_equal_keys_have_one_number_and_others_another(batches: list[list[tuple[int, int]]]):
    table = KeyTable()
    expected: dict[tuple[int, int], int] = {}
    for keys in batches:
        numbers, new = table.number(lanes(keys))
        before = dict(expected)
        for key in keys:
            expected.setdefault(key, len(expected))
        assert [keys[at] for at in new.tolist()] == [key for key in expected if key not in before]
        assert len(set(zip(keys, numbers.tolist(), strict=True))) == len(set(keys)) == len(set(numbers.tolist()))
    assert table.entries == len(expected)


@given(BATCHES)
def test_new_numbers_stand_in_the_order_of_their_rows(batches: list[list[tuple[int, int]]]):
    table = KeyTable()
    for keys in batches:
        before = table.entries
        numbers, new = table.number(lanes(keys))
        assert new.tolist() == sorted(new.tolist())
        assert numbers[new].tolist() == list(range(before, table.entries))


def test_numbers_stay_when_the_table_grows():
    table = KeyTable()
    keys = np.random.default_rng(1).integers(0, 2**63, (5_000, 2), dtype=np.uint64)
    first, _ = table.number(keys[:100])
    table.number(keys)
    again, new = table.number(keys[:100])
    assert again.tolist() == first.tolist() == list(range(100))
    assert len(new) == 0


def test_numbers_that_are_not_kept_are_given_again():
    table = KeyTable()
    keys = np.random.default_rng(2).integers(0, 2**63, (50, 2), dtype=np.uint64)
    table.number(keys)
    table.keep(20)
    numbers, new = table.number(keys[::-1])
    assert numbers.tolist()[-20:] == list(range(20))[::-1]
    assert len(new) == 30
