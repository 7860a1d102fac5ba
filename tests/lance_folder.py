"""A folder of Lance tables for tests of what reads them, with a note of which were opened."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from lancegpu_sql.query.session import QuerySession
from lancegpu_sql.tables.snapshot import Snapshot


class LanceFolder:
    """Tables in a folder, as a database hands them to a query session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[str] = []

    def write(
        self, name: str, data: pa.Table | dict[str, object], *, mode: str = "create", rows_per_file: int = 2
    ) -> None:
        """Write a table; files are small, so that a few rows are several fragments."""
        table = data if isinstance(data, pa.Table) else pa.table(data)
        lance.write_dataset(
            table, self._uri(name), mode=mode, enable_stable_row_ids=True, max_rows_per_file=rows_per_file
        )

    def names(self) -> list[str]:
        """The tables' names."""
        return sorted(path.stem for path in self.folder.glob("*.lance"))

    def snapshot(self, name: str) -> Snapshot | None:
        """The latest version of the table of exactly this name."""
        if name not in self.names():
            return None
        self.opened.append(name)
        return Snapshot.open(name, self._uri(name))

    def session(self) -> QuerySession:
        """A session over all of them."""
        return QuerySession(self.snapshot, self.names)

    def _uri(self, name: str) -> str:
        return str(self.folder / f"{name}.lance")
