"""Folders that swap names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancegpu_sql.tables.folders import exchange, exchange_in_steps


@pytest.mark.parametrize("swap", [exchange, exchange_in_steps])
def test_two_folders_swap_names(tmp_path: Path, swap: object) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    swap(tmp_path / "one", tmp_path / "other")  # type: ignore[operator]
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.glob("*/*"))] == [
        "one/other",
        "other/one",
    ]


@pytest.mark.parametrize("swap", [exchange, exchange_in_steps])
@pytest.mark.parametrize("present", ["one", "other"])
def test_a_folder_whose_partner_is_missing_stays_where_it_is(tmp_path: Path, swap: object, present: str) -> None:
    (tmp_path / present).mkdir()
    with pytest.raises(FileNotFoundError):
        swap(tmp_path / "one", tmp_path / "other")  # type: ignore[operator]
    assert [path.name for path in tmp_path.iterdir()] == [present]
