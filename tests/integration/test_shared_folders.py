"""Folders that vanish while they are looked into."""

from __future__ import annotations

import shutil
from pathlib import Path

from lancegpu_sql.refresh.shared_folders import entries, with_all_below


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert [entries(tmp_path / name) for name in ("gone", "file")] == [[], []]


def test_a_folder_may_vanish_while_all_of_it_is_looked_at(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "top" / name).mkdir(parents=True)
        (tmp_path / "top" / name / "part").touch()
    found = with_all_below(tmp_path / "top")
    assert next(found) == tmp_path / "top"
    assert next(found).parent == tmp_path / "top"
    shutil.rmtree(tmp_path / "top")
    assert {path.parent for path in found} == {tmp_path / "top"}


def test_all_below_a_folder_is_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "part").touch()
    assert [path.name for path in with_all_below(tmp_path / "a")] == ["a", "b", "part"]
