"""Values of a query as texts, and rows drawn on a terminal."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from lancegpu_sql.cli.drawing import draw_rows
from lancegpu_sql.cli.texts import distinct, is_said_as_json, one_line, printable


def drawn(titles: list[str], rows: list[list[str | None]], *, width: int = 60) -> str:
    stream = io.StringIO()
    draw_rows(titles, rows, [False] * len(titles), Console(file=stream, width=width))
    return stream.getvalue()


def test_a_terminal_obeys_nothing_that_a_value_holds():
    assert printable("a\x1b[31m\x07\nb\x9bc") == "a\\x1b[31m\\x07\nb\\x9bc"
    assert one_line("a\nb\tc\r") == "a\\nb\\tc\\r"
    assert "\x1b" not in drawn(["x"], [["\x1b[2J"]])


def test_names_become_different():
    assert distinct(["a", "b", "a", "a"]) == ["a", "b", "a_1", "a_2"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.int8(), True),
        (pa.list_(pa.struct([("a", pa.float32())])), True),
        (pa.list_(pa.timestamp("us")), False),
        (pa.binary(), False),
        (pa.map_(pa.string(), pa.int8()), False),
    ],
)
def test_what_json_has_values_of(kind: pa.DataType, said: bool):
    assert is_said_as_json(kind) is said


def test_rows_stand_in_a_table_and_null_is_told_from_a_text():
    text = drawn(["id", "text"], [["1", "one"], ["2", None]])
    assert [line.strip("│╭╰─╮╯ ").split() for line in text.splitlines()][1] == ["id", "│", "text"]
    assert "NULL" in text


def test_markup_in_values_is_text():
    assert "[bold]x[/bold]" in drawn(["[red]a"], [["[bold]x[/bold]"]])


def test_long_texts_are_wrapped_and_very_long_ones_cut():
    assert len(drawn(["text"], [["word " * 20]]).splitlines()) > 5
    assert "…" in drawn(["text"], [["x" * 5_000]])


def test_rows_too_wide_for_the_terminal_are_drawn_one_by_one():
    titles = [f"column_{at}" for at in range(20)]
    text = drawn(titles, [["value"] * 20, ["value"] * 20])
    assert "row 2" in text
    assert all(len(line) <= 60 for line in text.splitlines())
