"""The catalog in a SQLite file: how the file is made and opened, and what its errors mean."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.catalog.rows import json_of

WRITES = "lancegpu_writes"
"""The option of a connection whose transactions write."""

_ADVICE = {
    "SQLITE_FULL": "the disk is full. What was committed is kept; free some space and try again",
    "SQLITE_IOERR": "the disk refused to read or write (full, over quota, or failing). What was committed is kept",
    "SQLITE_READONLY": "it may not be written by this user; allow writing to the file and its folder, or to neither: the database "
    "can then only be read",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and may be written by this user",
    "SQLITE_PERM": "this user may not use the file",
    "SQLITE_NOTADB": "the file is not a SQLite database; move it away, or name another file for the catalog",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a backup, or move it away with its -wal and -shm files "
    "(tables and computed values are not in it, registered Functions and jobs are)",
    "SQLITE_BUSY": "other processes kept it locked for too long; try again",
    "SQLITE_LOCKED": "other processes kept it locked for too long; try again",
}


def prepare_file(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others; its log gets the same rights.

    One that is there is not opened: to close any descriptor of a file drops all POSIX locks that the process holds on it,
    those of another open catalog too, and other processes would then clear the log away under that one.
    """
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def sqlite_engine(url: sa.URL, busy_timeout_seconds: float) -> sa.Engine:
    engine = sa.create_engine(
        url,
        connect_args={"timeout": busy_timeout_seconds, "check_same_thread": False, "isolation_level": None},
        # A thread that needs a connection gets one: SQLite's are cheap, and waiting for another thread's could last.
        max_overflow=-1,
        json_deserializer=json_of,
    )

    @sa.event.listens_for(engine, "connect")
    def set_up(driver: Any, _record: object) -> None:
        driver.execute("PRAGMA foreign_keys = ON")
        # With the write-ahead log, NORMAL loses at most the last commits in a power cut and never damages the file.
        driver.execute("PRAGMA synchronous = NORMAL")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A transaction that reads first and writes later may fail at its write; one that begins IMMEDIATE waits its turn.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def told(cause: BaseException) -> str | None:
    """Return what an error of SQLite means and what to do, None where that is not known."""
    code = str(getattr(cause, "sqlite_errorname", ""))
    return next((text for name, text in _ADVICE.items() if code.startswith(name)), None)


def is_busy(cause: BaseException) -> bool:
    """Whether it works again once other processes are done."""
    return str(getattr(cause, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
