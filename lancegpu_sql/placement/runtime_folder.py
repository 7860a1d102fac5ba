"""The folder in which one user's processes on one host share devices: private, and never a database's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lancegpu_sql.errors import StorageError


def default_runtime_folder() -> Path:
    """Return the user's runtime folder on this host, or what LANCEGPU_RUNTIME_FOLDER names.

    Not below XDG_RUNTIME_DIR: a login has one and a service or cron job of the same user has none, and two folders would
    be two ledgers, each of which gives the same device away.
    """
    chosen = os.environ.get("LANCEGPU_RUNTIME_FOLDER")
    return Path(chosen) if chosen else Path(f"/tmp/lancegpu-{os.getuid()}")  # noqa: S108 - its owner is checked


def open_runtime_folder(folder: Path) -> None:
    """Make the folder where it is missing, and make sure that it is ours and closed to others.

    Raises
    ------
    StorageError
        If it cannot be made or used, or belongs to somebody else.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid():
            owner = f"user {found.st_uid}"
            raise _unusable(folder, f"it belongs to {owner}")
        if not stat.S_ISDIR(found.st_mode):
            raise _unusable(folder, "it is a link")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as exc:
        raise _unusable(folder, exc.strerror or str(exc)) from exc
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "it cannot be written to")


def _unusable(folder: Path, reason: str) -> StorageError:
    return StorageError(
        f"the runtime folder {folder}, in which processes share this machine's devices, cannot be used: {reason}; "
        "set LANCEGPU_RUNTIME_FOLDER to another folder, the same one for all your processes on this host",
        path=str(folder),
    )
