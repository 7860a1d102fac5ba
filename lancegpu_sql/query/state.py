"""What the user of a session made and set, and connections on which it is all there."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import duckdb

from lancegpu_sql.query.engine import connect, new_cursor
from lancegpu_sql.sql.names import fold, quote

_MADE_HERE = """
SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'
UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = 'memory' AND NOT internal
"""

_MACROS = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal AND function_type LIKE '%macro'"

_END_SECONDS = 2.0
"""How long DuckDB may take to leave a reading that was cancelled, before the engine is closed all the same."""


class Endable(Protocol):
    """A reading that is under way."""

    def end(self, timeout_seconds: float) -> None:
        """Cancel it, and wait up to a time for DuckDB to leave it."""


@dataclass(frozen=True)
class KeptText:
    """A view or macro whose text calls Functions, which DuckDB knows only while a query runs.

    Attributes
    ----------
    kind, name
        ``VIEW`` or ``MACRO``, and its name as written.
    text
        The statement that makes it, for one connection.
    """

    kind: str
    name: str
    text: str


class SessionState:
    """One engine, with what its user made, and the settings that each connection must repeat.

    Safe for use by several threads. In a process that forked off it begins anew, without what was made.
    """

    def __init__(self) -> None:
        self._engine = connect()
        self._process_id = os.getpid()
        self._settings: dict[str, str] = {}
        self._kept: dict[str, KeptText] = {}
        self._made_something = False
        self._untouched = True
        self._lock = threading.Lock()
        self.readings: weakref.WeakSet[Endable] = weakref.WeakSet()

    @property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """The engine; another one in a process that forked off."""
        if self._process_id != os.getpid():
            self._engine, self._process_id = connect(), os.getpid()
            self._made_something = False
            self._kept = {}
            self._lock = threading.Lock()
        return self._engine

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own, with the session's settings; the caller closes it."""
        cursor = new_cursor(self.engine)
        try:
            with self._lock:
                settings = list(self._settings.values())
            for text in settings:
                cursor.execute(text)
        except BaseException:
            cursor.close()
            raise
        return cursor

    def note_setting(self, name: str, text: str) -> None:
        """Repeat a SET on every later connection."""
        with self._lock:
            self._settings.pop(name, None)
            self._settings[name] = text

    @property
    def untouched(self) -> bool:
        """Whether the session is as it began, so that a text means the same as before."""
        return self._untouched and not self._kept

    def note_statement(self) -> None:
        """Say that its user runs one of DuckDB's own statements, whatever that does."""
        self._untouched = False

    def note_made(self) -> None:
        """Say that something was made in the engine."""
        self._made_something = True

    def made(self) -> tuple[str, ...]:
        """The names of the tables and views that the user made."""
        kept = tuple(one.name for one in self._kept.values() if one.kind == "VIEW")
        if not self._made_something:
            return kept
        with new_cursor(self.engine) as cursor:
            return (*kept, *(name for (name,) in cursor.execute(_MADE_HERE).fetchall()))

    def made_macros(self) -> tuple[str, ...]:
        """The names of the macros that DuckDB has of the user."""
        if not self._made_something:
            return ()
        with new_cursor(self.engine) as cursor:
            return tuple(name for (name,) in cursor.execute(_MACROS).fetchall())

    def remove_view(self, name: str) -> None:
        """Have DuckDB forget a view, if it has one of that name.

        Raises
        ------
        duckdb.Error
            It has a table of that name.
        """
        if self._made_something:
            with new_cursor(self.engine) as cursor:
                cursor.execute(f"DROP VIEW IF EXISTS memory.main.{quote(name)}")

    @property
    def kept(self) -> Mapping[str, KeptText]:
        """The views and macros whose text calls Functions, by folded name, in the order in which they were made."""
        return self._kept

    def keep(self, text: KeptText) -> None:
        """Keep one, in place of an earlier one of its name."""
        with self._lock:
            kept = {key: one for key, one in self._kept.items() if key != fold(text.name)}
            self._kept = kept | {fold(text.name): text}

    def forget(self, kind: str, name: str) -> bool:
        """Forget one; False where there is none of that kind and name."""
        with self._lock:
            one = self._kept.get(fold(name))
            if one is None or one.kind != kind:
                return False
            self._kept = {key: other for key, other in self._kept.items() if other is not one}
        return True

    def close(self) -> None:
        """End what is being read, and the engine; what lived in the session is gone."""
        if self._process_id != os.getpid():
            return  # in a process that forked off, the engine is its parent's
        for reading in list(self.readings):
            reading.end(_END_SECONDS)
        with suppress(duckdb.Error):  # while a thread still reads, DuckDB refuses; it ends with the last connection
            self._engine.close()
