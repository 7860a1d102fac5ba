"""Cutting input batches into calls."""

from __future__ import annotations

import pyarrow as pa
import pytest
from applied import input_batch
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.batches import Cutter, InputBatch

PLENTY = 1 << 40


def cutter_with(*sizes: int) -> Cutter:
    cutter = Cutter()
    first = 0
    for size in sizes:
        cutter.add(input_batch(range(first, first + size), first))
        first += size
    return cutter


def cut(cutter: Cutter, rows: int, max_bytes: int = PLENTY, *, more_comes: bool = False) -> list[int] | None:
    piece = cutter.cut(rows, max_bytes, more_comes=more_comes)
    return None if piece is None else piece.row_ids.to_pylist()


def test_a_large_batch_is_cut_into_pieces():
    cutter = cutter_with(5)
    assert [cut(cutter, 2), cut(cutter, 2), cut(cutter, 2)] == [[0, 1], [2, 3], [4]]


def test_a_piece_is_not_a_copy():
    batch = input_batch(range(100))
    cutter = Cutter()
    cutter.add(batch)
    piece = cutter.cut(50, PLENTY, more_comes=False)
    assert piece is not None
    assert piece.arguments.column(0).buffers()[1].address == batch.arguments.column(0).buffers()[1].address


def test_a_rest_of_half_the_rows_goes_alone_so_that_calls_fall_in_step_with_batches():
    cutter = cutter_with(6, 10)
    assert cut(cutter, 10) == [0, 1, 2, 3, 4, 5]


def test_small_batches_are_joined():
    assert cut(cutter_with(1, 1, 1, 1, 1, 1), 4) == [0, 1, 2, 3]


def test_small_batches_ask_for_more():
    assert cut(cutter_with(1, 1), 10, more_comes=True) is None


def test_small_batches_are_all_there_is_at_the_end():
    assert cut(cutter_with(1, 1), 10, more_comes=False) == [0, 1]


def test_joining_splits_the_batch_that_is_too_much():
    cutter = cutter_with(1, 8)
    assert [cut(cutter, 4), cut(cutter, 100)] == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]


def test_a_batch_that_makes_a_call_by_itself_is_not_split_to_fill_another():
    cutter = cutter_with(1, 4, 4)
    assert [cut(cutter, 4), cut(cutter, 4), cut(cutter, 4)] == [[0], [1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_few_large_rows_are_not_hidden_by_the_average():
    text = pa.array(["x"] * 100 + ["y" * 1000] * 100)
    ids = pa.array(range(200), pa.uint64())
    cutter = Cutter()
    cutter.add(InputBatch(pa.record_batch([text], ["text"]), ids, pa.record_batch([ids], ["id"])))
    cut(cutter, 100)
    piece = cut(cutter, 100, max_bytes=2000)
    assert piece is not None
    assert len(piece) < 5


def test_a_batch_without_rows_is_nothing():
    assert cut(cutter_with(0), 10) is None


@given(st.lists(st.integers(0, 30), max_size=12), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_no_row_is_lost_doubled_or_moved(sizes, wanted):
    cutter = cutter_with(*sizes)
    pieces: list[int] = []
    turn = 0
    while cutter.rows:
        piece = cut(cutter, wanted[turn % len(wanted)])
        assert piece is not None
        assert 1 <= len(piece) <= wanted[turn % len(wanted)]
        pieces += piece
        turn += 1
    assert pieces == list(range(sum(sizes)))


def test_arguments_ids_and_tag_stay_together():
    cutter = cutter_with(3, 3, 3)
    piece = cutter.cut(7, PLENTY, more_comes=False)
    assert piece is not None
    assert piece.arguments.column(0).to_pylist() == piece.row_ids.to_pylist() == piece.tag.column(0).to_pylist()


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_row_bytes_are_those_of_the_next_batch(rows):
    assert cutter_with(rows, 7).row_bytes() == pytest.approx(8.0)
