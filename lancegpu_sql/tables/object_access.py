"""How an object store is reached, and the connections to it, which all tables of a database share."""

from __future__ import annotations

from typing import Any

from lancegpu_sql.tables.engine import lance
from lancegpu_sql.tables.files import StorageOptions


class ObjectAccess:
    """The way to one object store.

    Each dataset has its caches to itself, for another table may have its name later. The connections are shared: one for each
    dataset would be a handshake for each look at a table.

    Parameters
    ----------
    options
        Lance's, secrets among them.
    """

    def __init__(self, options: StorageOptions | None) -> None:
        self.options = dict(options or {})
        self._stores: Any = None
        self._first: Any = None

    def open(self, uri: str, version: int | None = None) -> Any:
        """Return the dataset at a URL."""
        if self._stores is None:
            self._stores = lance.lance._ObjectStoreRegistry()  # noqa: SLF001  # what a session takes has no public name
        session = lance.Session(store_registry=self._stores)
        dataset = lance.dataset(uri, version=version, storage_options=self.options or None, session=session)
        if self._first is None:
            self._first = dataset  # the registry keeps connections as long as somebody has a dataset that uses them
        return dataset
