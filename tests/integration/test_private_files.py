"""What we keep beside the tables, and what processes share on a host, is for its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from refresh_kit import open_database, short_folder

from lancegpu_sql import col, function
from lancegpu_sql.errors import RowFailed
from lancegpu_sql.placement.mailbox import Mailbox


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@function(gpu=True, gpu_class="one")
def fails_late(x: int) -> int:
    print("some words for the log")
    if x == 290:
        raise ValueError
    return x


def open_to_others(folder: Path) -> list[Path]:
    """What others may enter, read or write under a folder; a worker's socket is the worker's to make."""
    return [
        path
        for path in (folder, *folder.rglob("*"))
        if path.suffix != ".sock" and stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]


@pytest.mark.usefixtures("open_umask")
def test_nothing_of_ours_is_open_to_others_whatever_the_umask(folder: Path) -> None:
    (folder / "classes.yaml").write_text("gpu_classes: [{name: one, local: {simulated: 1}}]\n")
    with open_database(
        folder / "shop", gpu_classes=folder / "classes.yaml", runtime_folder=folder / "of" / "run"
    ) as database:
        table = database.create_table("t", {"x": list(range(300))})
        table.add_columns({"y": fails_late(x=col("x"))})
        with pytest.raises(RowFailed):
            table.refresh_column("y", part_target_seconds=0.001)
        private = folder / "shop" / "db" / ".lancegpu"
        assert list(private.rglob("*.arrow"))
        assert open_to_others(private) == []
        assert open_to_others(folder / "of") == []


def test_a_workers_socket_has_a_path_that_the_kernel_takes_however_long_the_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = folder / ("d" * 90)
    long.mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(long))
    box = Mailbox(long)
    path = box.new_socket_path()
    assert len(os.fsencode(path)) <= 107
    assert path.parent.stat().st_mode & 0o077 == 0
    box.close()
    assert not path.parent.exists()
