"""The tables that a query reads: found by the names in its text, each opened once, at one version."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import duckdb

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.engine import missing_table, read_tree
from lancegpu_sql.query.placed import placed
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.proved import proved
from lancegpu_sql.query.readable import check_distinct
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.sql.names import choose, fold
from lancegpu_sql.sql.row_ids import ROW_ID, name_without_row_ids, reads_row_ids, with_row_ids
from lancegpu_sql.sql.stages import StoredColumn
from lancegpu_sql.sql.statement import replace_tables
from lancegpu_sql.sql.tree_nodes import tables_in
from lancegpu_sql.sql.versions import version_named
from lancegpu_sql.tables.naming import is_table_name, told_missing
from lancegpu_sql.tables.reading import at_latest
from lancegpu_sql.tables.snapshot import Snapshot

# Queries about all tables; any other opens only the tables that it names.
_ABOUT_ALL_TABLES = re.compile(
    r"SHOW\s+ALL\s+TABLES|information_schema|duckdb_(tables|views|columns|constraints)\b|\bpg_\w+|sqlite_master"
    r"|PRAGMA\s+(show_tables_expanded|database_list)",
    re.IGNORECASE,
)


class Tables:
    """The tables of the database by name.

    Parameters
    ----------
    snapshots
        The latest version of the table of exactly this name; None where there is none.
    names
        The names of all tables.
    row_ids
        Whether queries may read the ids of their rows.
    """

    def __init__(
        self, snapshots: Callable[[str], Snapshot | None], names: Callable[[], list[str]], *, row_ids: bool = True
    ) -> None:
        self._snapshots = snapshots
        self.names = names
        self._row_ids = row_ids

    def latest(self, written: str, made: Sequence[str]) -> Snapshot | None:
        """The table that a written name means, unless the session made something of that name."""
        if any(fold(name) == fold(written) for name in made):
            return None
        snapshot = self._snapshots(written) if is_table_name(written) else None
        if snapshot is None:
            chosen = choose(written, self.names())
            snapshot = None if chosen is None else self._snapshots(chosen)
        return snapshot

    def name_of(self, written: str, made: Sequence[str]) -> str | None:
        """The name of the table that a written name means."""
        snapshot = self.latest(written, made)
        return None if snapshot is None else snapshot.name

    def with_row_ids(self, text: str, made: Sequence[str]) -> str:
        """A text, its versions named, in which tables whose row ids it reads have names of their own."""

        def has_row_ids(name: str) -> bool:
            version = version_named(name)
            snapshot = self.latest(version[0], ()) if version else self.latest(name, made)
            return snapshot is not None and not any(fold(column) == ROW_ID for column in snapshot.schema.names)

        return with_row_ids(text, has_row_ids) if self._row_ids else text

    def no_table(self, name: str) -> InvalidQuery:
        """The error that says that there is no such table."""
        return InvalidQuery(told_missing(name, self.names()))


class QueryTables:
    """The tables that one query reads, however many texts it is cut into; each keeps the version it had at first.

    Parameters
    ----------
    tables
        Those of the database.
    made
        The names of what the session made, which come first.
    versions
        Names in the text that stand for a table at an older version.
    given
        Relations by the names that the text has for them; other mentions of their tables read the same versions.
    """

    def __init__(
        self,
        tables: Tables,
        made: Callable[[], Sequence[str]],
        versions: Mapping[str, tuple[str, int]] | None = None,
        given: Mapping[str, TableRelation] | None = None,
    ) -> None:
        self._tables = tables
        self._made = made
        self._versions = versions or {}
        self._opened: dict[tuple[str, int | None, bool], TableRelation] = {}
        self._found: dict[str, TableRelation] = dict(given or {})
        self._pinned = {table.name: table.snapshot for table in self._found.values()}
        self._asked: dict[str, TableRelation | None] = {}
        self._computed: dict[str, list[StoredColumn]] = {}
        self._proving: set[str] = set()
        self._prepared: dict[str, str] = {}
        self._known_to: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = weakref.WeakKeyDictionary()

    def bind(self, cursor: duckdb.DuckDBPyConnection, text: str, parameters: Any = None) -> Any:
        """A text as a relation on a connection, with its tables registered there; None where it returns nothing."""
        prepared = self._prepared.get(text)
        if prepared is None:
            prepared = self._find(text, cursor)
        self.register(cursor)
        while True:
            try:
                relation = cursor.sql(prepared, params=parameters)
            except duckdb.CatalogException as exc:
                # A table that a view, a macro or a PIVOT names is missed only when it is bound.
                missing = missing_table(exc)
                if missing is None or missing in self._found:
                    # Or it is missed in another database, whose name stands before it.
                    raise self._placed(exc, cursor, text, prepared, parameters) from None
                changed = self._add(prepared, missing, self._made())
                if changed is None:
                    raise self._tables.no_table(name_without_row_ids(missing)) from exc
                prepared = changed
                self.register(cursor)
            except duckdb.BinderException as exc:
                raise self._placed(exc, cursor, text, prepared, parameters) from None
            else:
                self._prepared = {text: prepared}
                return relation

    def computed(self, stored: Callable[[Snapshot], Sequence[Stored]]) -> dict[str, list[StoredColumn]]:
        """The computed columns of the tables that were found so far, by the names that the text has for these.

        Relations that prove rows are found from now on, too.
        """
        made = self._made()
        for name in [name for name in self._found if name not in self._computed and name not in self._proving]:
            table, taken = self._found[name], [*self._found, *made]
            self._computed[name], relation, proved_table = proved(name, table, stored(table.snapshot), taken)
            if proved_table is not None:
                self._found[relation] = proved_table
                self._proving.add(relation)
        return dict(self._computed)

    def open(self, text: str, names: Sequence[str]) -> None:
        """Open the tables that a text reads, by what it was found to ask for when it was bound before."""
        made = self._made()
        for written in names:
            self._add(text, written, made)
        self._add_listed(text, made)

    def asked(self) -> tuple[str, ...]:
        """All that was taken for the name of a table so far, whether there is one or not."""
        return tuple(self._asked)

    def names(self) -> list[str]:
        """The names that the text has for the tables that were found so far."""
        return list(self._found)

    def schemas(self) -> list[tuple[str, str]]:
        """The columns of the tables that were found so far, by the names that the text has for these."""
        return sorted((name, str(table.schema)) for name, table in self._found.items())

    def register(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make a connection know the tables that were found so far."""
        known = self._known_to.setdefault(cursor, set())
        for name, table in list(self._found.items()):
            if name not in known:
                cursor.register(name, table)
                known.add(name)

    def _placed(
        self, error: duckdb.Error, cursor: duckdb.DuckDBPyConnection, text: str, prepared: str, parameters: Any
    ) -> duckdb.Error:
        """The error with its place, unless the text is another than the user's."""
        own = self._versions or prepared != text or reads_row_ids(text)
        return error if own else placed(error, cursor, text, parameters)

    def _find(self, text: str, cursor: duckdb.DuckDBPyConnection) -> str:
        """Open the tables that the text names, and return it as it is to be run."""
        made = self._made()
        try:
            mentioned: Iterable[str] = cursor.get_table_names(text)
        except duckdb.Error:
            # It binds, to tables without columns, which is none of USING's and NATURAL's. What is missing here comes out later.
            mentioned = tables_in(read_tree(cursor, text))
        for written in sorted(mentioned):
            text = self._add(text, written, made) or text
        return self._add_listed(text, made)

    def _add_listed(self, text: str, made: Sequence[str]) -> str:
        """Know all tables, where a text is about them."""
        if _ABOUT_ALL_TABLES.search(text):
            for name in self._tables.names():
                text = self._add(text, name, made, only_listed=True) or text
        return text

    def _add(self, text: str, written: str, made: Sequence[str], *, only_listed: bool = False) -> str | None:
        """Know the table that a written name means; the text as it is to be run then, None where there is none."""
        table = self._meant(written, made, only_listed=only_listed)
        if table is None:
            return None
        alike = next((other for other in self._found if fold(other) == fold(written)), None)
        if alike is None:
            self._found[written] = table
        elif self._found[alike] is not table:
            # DuckDB cannot hold two names that differ in case only: one of them gets another.
            other = f"{written} (spelled so)"
            text = replace_tables(text, {written: other})
            self._found[other] = table
        return text

    def _meant(self, written: str, made: Sequence[str], *, only_listed: bool) -> TableRelation | None:
        """The table that a written name means: that which it meant in the first text that has it."""
        if written in self._asked:
            return self._asked[written]
        plain, table = name_without_row_ids(written), None
        snapshot = self._snapshot(plain, made)
        if snapshot is not None:
            if not only_listed:
                check_distinct(snapshot.name, snapshot.schema)
            version = snapshot.version if self._version(plain) else None
            table = self._relation(snapshot, version, row_ids=plain != written)
        if not only_listed:
            self._asked[written] = table
        return table

    def _relation(self, snapshot: Snapshot, version: int | None, *, row_ids: bool) -> TableRelation:
        """A table that is opened once, with its row ids and without them at the same version."""

        def opened(one: Snapshot) -> TableRelation:
            return TableRelation(one, [ROW_ID] if row_ids else ())

        table = self._opened.get((snapshot.name, version, row_ids))
        if table is None:
            other = self._opened.get((snapshot.name, version, not row_ids))
            known = snapshot if other is None else other.snapshot
            table = opened(known) if version or other else at_latest(known, opened)
            self._opened[snapshot.name, version, row_ids] = table
        return table

    def _version(self, written: str) -> tuple[str, int] | None:
        """The table and version that a name stands for, in the text or in a view that it reads."""
        return self._versions.get(written) or version_named(written)

    def _snapshot(self, written: str, made: Sequence[str]) -> Snapshot | None:
        named = self._version(written)
        if named is None:
            latest = self._tables.latest(written, made)
            return latest and self._pinned.get(latest.name, latest)
        name, version = named
        latest = self._tables.latest(name, ())
        if latest is None:
            raise self._tables.no_table(name)
        return latest.checkout(version)
