"""Folders that swap names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancegpu_sql.tables.folders import bring_back, bring_back_all, exchange, exchange_in_steps


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


def set_aside(folder: Path, name: str) -> Path:
    """What a swap in steps leaves where it is killed after its first step."""
    aside = folder / f".lancegpu-replaced-{name}.0123abcd"
    aside.mkdir()
    (aside / "rows").write_text("")
    return aside


def test_what_a_killed_swap_set_aside_is_brought_back(tmp_path: Path) -> None:
    for name in ("a.lance", "b[1].lance"):
        set_aside(tmp_path, name)
    bring_back_all(tmp_path, 0.0)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")) == [
        "a.lance/rows",
        "b[1].lance/rows",
    ]


def test_a_swap_that_may_be_under_way_is_let_be(tmp_path: Path) -> None:
    aside = set_aside(tmp_path, "a.lance")
    assert not bring_back(tmp_path / "a.lance", 60.0)
    assert aside.exists()


def test_what_has_the_name_by_now_keeps_it(tmp_path: Path) -> None:
    aside = set_aside(tmp_path, "a.lance")
    (tmp_path / "a.lance").mkdir()
    assert not bring_back(tmp_path / "a.lance", 0.0)
    assert aside.exists()


def test_a_swap_in_steps_leaves_room_for_the_longest_name(tmp_path: Path) -> None:
    name = "x" * 200 + ".lance"
    for folder in ("one", name):
        (tmp_path / folder).mkdir()
    exchange_in_steps(tmp_path / "one", tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 2
