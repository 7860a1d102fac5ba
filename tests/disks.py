"""Disks of a few megabytes, which fill up or can be made read-only; only root can mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from refresh_kit import short_folder
from skips import Skip


class Disk:
    """A disk mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lock(self) -> None:
        """Make it read-only; nobody may have a file of it open for writing."""
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)

    def fill(self, left_bytes: int = 0) -> None:
        """Leave no more room than this."""
        self._filler.write_bytes(b"0" * (shutil.disk_usage(self.folder).free - left_bytes))

    def make_room(self) -> None:
        """Undo that."""
        self._filler.unlink()

    def content(self) -> dict[Path, bytes]:
        """Every file that is on it."""
        return {path: path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"


@contextmanager
def mounted(size_mb: int = 32) -> Iterator[Disk]:
    """Mount one while the context lasts, or skip the test."""
    with short_folder() as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip(f"{Skip.NEEDS_ROOT}: it mounts a disk")
        try:
            yield Disk(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
