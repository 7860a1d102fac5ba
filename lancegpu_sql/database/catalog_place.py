"""Which catalog a database's folder goes with, so that nobody opens it with another one, in which nothing is registered."""

from __future__ import annotations

import uuid
from pathlib import Path

from lancegpu_sql.catalog.connection import is_postgresql
from lancegpu_sql.catalog.private import write_file
from lancegpu_sql.errors import InvalidInput, StorageError

CATALOG_FILE = "catalog.sqlite"
_NOTE = "catalog-url"


def catalog_place(private_folder: Path, named: str | None) -> str | Path:
    """Return where a database's catalog is: as the setting says, or the file in its folder.

    Raises
    ------
    InvalidInput
        It is kept in PostgreSQL and none is named, or one is named and it is kept in the file.
    StorageError
        The folder cannot be read.
    """
    file = private_folder / CATALOG_FILE
    if named is not None and is_postgresql(named):
        if file.exists():
            raise InvalidInput(
                f"the catalog of this database is the file {file}: its Functions and jobs are there, not in PostgreSQL. Open "
                "it without the setting catalog. To begin anew in PostgreSQL, move the file away with its -wal and -shm files, "
                "then register the Functions again",
                path=str(file),
            )
        return named
    at = kept_at(private_folder)
    if at is not None:
        raise InvalidInput(
            f"the catalog of this database is in PostgreSQL, at {at}: name it, with its password, by "
            "connect(..., catalog='postgresql://…') or the variable LANCEGPU_CATALOG",
            catalog=at,
        )
    return named or file


def keep_catalog_place(private_folder: Path, place: str) -> None:
    """Note that the catalog is in PostgreSQL, once one was opened there; the note holds no password.

    Raises
    ------
    StorageError
        The folder cannot be written.
    """
    if not is_postgresql(place) or kept_at(private_folder) == place:
        return
    path = private_folder / _NOTE
    try:
        draft = path.with_name(f"{_NOTE}.{uuid.uuid4().hex}")
        write_file(draft, place.encode())
        draft.replace(path)
    except OSError as exc:
        raise StorageError(f"where the catalog is cannot be noted: {exc}", path=str(path)) from exc


def kept_at(private_folder: Path) -> str | None:
    """Return where in PostgreSQL a database's catalog was opened last, None where it never was.

    Raises
    ------
    StorageError
        The folder cannot be read.
    """
    path = private_folder / _NOTE
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageError(f"where the catalog is cannot be read: {exc}", path=str(path)) from exc
