"""A name for one database that stays the same wherever it is opened from, and that no other database has."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

from lancegpu_sql.catalog.private import write_file
from lancegpu_sql.errors import StorageError

ID_FILE = "database-id"


def database_id(private_folder: Path) -> str:
    """Return the database's id, made when it is first asked for.

    Raises
    ------
    StorageError
        The folder cannot be read or written.
    """
    path = private_folder / ID_FILE
    try:
        return _read_or_make(path)
    except OSError as exc:
        raise StorageError(f"the database's id cannot be kept: {exc}", path=str(path)) from exc


def _read_or_make(path: Path) -> str:
    if not path.exists():
        draft = path.with_name(f"{ID_FILE}.{uuid.uuid4().hex}")
        write_file(draft, uuid.uuid4().hex.encode())
        # Linked, not renamed: of two processes that come at once, the first one's id holds for both.
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text().strip()
