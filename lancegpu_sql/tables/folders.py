"""Folders that change places or go, as whole tables."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

_AT_FDCWD = -100  # Linux: paths are relative to the working directory, or absolute
_RENAME_EXCHANGE = 2  # Linux 3.15, <linux/fs.h>

ASIDE_PREFIX = ".lancegpu-replaced-"

BESIDE_PREFIX = ".lancegpu-table-"
"""Of folders on their way in or out. Without the suffix, no tool takes them for tables."""

# File systems without an atomic exchange (NFS, some overlays) answer with one of these.
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> None:
    """Let two folders swap names, atomically where the file system can, else by three renames."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in _NO_EXCHANGE:
            raise OSError(number, os.strerror(number), str(other))
    exchange_in_steps(one, other)


def exchange_in_steps(one: Path, other: Path) -> None:
    """Let two folders swap names; for a moment `other` is missing, and `bring_back` finds it if that is the end."""
    aside = other.with_name(f"{ASIDE_PREFIX}{other.name}.{uuid.uuid4().hex[:8]}")
    other.rename(aside)
    try:
        one.rename(other)
    except BaseException:
        with suppress(FileNotFoundError):  # it was brought back
            aside.rename(other)
        raise
    aside.rename(one)


def bring_back(path: Path, age_seconds: float) -> bool:
    """Give a folder its name back that a swap in steps, killed between them, left without it; tell whether it did.

    A swap that began less than `age_seconds` ago may still be under way.
    """
    latest = time.time() - age_seconds
    for aside in path.parent.glob(f"{ASIDE_PREFIX}{glob.escape(path.name)}.*"):
        # Its status changed, not its contents, when it was renamed. What has the name by now keeps it.
        with suppress(OSError):
            if aside.stat().st_ctime <= latest and not path.exists():
                aside.rename(path)
                return True
    return False


def bring_back_all(parent: Path, age_seconds: float) -> None:
    """Give all folders of `parent` their names back that swaps in steps left without them.

    One whose name has been taken by what was swapped in stays, hidden.
    """
    for aside in parent.glob(f"{ASIDE_PREFIX}*"):
        name = aside.name.removeprefix(ASIDE_PREFIX).rpartition(".")[0]
        bring_back(parent / name, age_seconds)


def remove_folder(path: Path) -> None:
    """Remove a folder that nobody reads any more; what cannot be removed stays, hidden."""
    shutil.rmtree(path, ignore_errors=True)


def folders_on_their_way(parent: Path) -> list[Path]:
    """Return the folders of tables that are being made, replaced or dropped, or were when that process ended."""
    replaced = [
        aside
        for aside in parent.glob(f"{ASIDE_PREFIX}*")
        if (parent / aside.name.removeprefix(ASIDE_PREFIX).rpartition(".")[0]).exists()
    ]
    return sorted([*parent.glob(f"{BESIDE_PREFIX}*"), *replaced])


def remove_old_folders(parent: Path, prefix: str, age_seconds: float) -> None:
    """Remove the folders of this prefix that were made longer ago than that."""
    oldest = time.time() - age_seconds
    for path in parent.glob(f"{prefix}*"):
        try:
            left_over = path.stat().st_mtime < oldest
        except FileNotFoundError:  # another process was first
            continue
        if left_over:
            remove_folder(path)
