"""What the query of a view reads, pinned at one version for the whole of a refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lancegpu_sql.errors import ColumnNotFound, TableNotFound, VersionNotFound
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.plans import Plans
from lancegpu_sql.query.session import QuerySession
from lancegpu_sql.refresh.views.model import SourceState, fields_of, fragment_mark, whole_mark
from lancegpu_sql.tables import Snapshot, TableStore


class PinnedTables:
    """The tables of a database, each at the version at which it was first looked at.

    Parameters
    ----------
    tables
        Those of the database.
    reads
        Of some tables the columns that are to be seen, so that ``*`` means what it meant when a view was made.
    plans
        Of queries that were run before.
    """

    def __init__(
        self,
        tables: TableStore,
        reads: Mapping[str, Sequence[str]] = MappingProxyType({}),
        plans: Plans | None = None,
    ) -> None:
        self._plans = plans
        self._tables = tables
        self._reads = reads
        self._seen: dict[str, Snapshot] = {}

    def session(self, functions: FunctionSource) -> QuerySession:
        """Return a session of its own: what a user made in another one does not exist there."""
        return QuerySession(self.find, self._tables.names, functions, reads_all=True, plans=self._plans, row_ids=False)

    def find(self, name: str) -> Snapshot | None:
        """Return the table of exactly this name; None where there is none."""
        if name not in self._seen:
            if not self._tables.exists(name):
                return None
            self.pin(name)
        return self._seen[name]

    def pin(self, name: str) -> Snapshot:
        """Return the table of exactly this name.

        Raises
        ------
        TableNotFound
        """
        if name not in self._seen:
            found = self._tables.open(name)
            reads = self._reads.get(name)
            # A query that names no column still counts rows: of a table without columns there are none to count.
            self._seen[name] = found.showing(reads) if reads else found
        return self._seen[name]

    @property
    def seen(self) -> dict[str, Snapshot]:
        """The tables that were looked at."""
        return dict(self._seen)


def marks_of(
    snapshot: Snapshot, columns: Iterable[str], key: bytes = b"", *, deletions: bool = True
) -> dict[int, bytes]:
    """Return what stands for some columns of each fragment that has rows, by its number; see `fragment_mark`."""
    fields = fields_of(snapshot, columns)
    return {one.id: fragment_mark(one, fields, key, deletions=deletions) for one in snapshot.fragments if one.live_rows}


def as_refreshed(snapshot: Snapshot, columns: Iterable[str], noted: SourceState) -> Snapshot | None:
    """Return a source as the last refresh read it; None where that version is gone, or another table's."""
    try:
        old = snapshot.checkout(noted.version)
        return old if state_of(old, columns).mark == noted.mark else None
    except (VersionNotFound, ColumnNotFound, TableNotFound):
        return None


def state_of(snapshot: Snapshot, columns: Iterable[str]) -> SourceState:
    """Return a source as it is: its version, and what stands for the rows and columns that matter."""
    return SourceState(version=snapshot.version, mark=whole_mark(marks_of(snapshot, columns).values()))
