"""The folder in which one user's processes on one host share devices: private, and never a database's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.errors import StorageError


def default_runtime_folder() -> Path:
    """Return the user's runtime folder on this host.

    Not below XDG_RUNTIME_DIR, nor TMPDIR: a login, a service and a cron job of one user differ in these, and two folders
    would be two ledgers, each of which gives the same device away.
    """
    return Path(f"/tmp/lancegpu-{os.getuid()}")  # noqa: S108 - its owner is checked


def open_runtime_folder(folder: Path) -> None:
    """Make the folder where it is missing, and make sure that it is ours and closed to others.

    Raises
    ------
    StorageError
        If it cannot be made or used, or belongs to somebody else.
    """
    try:
        make_folder(folder)
        found = folder.lstat()
        if found.st_uid != os.getuid():
            raise _unusable(folder, f"it belongs to another user (number {found.st_uid})")
        if not stat.S_ISDIR(found.st_mode):
            raise _unusable(folder, "it is a link")
        if found.st_mode & 0o077:
            raise _unusable(folder, f"others may enter it (chmod 700 {folder} closes it)")
    except OSError as exc:
        raise _unusable(folder, exc.strerror or str(exc)) from exc
    except ValueError as exc:  # a zero byte, or half a character
        raise _unusable(folder, str(exc)) from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "it cannot be written to")


def _unusable(folder: Path, reason: str) -> StorageError:
    return StorageError(
        f"the runtime folder {folder}, in which processes share this machine's devices, cannot be used: {reason}; "
        "set LANCEGPU_RUNTIME_FOLDER to a folder that can, the same one for all your processes on this host",
        path=str(folder),
    )
