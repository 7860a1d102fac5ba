"""A database's tables: a folder of Lance datasets that stays an ordinary LanceDB directory."""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa

from lancegpu_sql.errors import AlreadyExists, InvalidName, StorageError, TableNotFound
from lancegpu_sql.tables import changes
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.folders import (
    bring_back,
    bring_back_all,
    exchange,
    remove_folder,
    remove_old_folders,
)
from lancegpu_sql.tables.naming import check_columns, check_table_name, is_table_name
from lancegpu_sql.tables.rewriting import rewrite
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.sources import converted, without_declarations

CreateMode = Literal["create", "overwrite", "exist_ok", "append"]

_SUFFIX = ".lance"
# Folders on their way in or out. Without the suffix, no tool takes them for tables.
_BESIDE_PREFIX = ".lancegpu-table-"
# How old one must be to be the leaving of a process that was killed: Lance waits as long with files of its own.
_LEFT_OVER_SECONDS = 7 * 24 * 3600.0
_SETTLED_NS = 1_000_000_000

Exchange = Callable[[Path, Path], None]


class TableStore:
    """The tables in one folder, each a Lance dataset ``<name>.lance``.

    Parameters
    ----------
    uri
        A local folder. It is made when the first table is.

    Raises
    ------
    StorageError
        The path is a file.
    """

    swap_seconds = 10.0
    """How long the exchange of two folders may take where the file system has no single step for it (1 ms)."""

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        self._folder = Path(uri).expanduser().absolute()
        if self._folder.exists() and not self._folder.is_dir():
            raise StorageError(f"{self._folder} is a file; a database is a folder.", path=self.uri)
        bring_back_all(self._folder, self.swap_seconds)

    @property
    def uri(self) -> str:
        """The folder."""
        return str(self._folder)

    def path_of(self, name: str) -> Path:
        """Return where a table of this name lies, or would lie."""
        if not is_table_name(name):
            raise InvalidName(f"{name!r} cannot name a table.", name=name)
        return self._folder / (name + _SUFFIX)

    def names(self) -> list[str]:
        """Return the names of all tables, sorted."""
        if not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            found = [entry.name.removesuffix(_SUFFIX) for entry in entries if entry.name.endswith(_SUFFIX)]
        return sorted(name for name in found if is_table_name(name) and self.exists(name))

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table. A creation that was killed leaves a folder without versions: no table."""
        path = self.path_of(name)
        try:
            with os.scandir(path / "_versions") as entries:
                return any(entries)
        except FileNotFoundError:
            return bring_back(path, self.swap_seconds) and self.exists(name)
        except NotADirectoryError:
            return False

    def stamp(self, name: str) -> str | None:
        """Return what is another text after each commit to a table, without opening it; None where there is no such table.

        Of two equal texts nothing was committed in between. One taken within moments of a commit is another one later.
        """
        # Agents ask thousands of times a second: paths of pathlib would take longer than the look itself.
        try:
            changed_ns = os.stat(f"{self.uri}/{name}{_SUFFIX}/_versions").st_mtime_ns  # noqa: PTH116
        except (OSError, ValueError):
            return None
        # A file system's clock may tick only every few milliseconds: until it surely has, a next commit might look the same.
        settled = time.time_ns() - changed_ns > _SETTLED_NS
        return f"{changed_ns}" if settled else f"{changed_ns}?"

    def open(self, name: str, version: int | None = None) -> Snapshot:
        """Return a table's latest version, or the one asked for.

        Raises
        ------
        InvalidName, TableNotFound, VersionNotFound
        """
        path = self.path_of(name)
        try:
            return Snapshot.open(name, str(path), version)
        except TableNotFound:
            if not bring_back(path, self.swap_seconds):
                raise
            return Snapshot.open(name, str(path), version)

    def create(self, name: str, reader: pa.RecordBatchReader, mode: CreateMode = "create") -> Snapshot:
        """Create a table with stable row ids and fill it.

        Parameters
        ----------
        name
            LanceDB's rule: A-Z, a-z, 0-9, ``_``, ``-`` and ``.``; not starting with a dot.
        reader
            The rows. Their schema becomes the table's; a declaration of a computed column in it does not.
        mode
            What to do with a table of that name: ``create`` refuses, ``overwrite`` replaces its rows and schema
            (earlier versions stay, except where the table had no stable row ids), ``exist_ok`` leaves it as it is and
            reads no row, ``append`` adds the rows.

        Raises
        ------
        InvalidName, InvalidData, AlreadyExists, StorageError
        """
        check_table_name(name)
        if mode not in ("create", "overwrite", "exist_ok", "append"):
            raise InvalidName(f"{mode!r} is not a mode: use create, overwrite, exist_ok or append.")
        exists = self.exists(name)
        if exists and mode == "exist_ok":
            return self.open(name)
        if exists and mode == "append":
            return changes.add(self.open(name), reader)
        if exists and mode == "create":
            raise AlreadyExists(
                f"There is a table {name!r} already. Open it, or create with mode='overwrite'.", table=name
            )
        check_columns(reader.schema)
        self._make_folder()
        if exists and self.open(name).has_stable_row_ids:
            return self._write(name, self.path_of(name), reader, "overwrite")
        # Lance ignores the flag for stable row ids when it overwrites a table that lacks them.
        beside = self._beside()
        try:
            self._write(name, beside, reader, "create")
            return self._put(name, beside, mode)
        finally:
            remove_folder(beside)

    def create_view(self, name: str, schema: pa.Schema) -> Snapshot:
        """Create the empty table of a materialized view, with stable row ids; its columns may be hidden ones.

        Raises
        ------
        InvalidName, InvalidData, AlreadyExists, StorageError
        """
        check_table_name(name)
        if self.exists(name):
            raise AlreadyExists(f"There is a table or view {name!r} already.", table=name)
        self._make_folder()
        beside = self._beside()
        try:
            self._write(name, beside, schema.empty_table().to_reader(), "create")
            return self._put(name, beside, "create")
        finally:
            remove_folder(beside)

    def convert(self, name: str, *, exchange: Exchange = exchange) -> Snapshot:
        """Rewrite a table that lacks stable row ids (as LanceDB's do) into one with them.

        Rows, schema, metadata and computed columns stay. Earlier versions and indexes do not. The copy is written
        beside the table and takes its place at the end; if the table was changed meanwhile, CommitConflict is raised
        and nothing was done.

        Parameters
        ----------
        exchange
            Lets two folders swap names; to be replaced where others write meanwhile on purpose.

        Raises
        ------
        TableNotFound, InvalidData, CommitConflict, StorageError
        """
        old = self.open(name)
        if old.has_stable_row_ids and not old.has_first_format:
            return old
        beside = self._beside()
        try:
            rewrite(old, str(beside))
            changes.check_unchanged(old)
            copied = old.version, old.fragments
            self._exchange(name, beside, exchange)
            # A commit that came between the look and the exchange went into the folder that is now beside; and one of
            # its name may have been made anew, and come to the same version.
            found = Snapshot.open(name, str(beside))
            if (found.version, found.fragments) != copied:
                self._exchange(name, beside, exchange)
                raise changes.was_changed(old)
            return self.open(name)
        finally:
            remove_folder(beside)

    def drop(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a table with all its versions. It is gone at once; a crash leaves at most a hidden folder.

        Raises
        ------
        TableNotFound
            Unless `missing_ok`.
        """
        going = self._beside()
        try:
            self.path_of(name).rename(going)
        except FileNotFoundError:
            if missing_ok:
                return
            raise TableNotFound(f"There is no table {name!r}.", table=name) from None
        except OSError as exc:
            raise StorageError(f"Table {name!r} could not be dropped: {exc}", path=str(self.path_of(name))) from exc
        remove_folder(going)

    def _write(self, name: str, path: Path, reader: pa.RecordBatchReader, mode: str) -> Snapshot:
        schema = without_declarations(reader.schema)
        stream = converted(reader, schema, lambda batch: pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        with stream.own_failures(), lance_errors(name):
            dataset = lance.write_dataset(
                stream.reader, str(path), schema=schema, mode=mode, enable_stable_row_ids=True
            )
        return Snapshot(name, str(path), dataset)

    def _put(self, name: str, beside: Path, mode: CreateMode) -> Snapshot:
        """Give a finished folder the table's name; what had it before is in `beside` then."""
        path = self.path_of(name)
        try:
            beside.rename(path)
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise StorageError(f"Table {name!r} could not be put in place: {exc}", path=str(path)) from exc
            # What is there may be no table, only what a creation that was killed left.
            if self.exists(name) and mode != "overwrite":
                return self._beaten(name, beside, mode)
            self._exchange(name, beside, exchange)
        return self.open(name)

    def _beaten(self, name: str, beside: Path, mode: CreateMode) -> Snapshot:
        """Do what `mode` says of a table that is there: someone else created it while the rows were written."""
        if mode == "exist_ok":
            return self.open(name)
        if mode == "append":
            return changes.add(self.open(name), Snapshot.open(name, str(beside)).to_reader())
        raise AlreadyExists(f"Table {name!r} was created by someone else meanwhile.", table=name)

    def _exchange(self, name: str, beside: Path, exchange: Exchange) -> None:
        try:
            exchange(beside, self.path_of(name))
        except FileNotFoundError as exc:
            raise TableNotFound(f"Table {name!r} was dropped meanwhile.", table=name) from exc
        except OSError as exc:
            raise StorageError(f"Table {name!r} could not be replaced: {exc}", path=str(self.path_of(name))) from exc

    def _beside(self) -> Path:
        return self._folder / f"{_BESIDE_PREFIX}{uuid.uuid4().hex}"

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise StorageError(f"The folder {self.uri} cannot be made: {exc}", path=self.uri) from exc
        bring_back_all(self._folder, self.swap_seconds)
        remove_old_folders(self._folder, _BESIDE_PREFIX, _LEFT_OVER_SECONDS)
