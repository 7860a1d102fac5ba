"""Files that a database keeps in its object store beside the tables, so that every host finds them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from lancegpu_sql.errors import StorageError
from lancegpu_sql.tables.engine import lance_errors
from lancegpu_sql.tables.files import StorageOptions, at_once, object_session
from lancegpu_sql.tables.naming import PRIVATE_FOLDER


class Beside:
    """Files by their names, such as ``checkpoints/a/b.arrow``, which no tool takes for parts of a table.

    Parameters
    ----------
    uri
        Of the database.
    options
        How its object store is reached.
    """

    def __init__(self, uri: str, options: StorageOptions | None) -> None:
        with lance_errors(""):
            self._session = object_session(f"{uri}/{PRIVATE_FOLDER}", options)

    def keep(self, path: Path, name: str) -> None:
        """Put a copy of a local file; raises StorageError."""
        with lance_errors(""):
            self._session.upload_file(str(path), name)

    def names(self, below: str) -> list[str]:
        """Return the names of the files below one, at any depth; raises StorageError."""
        with lance_errors(""):
            return sorted(name for name in self._session.list(below) if ".." not in PurePosixPath(name).parts)

    def fetch(self, name: str, path: Path) -> bool:
        """Bring a file to this host, whole or not at all; False where another host has removed it. Raises StorageError."""
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
        try:
            with lance_errors(""):
                self._session.download_file(name, str(draft))
                draft.replace(path)
        except StorageError:
            if name in self.names(str(PurePosixPath(name).parent)):
                raise
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def forget(self, names: Iterable[str]) -> None:
        """Remove files. One that stays takes room, and is removed with the next."""

        def forget_one(name: str) -> None:
            with suppress(OSError, RuntimeError):
                self._session.delete_file(name)

        at_once(forget_one, names)
