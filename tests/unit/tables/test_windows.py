"""Windows cover all rows once, in order, and keep to their size once the size of rows is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.tables.windows import FIRST_ROWS, GROWTH, WINDOW_BYTES, Window, Windows


def all_windows(fragments: list[tuple[int, int]], row_bytes: int) -> list[Window]:
    windows, found = Windows(fragments), []
    while (window := windows.next()) is not None:
        found.append(window)
        windows.learn(window.rows, window.rows * row_bytes)
    return found


@given(st.lists(st.integers(0, 50_000), max_size=8), st.sampled_from([1, 1_000, 100_000]))
def test_windows_cover_every_row_once_and_in_order(rows: list[int], row_bytes: int) -> None:
    live = [(at, count) for at, count in enumerate(rows)]
    table = [(at, place) for at, count in live for place in range(count)]
    covered = []
    for window in all_windows(live, row_bytes):
        held = [(at, place) for at in window.fragment_ids for place in range(rows[at])]
        covered += held[window.offset : window.offset + window.rows]
    assert covered == table


def test_wide_rows_are_read_in_windows_of_bounded_size() -> None:
    found = all_windows([(0, 10_000)], 1_000_000)
    assert max(window.rows for window in found[1:]) * 1_000_000 <= WINDOW_BYTES


def test_narrow_rows_take_few_windows() -> None:
    found = all_windows([(0, 1_000_000)], 54)
    assert [window.rows for window in found] == [
        FIRST_ROWS,
        FIRST_ROWS * GROWTH,
        FIRST_ROWS * GROWTH**2,
        1_000_000 - FIRST_ROWS * (1 + GROWTH + GROWTH**2),
    ]


def test_many_small_fragments_share_a_window() -> None:
    found = all_windows([(at, 10) for at in range(1_000)], 8)
    assert len(found) == 2
    assert len(found[1].fragment_ids) == 1_000 - FIRST_ROWS // 10


def test_a_window_may_begin_in_the_middle_of_a_fragment() -> None:
    windows = Windows([(7, FIRST_ROWS - 1), (9, 5)])
    windows.next()
    assert windows.next() == Window((9,), 1, 4)
