"""What a database in an object store says of itself: its id, and where its catalog is.

It stands in the schema's metadata of a Lance dataset without rows, for Lance makes and changes one so that of two
processes that come at once one is first.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

import pyarrow as pa

from lancegpu_sql.errors import AlreadyExists, TableNotFound
from lancegpu_sql.tables.creation import create
from lancegpu_sql.tables.engine import lance_errors, until_committed
from lancegpu_sql.tables.files import StorageOptions
from lancegpu_sql.tables.naming import PRIVATE_FOLDER
from lancegpu_sql.tables.object_access import ObjectAccess
from lancegpu_sql.tables.snapshot import Snapshot

_PATH = f"{PRIVATE_FOLDER}/database.lance"
_ID_KEY = "lancegpu:database_id"
_CATALOG_KEY = "lancegpu:catalog"
# What is wrong with it is wrong with the database.
_NAME = ""


class DatabaseNote:
    """The note of one database.

    Parameters
    ----------
    uri
        Of the database.
    options
        How its object store is reached.

    Raises
    ------
    StorageError
        From every method: the store refuses.
    """

    def __init__(self, uri: str, options: StorageOptions | None) -> None:
        self._at = f"{uri}/{_PATH}"
        self._access = ObjectAccess(options)

    def exists(self) -> bool:
        """Tell whether there is one: whether a database was opened there before."""
        try:
            self._open()
        except TableNotFound:
            return False
        return True

    def database_id(self) -> str:
        """Return the database's id, made when it is first asked for."""
        try:
            return self._read()[_ID_KEY]
        except TableNotFound:
            pass
        schema = pa.schema([pa.field("nothing", pa.bool_())], {_ID_KEY: uuid.uuid4().hex})
        # Where another process is first, its id holds for both.
        with suppress(AlreadyExists):
            create(_NAME, self._at, schema.empty_table().to_reader(), self._access.options)
        return self._read()[_ID_KEY]

    def kept_at(self) -> str | None:
        """Return where in PostgreSQL the database's catalog was opened last, None where it never was."""
        return self._read().get(_CATALOG_KEY)

    def keep(self, place: str) -> None:
        """Note where the catalog is; `place` holds no password."""
        if self.kept_at() == place:
            return

        def attempt() -> None:
            with lance_errors(_NAME):
                self._open().dataset.update_schema_metadata({_CATALOG_KEY: place})

        until_committed(attempt)

    def _read(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in (self._open().full_schema.metadata or {}).items()}

    def _open(self) -> Snapshot:
        return Snapshot.open(_NAME, self._at, access=self._access)
