"""Conditions on the rows of one table: which rows they choose, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_folder import LanceFolder

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.filter import RowFilter
from lancegpu_sql.tables.snapshot import Snapshot


def opened(folder: Path, columns: dict[str, object]) -> Snapshot:
    tables = LanceFolder(folder)
    tables.write("t", columns)
    snapshot = tables.snapshot("t")
    assert snapshot is not None
    return snapshot


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return opened(tmp_path, {"x": [1, 2, 3], "name": ["a", "b", "c"]})


def refusal(snapshot: Snapshot, condition: str) -> str:
    with pytest.raises(InvalidQuery) as caught, RowFilter(snapshot, condition) as row_filter:
        row_filter.addresses(0)
    return caught.value.message


@pytest.mark.parametrize("condition", ["_rowid = 2", "_ROWID > 1", "x > 2 AND t._rowid < 9"])
def test_a_row_is_chosen_by_its_row_id(snapshot: Snapshot, condition: str) -> None:
    with RowFilter(snapshot, condition) as row_filter:
        assert [row_filter.addresses(one.id).tolist() for one in snapshot.fragments] == [[], [1 << 32]]


def test_a_column_that_is_not_there_is_answered_with_those_that_are(snapshot: Snapshot) -> None:
    said = refusal(snapshot, "zz = 1")
    assert said.startswith("DuckDB refuses the condition 'zz = 1'.")
    assert said.endswith("The columns of 't': x, name, and _rowid")


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("x = = 1", "LINE 1: x = = 1\n            ^"),
        ("x > 0 AND\n x = = 1", "LINE 2:  x = = 1\n             ^"),
        ("x = 'abc'", "LINE 1: x = 'abc'\n            ^^^^^"),
        ("name = 1", "LINE 1: name = 1\n        ^^^^"),
    ],
)
def test_a_fault_is_shown_at_its_place(snapshot: Snapshot, condition: str, place: str) -> None:
    said = refusal(snapshot, condition)
    assert said.startswith(f"DuckDB refuses the condition {condition!r}.")
    assert said.endswith(place)


def test_a_condition_that_breaks_off_is_told_so(snapshot: Snapshot) -> None:
    assert refusal(snapshot, "x = 1 AND") == "DuckDB refuses the condition 'x = 1 AND'. It is not complete."


def test_columns_apart_by_case_only_cannot_be_in_a_condition(tmp_path: Path) -> None:
    snapshot = opened(tmp_path, {"A": [10], "a": [1], "b": [5]})
    assert "'A' and 'a', which SQL does not tell apart" in refusal(snapshot, '"A" = 10')
    with RowFilter(snapshot, "b = 5") as row_filter:
        assert row_filter.addresses(0).tolist() == [0]
