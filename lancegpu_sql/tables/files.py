"""The files of one table that are touched beside Lance's own hands: in a local folder, or in an object store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lancegpu_sql.tables.engine import lance_file

StorageOptions = Mapping[str, str]
"""How an object store is reached: Lance's names, such as ``aws_endpoint``, and their values."""

_AT_ONCE = 16

T = TypeVar("T")


class TableFiles(Protocol):
    """Files by their paths below the table, such as ``data/x.lance``.

    `tell_outcomes`: a commit that failed was surely not made. Of one in an object store the reply may have been lost.
    """

    tell_outcomes: bool

    def missing(self, paths: Iterable[str]) -> set[str]:
        """Return which of these are not there."""
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that belong to no version; one that stays in spite of that only takes room."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file that no version names yet; half of one is left only where this raises or the process ends."""
        ...


class LocalFiles:
    """In a local folder."""

    tell_outcomes = True

    def __init__(self, uri: str) -> None:
        self._folder = Path(uri)

    def missing(self, paths: Iterable[str]) -> set[str]:
        """Return which of these are not there."""
        return {path for path in paths if not (self._folder / path).exists()}

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""
        for path in paths:
            (self._folder / path).unlink(missing_ok=True)

    def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        at = self._folder / path
        at.parent.mkdir(exist_ok=True)
        at.write_bytes(content)


class ObjectFiles:
    """In an object store, by Lance's own client of it: the same credentials, the same retries."""

    tell_outcomes = False

    def __init__(self, uri: str, options: StorageOptions | None) -> None:
        self._session = object_session(uri, options)

    def missing(self, paths: Iterable[str]) -> set[str]:
        """Return which of these are not there."""
        asked = list(paths)
        there = at_once(self._session.contains, asked)
        return {path for path, found in zip(asked, there, strict=True) if not found}

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files."""

        def remove_one(path: str) -> None:
            # Some stores call it an error that there is none; where the store is away, Lance's clean-up finds it later.
            with suppress(OSError, RuntimeError):
                self._session.delete_file(path)

        at_once(remove_one, paths)

    def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        put(self._session, path, content)


def is_local(uri: str) -> bool:
    """Tell whether a table or a database lies in a local folder, and not in an object store."""
    return "://" not in uri


def files_at(uri: str, options: StorageOptions | None) -> TableFiles:
    """Return the files of the table that lies there."""
    return LocalFiles(uri) if is_local(uri) else ObjectFiles(uri, options)


def object_session(uri: str, options: StorageOptions | None) -> Any:
    """Return Lance's client of the objects whose names begin so."""
    return lance_file.LanceFileSession(uri, dict(options) if options else None)


def put(session: Any, path: str, content: bytes) -> None:
    """Write an object. Lance's client takes what is sent from a file."""
    with tempfile.NamedTemporaryFile(prefix="lancegpu-") as file:
        file.write(content)
        file.flush()
        session.upload_file(file.name, path)


def at_once(work: Callable[[str], T], items: Iterable[str]) -> list[T]:
    """Return what `work` gives for each, some at a time: an answer of an object store is tens of milliseconds away."""
    asked = list(items)
    if len(asked) < 2:
        return [work(item) for item in asked]
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked)), "lancegpu objects") as pool:
        return list(pool.map(work, asked))
