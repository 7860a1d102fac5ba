"""What the handles of one open database share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.jobs.runner import JobRunner
from lancegpu_sql.placement.interface import Placement
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables.store import TableStore
from lancegpu_sql.workers import WorkerPool

PRIVATE_FOLDER = ".lancegpu"
"""Beside the tables: catalog, checkpoints, logs, locks. LanceDB takes only folders named ``*.lance`` for tables."""


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

    def refresh_resources(self) -> Resources:
        """Return what refreshes need of all this."""
        return Resources(self.tables, self.catalog, self.pool, self.settings, self.folder)

    def close(self) -> None:
        """Stop jobs and workers, then close the catalog."""
        self.runner.close()
        self.pool.close()
        if self.owns_placement:
            self.placement.close()
        self.catalog.close()
