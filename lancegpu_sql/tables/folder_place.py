"""Tables in a local folder: what is made or goes is renamed, so that a name is never half of a table."""

from __future__ import annotations

import errno
import os
import time
import uuid
from pathlib import Path

from lancegpu_sql.errors import AlreadyExists, StorageError, TableNotFound
from lancegpu_sql.tables import changes
from lancegpu_sql.tables.folders import (
    BESIDE_PREFIX,
    bring_back,
    bring_back_all,
    exchange,
    remove_folder,
    remove_old_folders,
)
from lancegpu_sql.tables.naming import is_table_name
from lancegpu_sql.tables.object_access import ObjectAccess
from lancegpu_sql.tables.places import SUFFIX, CreateMode, Exchange, Write
from lancegpu_sql.tables.snapshot import Snapshot

# How old one must be to be the leaving of a process that was killed: Lance waits as long with files of its own.
_LEFT_OVER_SECONDS = 7 * 24 * 3600.0
_SETTLED_NS = 1_000_000_000


class FolderPlace:
    """The tables in one folder.

    Parameters
    ----------
    folder
        It is made when the first table is.
    swap_seconds
        How long the exchange of two folders may take where the file system has no single step for it (1 ms).

    Raises
    ------
    StorageError
        The path is a file.
    """

    access: ObjectAccess | None = None

    def __init__(self, folder: Path, swap_seconds: float) -> None:
        self._folder = folder.expanduser().absolute()
        self._swap_seconds = swap_seconds
        self.uri = str(self._folder)
        if self._folder.exists() and not self._folder.is_dir():
            raise StorageError(f"{self._folder} is a file; a database is a folder.", path=self.uri)
        bring_back_all(self._folder, self._swap_seconds)

    def location(self, name: str) -> str:
        """Return where a table of this name lies, or would lie."""
        return str(self._path(name))

    def names(self) -> list[str]:
        """Return the names of all tables."""
        if not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            found = [entry.name.removesuffix(SUFFIX) for entry in entries if entry.name.endswith(SUFFIX)]
        return [name for name in found if is_table_name(name) and self.has(name)]

    def has(self, name: str) -> bool:
        """Tell whether there is such a table."""
        try:
            with os.scandir(self._path(name) / "_versions") as entries:
                return any(entries)
        except FileNotFoundError:
            return self.bring_back(name) and self.has(name)
        except NotADirectoryError:
            return False

    def stamp(self, name: str) -> str | None:
        """Return when the last version was committed. A stamp of these very moments is another one later."""
        # Agents ask thousands of times a second: paths of pathlib would take longer than the look itself.
        try:
            changed_ns = os.stat(f"{self.uri}/{name}{SUFFIX}/_versions").st_mtime_ns  # noqa: PTH116
        except (OSError, ValueError):
            return None
        # A file system's clock may tick only every few milliseconds: until it surely has, a next commit might look the same.
        settled = time.time_ns() - changed_ns > _SETTLED_NS
        return f"{changed_ns}" if settled else f"{changed_ns}?"

    def bring_back(self, name: str) -> bool:
        """Give a table its name back that an exchange in steps, killed between them, left without it."""
        return bring_back(self._path(name), self._swap_seconds)

    def create(self, name: str, mode: CreateMode, write: Write) -> Snapshot:
        """Write a new table beside the others, then give it its name."""
        self._make_folder()
        beside = self._beside()
        try:
            write(str(beside))
            return self._put(name, beside, mode)
        finally:
            remove_folder(beside)

    def replace(self, old: Snapshot, write: Write, exchange: Exchange | None = None) -> Snapshot:
        """Put another table in the place of one, unless that was changed meanwhile."""
        beside = self._beside()
        try:
            write(str(beside))
            changes.check_unchanged(old)
            copied = old.version, old.fragments
            self._exchange(old.name, beside, exchange)
            # A commit that came between the look and the exchange went into the folder that is now beside; and one of
            # its name may have been made anew, and come to the same version.
            found = Snapshot.open(old.name, str(beside))
            if (found.version, found.fragments) != copied:
                self._exchange(old.name, beside, exchange)
                raise changes.was_changed(old)
            return self._open(old.name)
        finally:
            remove_folder(beside)

    def drop(self, name: str) -> None:
        """Remove a table. It is gone at once; a crash leaves at most a hidden folder."""
        going = self._beside()
        try:
            self._path(name).rename(going)
        except FileNotFoundError:
            raise TableNotFound(f"There is no table {name!r}.", table=name) from None
        except OSError as exc:
            raise StorageError(f"Table {name!r} could not be dropped: {exc}", path=self.location(name)) from exc
        remove_folder(going)

    def _put(self, name: str, beside: Path, mode: CreateMode) -> Snapshot:
        """Give a finished folder the table's name; what had it before is in `beside` then."""
        path = self._path(name)
        try:
            beside.rename(path)
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise StorageError(f"Table {name!r} could not be put in place: {exc}", path=str(path)) from exc
            # What is there may be no table, only what a creation that was killed left.
            if self.has(name) and mode != "overwrite":
                return self._beaten(name, beside, mode)
            self._exchange(name, beside)
        return self._open(name)

    def _beaten(self, name: str, beside: Path, mode: CreateMode) -> Snapshot:
        """Do what `mode` says of a table that is there: someone else created it while the rows were written."""
        if mode == "exist_ok":
            return self._open(name)
        if mode == "append":
            return changes.add(self._open(name), Snapshot.open(name, str(beside)).to_reader())
        raise AlreadyExists(f"Table {name!r} was created by someone else meanwhile.", table=name)

    def _exchange(self, name: str, beside: Path, swap: Exchange | None = None) -> None:
        try:
            (swap or exchange)(beside, self._path(name))
        except FileNotFoundError as exc:
            raise TableNotFound(f"Table {name!r} was dropped meanwhile.", table=name) from exc
        except OSError as exc:
            raise StorageError(f"Table {name!r} could not be replaced: {exc}", path=self.location(name)) from exc

    def _open(self, name: str) -> Snapshot:
        return Snapshot.open(name, self.location(name))

    def _path(self, name: str) -> Path:
        return self._folder / (name + SUFFIX)

    def _beside(self) -> Path:
        return self._folder / f"{BESIDE_PREFIX}{uuid.uuid4().hex}"

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise StorageError(f"The folder {self.uri} cannot be made: {exc}", path=self.uri) from exc
        bring_back_all(self._folder, self._swap_seconds)
        remove_old_folders(self._folder, BESIDE_PREFIX, _LEFT_OVER_SECONDS)
