"""What the handles of one open database share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.scratch import Scratch
from lancegpu_sql.errors import Conflict, StorageError
from lancegpu_sql.functions.environment_store import EnvironmentStore
from lancegpu_sql.jobs.runner import JobRunner
from lancegpu_sql.placement.interface import Placement
from lancegpu_sql.query.plans import Plans
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables.store import TableStore
from lancegpu_sql.workers import WorkerPool


@dataclass(frozen=True)
class Services:
    """The rooms below, opened for one database; `folder` is its private one."""

    folder: Path
    tables: TableStore
    catalog: Catalog
    placement: Placement
    owns_placement: bool
    pool: WorkerPool
    runner: JobRunner
    settings: Settings
    environments: EnvironmentStore
    closed: threading.Event = field(default_factory=threading.Event)
    seen_views: dict[str, tuple[str, View | None]] = field(default_factory=dict)
    """By name of a table: its stamp when it was looked at, and the view that it was then."""

    scratch: Scratch | None = None
    """Of a database whose folder cannot be written: where this process keeps what it needs meanwhile."""
    plans: Plans = field(default_factory=Plans)
    """Of the queries of views."""

    def refresh_resources(self) -> Resources:
        """Return what refreshes need of all this."""
        return Resources(self.tables, self.catalog, self.pool, self.settings, self.folder, self.plans)

    def check_open(self) -> Services:
        """Return this, for those who are about to use it.

        Raises
        ------
        Conflict
            It was closed.
        """
        if self.closed.is_set():
            raise Conflict(f"The database {self.tables.uri} was closed; connect again to use it.", uri=self.tables.uri)
        return self

    def check_writable(self) -> None:
        """Raise StorageError for a database that is only read here."""
        if self.scratch is not None:
            raise StorageError(
                f"The database {self.tables.uri} can only be read here, for its folder cannot be written: refresh, optimize and "
                "serve it where it can. Queries work.",
                path=self.tables.uri,
            )

    def columns_computed_by(self, function: str, version: int | None = None) -> list[str]:
        """Return the columns that a Function, or one version of it, computes, as ``table.column``."""
        return [
            f"{table}.{column.column}"
            for table in self.tables.names()
            for column in self.tables.open(table).computed
            if column.function == function and version in (None, column.version)
        ]

    def close(self) -> None:
        """Stop jobs and workers, then close the catalog."""
        self.closed.set()
        self.runner.close()
        self.pool.close()
        if self.owns_placement:
            self.placement.close()
        self.catalog.close()
        if self.scratch is not None:
            self.scratch.remove()
