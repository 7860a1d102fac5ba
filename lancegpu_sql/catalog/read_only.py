"""The catalog of a database whose folder is only read here: a copy for one process, which keeps no change."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

from lancegpu_sql.catalog.private import write_file
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import CatalogError


class CatalogCopy(Catalog):
    """Knows what the database's catalog knew when it was copied; what others would have to know of is refused."""

    def _refused(self, *_given: Any, **_more: Any) -> NoReturn:
        raise CatalogError(
            "This database can only be read here, for its folder cannot be written: Functions, GPU classes and schedules are "
            "changed where it can.",
            path=self.place,
        )

    add_function = _refused
    replace_payload = _refused
    set_function_placement = _refused
    drop_function = _refused
    replace_gpu_classes = _refused
    put_schedule = _refused
    alter_schedule = _refused
    drop_schedules = _refused


def copy_catalog(file: Path, to: Path) -> None:
    """Copy a catalog's file, with what its log holds, as it is at this moment; one that is not there is left.

    Raises
    ------
    CatalogError
        It cannot be read.
    """
    if not file.exists():
        return
    write_file(to)
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
            with closing(sqlite3.connect(to)) as copy:
                source.backup(copy)
            return
    except sqlite3.Error:
        pass  # SQLite writes beside the file even to read it, where its log is not the last word
    try:
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{os.fspath(file)}{suffix}", f"{os.fspath(to)}{suffix}")
    except OSError as exc:
        raise CatalogError(f"The catalog {file} cannot be read: {exc.strerror}.", path=str(file)) from exc
