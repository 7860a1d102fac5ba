"""Folders and files for their owner's eyes, whatever the process's umask says."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder that is missing, and those above it, each readable and writable by its owner alone."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as exc:  # it is a file
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from exc


def write_file(path: Path, content: bytes = b"") -> None:
    """Write a file that its owner alone can read; one that is there is replaced in its place."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
