"""The door to DuckDB: how a connection is made, and what its errors become."""

from __future__ import annotations

import ctypes
import json
import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from lancegpu_sql.errors import Cancelled, InvalidQuery, LanceGpuError, StorageError
from lancegpu_sql.sql.row_ids import reads_row_ids
from lancegpu_sql.tables import object_errors

# SQL must not reach Python variables, nor fetch code over the network on its own. Reading and writing files stays
# allowed: the caller could do it without SQL.
_SETTINGS: dict[str, str | bool] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}
# A streamed result fills this buffer before its first batch is handed out; DuckDB's own 10 MiB would make a reader of a
# slow query wait for most of it. A larger one is no faster.
STREAMING_BUFFER = "256KiB"

_TYPES = "lancegpu_types"
_INTERRUPTED = "Query interrupted"
_READ_TABLE = re.compile(r"registered as '([^']+)'")
_MISSING_TABLE = re.compile(r"Catalog Error: Table with name (.*?) does not exist!", re.DOTALL)


def connect() -> duckdb.DuckDBPyConnection:
    """A new engine in memory, of which every cursor is a connection of its own."""
    engine = duckdb.connect(":memory:", config=dict(_SETTINGS))
    _engines.add(engine)
    return engine


# A fork handler cannot be taken back: one for all engines there ever are.
_engines: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def _leave_engines() -> None:
    """Never end these engines in a process that forked off: their threads are its parent's, and ending waits for them."""
    for engine in tuple(_engines):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    _engines.clear()


os.register_at_fork(after_in_child=_leave_engines)


def new_cursor(engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection to the same engine, with its own temporary names and one open stream at a time."""
    cursor = engine.cursor()
    cursor.execute(f"SET streaming_buffer_size = '{STREAMING_BUFFER}'")
    return cursor


def read_tree(cursor: duckdb.DuckDBPyConnection, text: str) -> object:
    """DuckDB's own reading of a query, as plain values; None where it gives none."""
    try:
        found = cursor.execute("SELECT json_serialize_sql($1)", [text]).fetchall()
    except duckdb.Error:
        return None
    try:
        tree = json.loads(found[0][0])
    except RecursionError:  # brackets within brackets, a thousand deep
        return None
    return None if tree.get("error") else tree


def types_for(cursor: duckdb.DuckDBPyConnection, kinds: Sequence[pa.DataType]) -> list[DuckDBPyType]:
    """The types under which DuckDB reads Arrow's."""
    if not kinds:
        return []
    schema = pa.schema([pa.field(str(index), kind) for index, kind in enumerate(kinds)])
    cursor.register(_TYPES, schema.empty_table())
    types = list(cursor.sql(f"FROM {_TYPES}").types)
    cursor.unregister(_TYPES)
    return types


def missing_table(error: duckdb.Error) -> str | None:
    """The name of the table for whose lack a query was refused."""
    found = _MISSING_TABLE.match(str(error)) if isinstance(error, duckdb.CatalogException) else None
    return found[1] if found else None


def error_for(error: Exception) -> LanceGpuError:
    """What a DuckDB error is called here."""
    message = str(error)
    # From a reader of Arrow's it comes as an OSError with DuckDB's words.
    if isinstance(error, duckdb.InterruptException) or message.startswith("INTERRUPT Error: "):
        return Cancelled("The query was cancelled")
    if reads_row_ids(message):  # the line that it shows is not as anybody wrote it
        message = message.partition("\n\nLINE ")[0]
    store = object_errors.trouble(message)
    if store is not None:
        table = _READ_TABLE.search(message)
        named = f"Table {table[1]!r}" if table else "A table"
        return StorageError(f"{named} could not be read to its end: {store.told}.", retryable=store.retryable)
    if "the stream registered as" in message or "from the object registered as" in message:
        return StorageError(f"A table could not be read to its end. {message}")
    if isinstance(error, duckdb.IOException):
        return StorageError(message)
    return InvalidQuery(message)


def cause_of(error: Exception) -> Exception | None:
    """What an error of ours is raised from: not what an object store answered, which may hold a request's signature."""
    return None if object_errors.trouble(str(error)) else error


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """Raise ours instead of DuckDB's errors, and Python's own where Ctrl-C ended a step."""
    try:
        yield
    except duckdb.Error as exc:
        raise error_for(exc) from cause_of(exc)
    except RuntimeError as exc:
        if str(exc) == _INTERRUPTED:  # the words DuckDB puts over the KeyboardInterrupt that it saw
            raise KeyboardInterrupt from None
        raise
