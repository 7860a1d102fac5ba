"""The catalog of one database, opened: Functions, GPU classes, jobs, schedules, agents, events and proofs."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from lancegpu_sql.catalog.agents_store import AgentStore
from lancegpu_sql.catalog.connection import CatalogConnection
from lancegpu_sql.catalog.events_store import EventStore
from lancegpu_sql.catalog.functions_store import FunctionStore
from lancegpu_sql.catalog.gpu_classes_store import GpuClassStore
from lancegpu_sql.catalog.jobs_store import JobStore
from lancegpu_sql.catalog.proofs_store import ProofStore
from lancegpu_sql.catalog.row_errors_store import RowErrorStore
from lancegpu_sql.catalog.schedules_store import ScheduleStore


class Catalog(FunctionStore, GpuClassStore, JobStore, AgentStore, EventStore, ProofStore, ScheduleStore, RowErrorStore):
    """What a database names beside its tables; safe for many threads and processes at once.

    Any method raises `CatalogError` where the database refuses: a full disk, missing rights, a lock held too long.
    What was committed before stays.
    """

    def __init__(self, connection: CatalogConnection) -> None:
        self._connection = connection

    @classmethod
    def open(
        cls,
        url_or_path: str | os.PathLike[str],
        *,
        busy_timeout_seconds: float = 30.0,
        database: str = "",
        kept_at: str | None = None,
    ) -> Self:
        """Open a catalog; make it, or bring it up to this release, where that is due.

        Parameters
        ----------
        url_or_path
            The path of a SQLite file, or a URL of PostgreSQL. A file is made readable by its owner alone.
        busy_timeout_seconds
            How long a change waits for another process's.
        database
            Its id, by which one PostgreSQL database holds the catalogs of several: each has a schema of its own.
        kept_at
            Where in PostgreSQL it was before: then none is made.

        Raises
        ------
        CatalogError
            It cannot be opened, is no catalog, or was made by a newer release; nothing was changed. `retryable` says
            whether it may work later, as where a server does not answer.
        """
        return cls(CatalogConnection(url_or_path, busy_timeout_seconds, database, kept_at))

    @property
    def place(self) -> str:
        """Where the catalog is: a file's absolute path, or a URL without its password."""
        return self._connection.place

    def alone(self, what: str) -> AbstractContextManager[None]:
        """Do something that no other process does at that time, by the same words, whichever host it is on.

        A catalog in a file keeps nobody waiting: it is of one host, whose processes lock files. The turn goes with the
        connection to the server, however that ends. Its entry raises `CatalogError`.
        """
        return self._connection.alone(what)

    def close(self) -> None:
        """Give the connections back; any later use raises `CatalogError`."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
