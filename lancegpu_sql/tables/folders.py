"""Folders that change places or go, as whole tables."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import time
import uuid
from pathlib import Path

_AT_FDCWD = -100  # Linux: paths are relative to the working directory, or absolute
_RENAME_EXCHANGE = 2  # Linux 3.15, <linux/fs.h>

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
    """Let two folders swap names; for a moment `other` is missing."""
    aside = other.with_name(f".lancegpu-replaced-{other.name}.{uuid.uuid4().hex}")
    other.rename(aside)
    try:
        one.rename(other)
    except BaseException:
        aside.rename(other)
        raise
    aside.rename(one)


def remove_folder(path: Path) -> None:
    """Remove a folder that nobody reads any more; what cannot be removed stays, hidden."""
    shutil.rmtree(path, ignore_errors=True)


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
