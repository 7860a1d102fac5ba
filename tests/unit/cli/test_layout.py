"""How a table of answers fits a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.cli.layout import GAP, LONGEST_WORD, column_widths, wrapped

TITLES = ["job", "works on", "state", "about"]
ROW = ["9abcdef0", "library.label +2", "waiting", "the only device of GPU class 'default' is in use " * 4]


def test_what_fits_is_as_wide_as_it_is() -> None:
    assert column_widths(["a", "b"], [["xx", "yyyy"]], 80) == [2, 4]


def test_text_gives_way_and_short_columns_stay_whole() -> None:
    assert column_widths(TITLES, [ROW], 80) == [8, 16, 7, 80 - 3 * GAP - 8 - 16 - 7]


def test_words_that_do_not_fit_beside_each_other_are_no_table() -> None:
    assert column_widths(TITLES, [ROW], 30) is None


def test_a_first_column_is_never_wrapped() -> None:
    widths = column_widths(["name", "text"], [["two words", "many words " * 20]], 40)
    assert widths is not None
    assert widths[0] == 9


@given(st.lists(st.text("ab ", max_size=60), min_size=2, max_size=5), st.integers(20, 120))
def test_a_table_never_exceeds_the_terminal(row: list[str], width: int) -> None:
    widths = column_widths([""] * len(row), [row], width)
    assert widths is None or sum(widths) + GAP * (len(widths) - 1) <= width


def test_only_words_longer_than_a_line_should_be_are_parted() -> None:
    assert wrapped("a job-like id and more", 12) == ["a job-like", "id and more"]
    assert wrapped("x" * (LONGEST_WORD + 5), LONGEST_WORD) == ["x" * LONGEST_WORD, "x" * 5]
