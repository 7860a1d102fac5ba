"""The way to the catalog's database: transactions, the ways of each dialect, and the mapping of SQLAlchemy's errors."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc

from lancegpu_sql.catalog.migrations import history
from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.catalog.rows import json_of
from lancegpu_sql.errors import CatalogError, InvalidInput

Result = TypeVar("Result")

_WRITES = "lancegpu_writes"
_ATTEMPTS = 8
_ADVICE = {
    "SQLITE_FULL": "the disk is full. What was committed is kept; free some space and try again",
    "SQLITE_IOERR": "the disk refused to read or write (full, over quota, or failing). What was committed is kept",
    "SQLITE_READONLY": "it may not be written by this user; allow writing to the file and its folder. This release writes "
    "to it even where tables are only read; lance and lancedb read them without",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that its folder exists and may be written by this user",
    "SQLITE_PERM": "this user may not use the file",
    "SQLITE_NOTADB": "the file is not a SQLite database; move it away, or name another file for the catalog",
    "SQLITE_CORRUPT": "the file is damaged; restore it from a backup, or move it away with its -wal and -shm files "
    "(tables and computed values are not in it, registered Functions and jobs are)",
    "SQLITE_BUSY": "other processes kept it locked for too long; try again",
    "SQLITE_LOCKED": "other processes kept it locked for too long; try again",
}


class CatalogConnection:
    """An engine with two doors: `reading` and `writing`; many threads and processes may go through them at once.

    Parameters
    ----------
    url_or_path
        A file's path (SQLite) or a URL of SQLAlchemy's form.
    busy_timeout_seconds
        How long a transaction waits for another process's write.
    """

    def __init__(self, url_or_path: str | os.PathLike[str], busy_timeout_seconds: float) -> None:
        url = _url(url_or_path)
        self.place = url.database or "" if _is_sqlite(url) else url.render_as_string(hide_password=True)
        self._busy_timeout_seconds = busy_timeout_seconds
        self._closed = False
        with self._mapped():
            if _is_sqlite(url):
                _prepare_file(Path(self.place))
                self._engine = _sqlite_engine(url, busy_timeout_seconds)
            else:
                self._engine = sa.create_engine(url, pool_pre_ping=True)
            self._writer = self._engine.execution_options(**{_WRITES: True})
        _engines.add(self._engine)
        try:
            self._bring_up_to_date(_is_sqlite(url))
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that reads."""
        self._check_open()
        with self._mapped(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes: alone from its first statement, committed at its end, or undone by an error."""
        self._check_open()
        with self._mapped(), self._writer.begin() as connection:
            yield connection

    def write(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run a transaction that writes, again where another process took the same new key first.

        On SQLite a writer is alone and this never happens; elsewhere two may insert one key at once.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with self.writing() as connection:
                    return work(connection)
            except CatalogError as error:
                if attempt == _ATTEMPTS - 1 or not isinstance(error.__cause__, exc.IntegrityError):
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Give every connection back."""
        self._closed = True
        self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise CatalogError(f"The catalog {self.place} was closed; connect again.", path=self.place)

    def _bring_up_to_date(self, is_sqlite: bool) -> None:
        with self.reading() as connection:
            version = history.schema_version(connection, self.place)
        history.check_readable(version, self.place)
        if version == history.CURRENT_VERSION:
            return
        if is_sqlite:
            self._turn_on_write_ahead_log()
        with self.writing() as connection:
            history.migrate(connection, self.place)

    def _turn_on_write_ahead_log(self) -> None:
        # The mode is a property of the file. SQLite does not wait for other processes here, so this does.
        deadline = time.monotonic() + self._busy_timeout_seconds
        while True:
            try:
                with self._mapped(), self._engine.connect() as connection:
                    driver: Any = connection.connection.driver_connection
                    driver.execute("PRAGMA journal_mode = WAL")
                return
            except CatalogError as error:
                if "SQLITE_BUSY" not in getattr(error, "code", "") or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, sqlite3.Error) as error:
            raise _catalog_error(self.place, error) from error
        except ModuleNotFoundError as error:
            raise CatalogError(
                f"The catalog {self.place} needs the driver {error.name!r}, which is not installed here: install it, or "
                "name another one in the URL, such as postgresql+psycopg://.",
                path=self.place,
            ) from error
        except OverflowError as error:
            raise InvalidInput("a number is larger than the catalog can hold, which is 64 bits of it") from error
        except UnicodeEncodeError as error:
            shown = ascii(error.object[error.start : error.end])
            raise InvalidInput(f"a text holds {shown}, half a character, which no database can keep") from error
        except ValidationError:
            raise
        except ValueError as error:  # a time that is none
            raise CatalogError(
                f"The catalog {self.place} holds what cannot be read: {error}. It is damaged, or was changed by hand; "
                "restore it from a backup.",
                path=self.place,
            ) from error
        except OSError as error:
            raise CatalogError(
                f"The catalog {self.place} cannot be opened: {error.strerror or error}. Check the path and the rights of "
                "this user on its folder.",
                path=self.place,
            ) from error


def _url(url_or_path: str | os.PathLike[str]) -> sa.URL:
    text = os.fspath(url_or_path)
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = sa.make_url(text)
    except exc.ArgumentError as error:
        raise CatalogError(f"{text!r} is neither a path nor a URL of a database.", path=text) from error
    if _is_sqlite(url):
        return sa.URL.create("sqlite", database=str(Path(url.database or "catalog.sqlite").absolute()))
    return url


def _is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _prepare_file(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others; its log gets the same rights.

    One that is there is not opened: to close any descriptor of a file drops all POSIX locks that the process holds on it,
    those of another open catalog too, and other processes would then clear the log away under that one.
    """
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sqlite_engine(url: sa.URL, busy_timeout_seconds: float) -> sa.Engine:
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
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


# A fork handler cannot be taken back: one for all engines there are, not one for each that there ever was.
_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()


def _close_idle_connections() -> None:
    """Close what nobody uses before this process forks.

    SQLite keeps one account of a file's locks for all connections of a process. A child that inherits it believes to
    hold locks that only its parent has, and the two would write over each other's commits.
    """
    for engine in tuple(_engines):
        engine.dispose()


def _forget_connections() -> None:
    """Leave the connections that other threads used at that moment to the process that forked."""
    for engine in tuple(_engines):
        engine.dispose(close=False)


os.register_at_fork(before=_close_idle_connections, after_in_child=_forget_connections)


def _catalog_error(place: str, error: Exception) -> CatalogError:
    cause = getattr(error, "orig", None) or error
    code = str(getattr(cause, "sqlite_errorname", ""))
    advice = next((text for name, text in _ADVICE.items() if code.startswith(name)), None)
    told = advice or f"{type(cause).__name__}: {cause}"
    return CatalogError(f"The catalog {place} cannot be used: {told}.", path=place, code=code)
