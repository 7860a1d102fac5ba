"""A database's tables: a folder, or a prefix in an object store, that stays an ordinary LanceDB directory."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from lancegpu_sql.errors import AlreadyExists, InvalidName, TableNotFound
from lancegpu_sql.tables import changes, creation
from lancegpu_sql.tables.beside import Beside
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.files import StorageOptions, is_local
from lancegpu_sql.tables.folder_place import FolderPlace
from lancegpu_sql.tables.naming import check_columns, check_table_name, is_table_name
from lancegpu_sql.tables.object_place import ObjectPlace
from lancegpu_sql.tables.places import CreateMode, Exchange, Place
from lancegpu_sql.tables.rewriting import rewrite
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.sources import converted, without_declarations


class TableStore:
    """The tables of one database, each a Lance dataset ``<name>.lance``.

    Parameters
    ----------
    uri
        A local folder, made when the first table is, or the URL of a prefix in an object store.
    storage_options
        How the object store is reached.

    Raises
    ------
    StorageError
        The path is a file.
    """

    swap_seconds = 10.0
    """How long the exchange of two folders may take where the file system has no single step for it (1 ms)."""

    def __init__(self, uri: str | os.PathLike[str], storage_options: StorageOptions | None = None) -> None:
        text = os.fspath(uri)
        self._place: Place = (
            FolderPlace(Path(text), self.swap_seconds) if is_local(text) else ObjectPlace(text, storage_options)
        )

    @property
    def uri(self) -> str:
        """The folder, or the URL."""
        return self._place.uri

    @property
    def storage_options(self) -> StorageOptions | None:
        """How the object store is reached, secrets among it."""
        return None if self._place.access is None else self._place.access.options

    @property
    def is_local(self) -> bool:
        """Whether the tables lie in a local folder."""
        return is_local(self.uri)

    @cached_property
    def beside(self) -> Beside | None:
        """What is kept in the object store for all hosts; None for a folder, where all hosts see one private folder."""
        return None if self.is_local else Beside(self.uri, self.storage_options)

    def path_of(self, name: str) -> str:
        """Return where a table of this name lies, or would lie."""
        if not is_table_name(name):
            raise InvalidName(f"{name!r} cannot name a table.", name=name)
        return self._place.location(name)

    def names(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return sorted(self._place.names())

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table. A creation that was killed leaves files without versions: no table."""
        self.path_of(name)
        return self._place.has(name)

    def stamp(self, name: str) -> str | None:
        """Return what is another text after each commit to a table; None where there is no such table.

        Of two equal texts nothing was committed in between. One taken within moments of a commit may be another one later.
        """
        return self._place.stamp(name)

    def open(self, name: str, version: int | None = None) -> Snapshot:
        """Return a table's latest version, or the one asked for.

        Raises
        ------
        InvalidName, TableNotFound, VersionNotFound
        """
        path, access = self.path_of(name), self._place.access
        try:
            return Snapshot.open(name, path, version, access)
        except TableNotFound:
            if not self._place.bring_back(name):
                raise
            return Snapshot.open(name, path, version, access)

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
        if exists and self.open(name).has_stable_row_ids:
            return self._write(name, self.path_of(name), reader, "overwrite")
        # Lance ignores the flag for stable row ids when it overwrites a table that lacks them.
        return self._place.create(name, mode, lambda path: self._write(name, path, reader, "create"))

    def create_view(self, name: str, schema: pa.Schema) -> Snapshot:
        """Create the empty table of a materialized view, with stable row ids; its columns may be hidden ones.

        Raises
        ------
        InvalidName, InvalidData, AlreadyExists, StorageError
        """
        check_table_name(name)
        if self.exists(name):
            raise AlreadyExists(f"There is a table or view {name!r} already.", table=name)
        return self._place.create(
            name, "create", lambda path: self._write(name, path, schema.empty_table().to_reader(), "create")
        )

    def convert(self, name: str, *, exchange: Exchange | None = None) -> Snapshot:
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
            InvalidData in an object store, where nothing takes another's place in one step.
        """
        old = self.open(name)
        if old.has_stable_row_ids and not old.has_first_format:
            return old
        return self._place.replace(old, lambda path: rewrite(old, path), exchange)

    def drop(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a table with all its versions. It is gone at once; a crash leaves at most files that no table names.

        Raises
        ------
        TableNotFound
            Unless `missing_ok`.
        """
        self.path_of(name)
        try:
            self._place.drop(name)
        except TableNotFound:
            if not missing_ok:
                raise

    def _write(self, name: str, path: str, reader: pa.RecordBatchReader, mode: str) -> Snapshot:
        schema = without_declarations(reader.schema)
        stream = converted(reader, schema, lambda batch: pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        if mode == "create" and not self.is_local:
            with stream.own_failures():
                dataset = creation.create(name, path, stream.reader, self.storage_options)
                return Snapshot(name, path, dataset, access=self._place.access)
        with stream.own_failures(), lance_errors(name):
            dataset = lance.write_dataset(
                stream.reader,
                path,
                schema=schema,
                mode=mode,
                enable_stable_row_ids=True,
                storage_options=dict(self.storage_options) if self.storage_options else None,
            )
        return Snapshot(name, path, dataset, access=self._place.access)
