"""The way to the catalog's database: transactions, the ways of each dialect, and the mapping of SQLAlchemy's errors."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc

from lancegpu_sql.catalog import postgresql, sqlite
from lancegpu_sql.catalog.migrations import history
from lancegpu_sql.errors import CatalogError, InvalidInput
from lancegpu_sql.settings import masked

Result = TypeVar("Result")

_ATTEMPTS = 8
_AGAIN_SECONDS = 0.1
_TURN_SECONDS = 0.05


class CatalogConnection:
    """An engine with two doors: `reading` and `writing`; many threads and processes may go through them at once.

    Parameters
    ----------
    url_or_path
        A file's path (SQLite), or a URL of PostgreSQL.
    busy_timeout_seconds
        How long a transaction waits for another process's write, or for a server that was there to come back.
    database
        Whose catalog it is, where one server holds those of several: the id that goes into the name of its schema.
    kept_at
        Where in PostgreSQL that catalog was before; then one that is empty is another one.
    """

    def __init__(
        self,
        url_or_path: str | os.PathLike[str],
        busy_timeout_seconds: float,
        database: str = "",
        kept_at: str | None = None,
    ) -> None:
        url = _url(url_or_path)
        self.place = url.database or "" if _is_sqlite(url) else masked(url.render_as_string())
        self._schema = None if _is_sqlite(url) else "_".join(["lancegpu", *([database] if database else [])])
        self._busy_timeout_seconds = busy_timeout_seconds
        self._closed = False
        self._answered = False
        self._away_since: float | None = None
        self._reader: sa.Engine
        self._writer: sa.Engine
        with self._mapped():
            if self._schema is None:
                sqlite.prepare_file(Path(self.place))
                self._engine = sqlite.sqlite_engine(url, busy_timeout_seconds)
                self._reader = self._engine
                self._writer = self._engine.execution_options(**{sqlite.WRITES: True})
            else:
                self._engine = postgresql.postgresql_engine(url, self._schema, busy_timeout_seconds)
                # What one transaction reads is of one moment, as in SQLite.
                self._reader = self._engine.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                self._writer = self._engine
        _engines.add(self._engine)
        try:
            self._bring_up_to_date(kept_at)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that reads."""
        self._check_open()
        with self._mapped(), self._connected(self._reader) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes: alone from its first statement, committed at its end, or undone by an error."""
        self._check_open()
        with self._mapped(), self._connected(self._writer) as connection, connection.begin():
            if self._schema is not None:
                postgresql.wait_for_turn(connection, self._schema)
            yield connection

    def _connected(self, engine: sa.Engine) -> sa.Connection:
        """Take a connection; wait for a server that answered before: it may be started anew, or another take its place."""
        while True:
            try:
                connection = engine.connect()
            except exc.DBAPIError as error:
                if not self._may_come_back(error):
                    raise
                time.sleep(_AGAIN_SECONDS)
            else:
                self._answered, self._away_since = True, None
                return connection

    def _may_come_back(self, error: exc.DBAPIError) -> bool:
        if self._closed or self._schema is None or not self._answered or error.orig is None:
            return False
        # All calls together wait once for a server that stays away: who shuts down then is not held up again and again.
        self._away_since = since = self._away_since or time.monotonic()
        waited = time.monotonic() - since > self._busy_timeout_seconds
        return not waited and postgresql.trouble(error.orig).retryable

    def write(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run a transaction that writes, again where another program took the same new key first."""
        for attempt in range(_ATTEMPTS):
            try:
                with self.writing() as connection:
                    return work(connection)
            except CatalogError as error:
                if attempt == _ATTEMPTS - 1 or not isinstance(error.__cause__, exc.IntegrityError):
                    raise
        raise AssertionError("unreachable")

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Do something that no process of any host does at that time, by the same words; see `Catalog.alone`."""
        if self._schema is None:
            yield
            return
        self._check_open()
        with self._mapped():
            connection = self._connected(self._engine.execution_options(isolation_level="AUTOCOMMIT"))
        try:
            with self._mapped():
                while not postgresql.takes_turn(connection, f"{self._schema} {what}"):
                    time.sleep(_TURN_SECONDS)
            yield
        finally:
            connection.invalidate()  # closed, not kept for others: the turn goes with the session
            connection.close()

    def close(self) -> None:
        """Give every connection back."""
        self._closed = True
        self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise CatalogError(f"The catalog {self.place} was closed; connect again.", path=self.place)

    def _bring_up_to_date(self, kept_at: str | None) -> None:
        with self.reading() as connection:
            version = history.schema_version(connection, self.place)
        history.check_readable(version, self.place)
        if version == history.CURRENT_VERSION:
            return
        if version == 0 and kept_at is not None and self._schema is not None:
            raise CatalogError(
                f"{self.place} holds no catalog of this database (no schema {self._schema}), which was at {kept_at}. Name that, or "
                f"restore the schema here from a dump of it (pg_dump --schema={self._schema}).",
                path=self.place,
            )
        if self._schema is None:
            self._turn_on_write_ahead_log()
        with self.writing() as connection:  # of several processes one migrates, the others find it done
            if self._schema is not None:
                postgresql.make_schema(connection, self._schema)
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
            raise self._error(error) from error
        except ModuleNotFoundError as error:
            advice = (
                "pip install 'lancegpu-sql[postgresql]'"
                if error.name == postgresql.DRIVER
                else ("install it, or write postgresql:// for psycopg")
            )
            raise CatalogError(
                f"The catalog {self.place} needs the driver {error.name!r}, which is not installed here: {advice}.",
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

    def _error(self, error: Exception) -> Exception:
        cause = getattr(error, "orig", None) or error
        code = str(getattr(cause, "sqlite_errorname", "") or getattr(cause, "sqlstate", None) or "")
        advice, retryable = sqlite.told(cause), sqlite.is_busy(cause)
        if self._schema is not None and isinstance(error, exc.DBAPIError):
            if postgresql.is_beyond_limits(cause):
                return InvalidInput("a number is larger than the catalog can hold")
            trouble = postgresql.trouble(cause)
            advice, retryable = trouble.told, trouble.retryable
        told = advice or f"{type(cause).__name__}: {cause}"
        return CatalogError(
            f"The catalog {self.place} cannot be used: {told}.", path=self.place, code=code, retryable=retryable
        )


def is_postgresql(url_or_path: str | os.PathLike[str]) -> bool:
    """Whether a catalog's place is a PostgreSQL server."""
    return os.fspath(url_or_path).startswith(("postgresql:", "postgresql+", "postgres:"))


def _url(url_or_path: str | os.PathLike[str]) -> sa.URL:
    text = os.fspath(url_or_path)
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):  # its own words may hold a part of the password
        shown = masked(text)
        raise CatalogError(
            f"{shown!r} is neither a path nor a URL of a database. In a user's name or password, characters such as @ : / # "
            "are written in percent, as %40.",
            path=shown,
        ) from None
    if _is_sqlite(url):
        return sa.URL.create("sqlite", database=str(Path(url.database or "catalog.sqlite").absolute()))
    if not is_postgresql(text):
        raise InvalidInput(
            f"the catalog cannot be kept in {url.get_backend_name()!r}; name a path (a SQLite file), or a URL of PostgreSQL, "
            "such as postgresql://user@host/name",
        )
    return url.set(drivername=f"postgresql+{postgresql.DRIVER}") if "+" not in url.drivername else url


def _is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


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
