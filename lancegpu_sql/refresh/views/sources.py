"""What the query of a view reads, pinned at one version for the whole of a refresh."""

from __future__ import annotations

from collections.abc import Iterable

from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.session import QuerySession
from lancegpu_sql.refresh.views.model import SourceState, fragment_mark, whole_mark
from lancegpu_sql.tables import Snapshot, TableStore


class PinnedTables:
    """The tables of a database, each at the version at which it was first looked at."""

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables
        self._seen: dict[str, Snapshot] = {}

    def session(self, functions: FunctionSource) -> QuerySession:
        """Return a session of its own: what a user made in another one does not exist there."""
        return QuerySession(self.find, self._tables.names, functions)

    def find(self, name: str) -> Snapshot | None:
        """Return the table of exactly this name; None where there is none."""
        if name not in self._seen:
            if not self._tables.exists(name):
                return None
            self._seen[name] = self._tables.open(name)
        return self._seen[name]

    def pin(self, name: str) -> Snapshot:
        """Return the table of exactly this name.

        Raises
        ------
        TableNotFound
        """
        return self._seen.setdefault(name, self._tables.open(name))

    @property
    def seen(self) -> dict[str, Snapshot]:
        """The tables that were looked at."""
        return dict(self._seen)


def marks_of(snapshot: Snapshot, columns: Iterable[str] | None = None, key: bytes = b"") -> dict[int, bytes]:
    """Return what stands for each fragment that has rows, by its number: for all of it, or for some columns."""
    if columns is None:
        fields = frozenset(leaf for leaves in snapshot.leaves.values() for leaf in leaves)
    else:
        fields = frozenset(leaf for name in columns for leaf in snapshot.leaves[snapshot.field_id(name)])
    return {one.id: fragment_mark(one, fields, key) for one in snapshot.fragments if one.live_rows}


def state_of(snapshot: Snapshot, columns: Iterable[str] | None = None) -> SourceState:
    """Return a source as it is: its version, and what stands for the rows and columns that matter."""
    return SourceState(version=snapshot.version, mark=whole_mark(marks_of(snapshot, columns).values()))
