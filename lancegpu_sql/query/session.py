"""Runs SQL over the tables of one database, and keeps what its user makes for the session."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.engine import connect, duckdb_errors, missing_table, new_cursor
from lancegpu_sql.query.readable import check_distinct
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.rules import check_statement, check_write, remembered_setting
from lancegpu_sql.sql.names import choose, fold
from lancegpu_sql.sql.statement import replace_tables, write_in
from lancegpu_sql.tables.naming import is_table_name
from lancegpu_sql.tables.snapshot import Snapshot

Parameters = Sequence[object] | Mapping[str, object]

# A PIVOT that must look for its columns is several statements at once.
_READS = frozenset({"SELECT", "EXPLAIN", "MULTI"})
_LISTS_TABLES = re.compile(r"\s*(SHOW\s+TABLES|SHOW|DESCRIBE|PRAGMA\s+show_tables)\s*;?\s*", re.IGNORECASE)
# Queries about all tables; any other opens only the tables that it names.
_ABOUT_ALL_TABLES = re.compile(
    r"SHOW\s+ALL\s+TABLES|information_schema|duckdb_(tables|views|columns|constraints)\b|\bpg_\w+|sqlite_master"
    r"|PRAGMA\s+(show_tables_expanded|database_list)",
    re.IGNORECASE,
)
_MADE_HERE = """
SELECT table_name FROM duckdb_tables() WHERE database_name = 'memory'
UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = 'memory' AND NOT internal
"""


class QuerySession:
    """SQL over the tables of one database.

    Every query gets a connection of its own to one engine and sees the latest version of each table at its start: one
    version per table. Only the tables that it names are opened. ``TEMP`` tables, views and macros live in the engine,
    so that every later query sees them; settings are repeated for each connection. Safe for use by several threads.

    Parameters
    ----------
    snapshots
        The latest version of the table of exactly this name; None where there is none.
    names
        The names of all tables.
    """

    def __init__(self, snapshots: Callable[[str], Snapshot | None], names: Callable[[], list[str]]) -> None:
        self._snapshots = snapshots
        self._names = names
        self._engine = connect()
        self._process_id = os.getpid()
        self._settings: dict[str, str] = {}
        self._made_something = False
        self._lock = threading.Lock()

    def sql(self, text: str, parameters: Parameters | None = None) -> QueryResult:
        """Run SQL.

        Statements before the last run at once. So does the last where it does something; where it only reads, it is
        checked now and run when its rows are asked for.

        Parameters
        ----------
        text
            One or more statements.
        parameters
            Values for ``?``, ``$1`` (a sequence) or ``$name`` (a mapping) in the last statement.

        Returns
        -------
        QueryResult

        Raises
        ------
        InvalidQuery
            It does not parse or bind, or writes to one of the tables, which their methods do.
        """
        if parameters is not None and (
            isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping)
        ):
            raise InvalidQuery(
                f"The parameters of a query are a sequence, for ? or $1, or a mapping, for $name, not {parameters!r} "
                f"({type(parameters).__name__}). One alone is written [value]."
            )
        with duckdb_errors():
            statements = self._own_engine().extract_statements(text)
            if not statements:
                raise InvalidQuery("There is no statement to run.")
            for statement in statements[:-1]:
                self._run(statement, None)
            return self._run(statements[-1], parameters)

    def close(self) -> None:
        """End the engine; what lived in the session is gone."""
        if self._process_id == os.getpid():  # in a process that forked off, the engine is its parent's
            self._engine.close()

    def _own_engine(self) -> duckdb.DuckDBPyConnection:
        """The engine; another one in a process that forked off, which begins without what lived in the session."""
        if self._process_id != os.getpid():
            self._engine, self._process_id = connect(), os.getpid()
            self._made_something = False
            self._lock = threading.Lock()
        return self._engine

    def _run(self, statement: duckdb.Statement, parameters: Parameters | None) -> QueryResult:
        kind, text = statement.type.name, statement.query
        if _LISTS_TABLES.fullmatch(text):
            return self._list_tables()
        if kind in _READS:
            return self._read(_Query(text, parameters))
        check_statement(kind, text)
        write = write_in(text)
        if write is not None:
            made = self._made() if self._made_something else ()
            check_write(write, made=made, table=lambda name: self._name_of_table(name, made))
            text = write.text
        result = self._act(_Query(text, parameters))
        self._made_something = self._made_something or kind == "CREATE"
        name = remembered_setting(kind, text)
        if name is not None:
            with self._lock:
                self._settings.pop(name, None)
                self._settings[name] = text
        return result

    def _read(self, query: _Query) -> QueryResult:
        with self._bound(query) as relation:
            columns, types = list(relation.columns), [str(kind) for kind in relation.types]
        return QueryResult(lambda: self._bound(query), columns, types)

    def _act(self, query: _Query) -> QueryResult:
        with self._bound(query) as relation:
            # The statement has run; what it returned is small, and DuckDB has it.
            rows = relation.to_arrow_table() if relation is not None else pa.table({})
        return self._kept(rows)

    def _kept(self, rows: pa.Table) -> QueryResult:
        @contextmanager
        def opened() -> Iterator[duckdb.DuckDBPyRelation]:
            with self._cursor() as cursor:
                cursor.register("rows", rows)
                yield cursor.sql("FROM rows")

        with opened() as relation:
            return QueryResult(opened, list(relation.columns), [str(kind) for kind in relation.types])

    def _list_tables(self) -> QueryResult:
        made = self._made() if self._made_something else ()
        return self._kept(pa.table({"name": pa.array(sorted({*self._names(), *made}), pa.string())}))

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = new_cursor(self._own_engine())
        try:
            with self._lock:
                settings = list(self._settings.values())
            for text in settings:
                cursor.execute(text)
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def _bound(self, query: _Query) -> Iterator[Any]:
        """The query as a relation on a connection of its own, with its tables registered."""
        with self._cursor() as cursor:
            if query.tables is None:
                query.tables = {}
                self._find_tables(query, cursor)
            for name, table in query.tables.items():
                cursor.register(name, table)
            while True:
                try:
                    relation = cursor.sql(query.text, params=query.parameters)
                except duckdb.CatalogException as exc:
                    # A table that a view, a macro or a PIVOT names is missed only when it is bound.
                    missing = missing_table(exc)
                    if missing is None or missing in query.tables:
                        raise  # it is missed in another database, whose name stands before it
                    if not self._add(query, missing, self._made()):
                        raise self._no_table(missing) from exc
                    cursor.register(missing, query.tables[missing])
                else:
                    break
            yield relation

    def _find_tables(self, query: _Query, cursor: duckdb.DuckDBPyConnection) -> None:
        """Open the tables that the query names."""
        made = self._made() if self._made_something else ()
        try:
            mentioned = cursor.get_table_names(query.text)
        except duckdb.Error:
            mentioned = set()  # what it names comes out when it is bound
        for written in sorted(mentioned):
            self._add(query, written, made)
        if _ABOUT_ALL_TABLES.search(query.text):
            for name in self._names():
                self._add(query, name, made, only_listed=True)

    def _add(self, query: _Query, written: str, made: Sequence[str], *, only_listed: bool = False) -> bool:
        """Make the query know the table that a written name means; False where there is none."""
        assert query.tables is not None
        snapshot = self._latest(written, made)
        if snapshot is None:
            return False
        if not only_listed:
            check_distinct(snapshot.name, snapshot.schema)
        opened = {table.name: table for table in query.tables.values()}
        table = opened.get(snapshot.name) or TableRelation(snapshot)
        alike = next((other for other in query.tables if fold(other) == fold(written)), None)
        if alike is None:
            query.tables[written] = table
        elif query.tables[alike] is not table:
            # DuckDB cannot hold two names that differ in case only: one of them gets another.
            other = f"{written} (spelled so)"
            query.text = replace_tables(query.text, {written: other})
            query.tables[other] = table
        return True

    def _latest(self, written: str, made: Sequence[str]) -> Snapshot | None:
        """The table that a written name means, unless the session made something of that name."""
        if any(fold(name) == fold(written) for name in made):
            return None
        snapshot = self._snapshots(written) if is_table_name(written) else None
        if snapshot is None:
            chosen = choose(written, self._names())
            snapshot = None if chosen is None else self._snapshots(chosen)
        return snapshot

    def _name_of_table(self, written: str, made: Sequence[str]) -> str | None:
        snapshot = self._latest(written, made)
        return None if snapshot is None else snapshot.name

    def _made(self) -> tuple[str, ...]:
        with new_cursor(self._own_engine()) as cursor:
            return tuple(name for (name,) in cursor.execute(_MADE_HERE).fetchall())

    def _no_table(self, name: str) -> InvalidQuery:
        known = sorted(self._names())
        shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        return InvalidQuery(
            f"There is no table {name!r}. " + (f"The tables are {shown}." if known else "There are none.")
        )


@dataclass
class _Query:
    """A statement and the tables it reads, which are opened once."""

    text: str
    parameters: Parameters | None
    tables: dict[str, TableRelation] | None = field(default=None)
