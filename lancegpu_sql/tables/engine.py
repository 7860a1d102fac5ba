"""The door to Lance: it is imported here, and here alone its errors become ours."""

from __future__ import annotations

import importlib
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from lancegpu_sql.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidData,
    InvalidInput,
    LanceGpuError,
    StorageError,
    TableNotFound,
    VersionNotFound,
)
from lancegpu_sql.tables import object_errors
from lancegpu_sql.tables.naming import HIDDEN_PREFIX


class _Later:
    """A module that is imported with its first use: a database is opened, and its workers are started, before Lance is there."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)


# Lance carries few type hints; what comes through this door is Any until a room's own value holds it.
lance: Any = _Later("lance")
lance_commit: Any = _Later("lance.commit")
lance_file: Any = _Later("lance.file")
lance_optimize: Any = _Later("lance.optimize")
lance_schema: Any = _Later("lance.schema")

T = TypeVar("T")

_MISSING_VERSION = re.compile(r"_versions/[^/\s]*\.manifest was not found|Not found: \S*_versions/[^/\s]*\.manifest")
_MISSING_FILE = re.compile(r"Not found: \S*/(?:data|_deletions)/\S+")
_CONFLICT = re.compile(
    r"^(?:Retryable commit|Commit) conflict|^Incompatible transaction|^Too (?:many|much) .*(?:writers|contention)",
    re.IGNORECASE,
)
_BAD_INPUT = re.compile(
    r"Invalid user input|different schema|LanceError\((?:Arrow|Schema)\)|Cannot cast|not found\.\s+Available fields"
    r"|does not exist in the dataset|C Data interface|Not supported|Divide by zero|Unsupported",
    re.IGNORECASE,
)
_RUST_LOCATION = re.compile(r",?\s*(?:location: )?/\S+\.rs:\d+(?::\d+)?")
_HIDDEN_COLUMN = re.compile(rf""", ['"]?{HIDDEN_PREFIX}[^,\]]*(?=[,\]])""")
_PREFIX = re.compile(
    r"^(?:Invalid user input: |LanceError\(\w+\): |External error: |Schema error: |Execution error: )+"
)


def plain_message(text: str) -> str:
    """Return what Lance said, without the places in its source, the layers it came through, and hidden columns."""
    first = _HIDDEN_COLUMN.sub("", _RUST_LOCATION.sub("", text)).strip().rstrip(".,")
    return _PREFIX.sub("", first).split(": Schema {", 1)[0]


def error_for(exc: BaseException, table: str, invalid: type[InvalidInput]) -> LanceGpuError | None:
    """Return our error for one that Lance raised, or None where it is not Lance's.

    Lance tells most of its errors apart by their text only; `invalid` is what a bad input is called in the operation
    that was tried.
    """
    text = str(exc)
    said = plain_message(text)
    if type(exc).__name__ == "PanicException":
        return StorageError(f"Lance broke down over table {table!r}: {said}", table=table)
    if not isinstance(exc, OSError | ValueError | RuntimeError | pa.ArrowException | KeyError | TypeError):
        return None
    if isinstance(exc, lance_commit.CommitConflictError) or _CONFLICT.search(text):
        return CommitConflict(
            f"Another writer changed table {table!r} at the same time: {said}. Try again.", table=table
        )
    if _MISSING_VERSION.search(text):
        return VersionNotFound(f"Table {table!r} has no such version, or it has been cleaned up.", table=table)
    if text.startswith("Dataset at path") and "was not found" in text:
        return TableNotFound(f"There is no table {table!r}.", table=table)
    if _MISSING_FILE.search(text):
        return VersionNotFound(
            f"Files of this version of table {table!r} are gone: it was cleaned up, or the table was dropped or made "
            "anew. Open the latest version.",
            table=table,
        )
    if "already exists" in text:
        return AlreadyExists(f"In table {table!r}: {said}.", table=table)
    named = f"Table {table!r}" if table else "The database"
    trouble = object_errors.trouble(text)
    if trouble is not None:
        return StorageError(
            f"{named} could not be read or written: {trouble.told}.", table=table, retryable=trouble.retryable
        )
    from_python = isinstance(exc, ValueError | KeyError | TypeError | pa.ArrowException)
    if "LanceError(IO)" not in text and (from_python or _BAD_INPUT.search(text)):
        return invalid(f"Table {table!r}: {said}.", table=table)
    return StorageError(f"{named} could not be read or written: {said}.", table=table)


@contextmanager
def lance_errors(table: str, invalid: type[InvalidInput] = InvalidData) -> Iterator[None]:
    """Raise Lance's errors as ours; `invalid` is the kind that a bad input becomes."""
    try:
        yield
    except LanceGpuError:
        raise
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # a panic inside Lance derives from BaseException
        error = error_for(exc, table, invalid)
        if error is None:
            raise
        # What an object store answered may hold a request's signature: no traceback is to show it.
        raise error from (None if object_errors.trouble(str(exc)) else exc)


def pauses() -> Iterator[float]:
    """Yield seconds to sleep before the next try: 5 ms, doubling to one second, each drawn so that rivals part."""
    ceiling_seconds = 0.005
    while True:
        yield random.uniform(ceiling_seconds / 2, ceiling_seconds)  # noqa: S311 - no secret
        ceiling_seconds = min(ceiling_seconds * 2, 1.0)


def until_committed(attempt: Callable[[], T], patience_seconds: float = 30.0, tries: int = 20) -> T:
    """Return what `attempt` returns, trying again while other writers are first.

    It gives up after `patience_seconds`, but not before so many `tries`: one may take minutes, as where an UPDATE calls
    Functions. Every try must read the latest version itself.
    """
    deadline = time.monotonic() + patience_seconds
    for tried, pause_seconds in enumerate(pauses(), start=1):
        try:
            return attempt()
        except CommitConflict:
            if tried >= tries and time.monotonic() + pause_seconds > deadline:
                raise
        time.sleep(pause_seconds)
    raise AssertionError("pauses() has no end")
