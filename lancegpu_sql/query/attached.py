"""Tables and Functions on a DuckDB connection that somebody else made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import AlreadyExists, InvalidInput
from lancegpu_sql.query.arguments import FunctionTypes
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.gathering import Gathered
from lancegpu_sql.query.readable import check_distinct
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.udf import make_udf
from lancegpu_sql.sql.names import fold
from lancegpu_sql.tables.reading import at_latest
from lancegpu_sql.tables.snapshot import Snapshot

Connection = duckdb.DuckDBPyConnection

_SEEN = "(database_name = 'temp' OR (database_name = current_database() AND schema_name = current_schema()))"
_RELATIONS = f"""
SELECT table_name FROM duckdb_tables() WHERE {_SEEN}
UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal AND {_SEEN}
"""  # noqa: S608 - put together of constants
_FUNCTIONS = "SELECT DISTINCT function_name FROM duckdb_functions()"


class Attached:
    """What is shown of a database on a connection, until `close`.

    Parameters
    ----------
    connection
        A connection of DuckDB's. Tables are seen by it alone, Functions by all connections to its engine.
    source
        Where Functions are computed.

    Raises
    ------
    InvalidInput
        It is no such connection, or it is closed.
    """

    def __init__(self, connection: object, source: FunctionSource) -> None:
        if not isinstance(connection, duckdb.DuckDBPyConnection):
            raise InvalidInput(
                f"attach() takes a connection, such as duckdb.connect() or duckdb.default_connection(), not {connection!r}"
            )
        self._connection = connection
        with duckdb_errors():
            self._maker = connection.cursor()
        self.gathered = Gathered(source)
        self._tables: dict[str, TableRelation] = {}
        self._functions: dict[str, FunctionVersion] = {}
        self._callables: dict[str, Any] = {}  # DuckDB counts on them to live as long as its functions

    def show(self, tables: Mapping[str, Snapshot], functions: Mapping[str, FunctionVersion]) -> None:
        """Show just these, by the names that they are to have; what is shown already in the same version stays.

        Raises
        ------
        AlreadyExists
            The connection has something else of such a name; nothing was changed.
        """
        for snapshot in tables.values():
            check_distinct(snapshot.name, snapshot.schema)
        with duckdb_errors():
            self._check_free("tables", tables, self._tables, _RELATIONS)
            self._check_free("functions", functions, self._functions, _FUNCTIONS)
            for name in [name for name in self._tables if name not in tables]:
                self._hide_table(name)
            for name in [name for name, version in self._functions.items() if functions.get(name) != version]:
                self._hide_function(name)
            for name, snapshot in tables.items():
                if name not in self._tables or self._tables[name].snapshot.version != snapshot.version:
                    relation = at_latest(snapshot, TableRelation)
                    self._connection.register(name, relation)
                    self._tables[name] = relation
            for name, version in functions.items():
                if name not in self._functions:
                    self._show_function(name, version)
        self.gathered.forget()

    def close(self) -> None:
        """Hide everything, and give workers back. The connection stays open.

        What the connection has not read of a result is dropped, as by any statement.
        """
        self.gathered.close()
        try:
            with duckdb_errors(), suppress(duckdb.ConnectionException):  # it was closed, and all is gone
                self._connection.execute("SELECT 1").fetchall()  # nothing is removed while a result is being read
                for name in list(self._functions):
                    self._hide_function(name)
                for name in list(self._tables):
                    self._hide_table(name)
        finally:
            self._maker.close()

    def _show_function(self, name: str, version: FunctionVersion) -> None:
        types = FunctionTypes(version)

        def called(*columns: Any) -> pa.Array:
            return types.readable_values(self.gathered.compute(version, types.arguments(columns)))

        make_udf(self._maker, name, types, called, volatile=not version.deterministic)
        self._callables[name] = called
        self._functions[name] = version

    def _hide_function(self, name: str) -> None:
        self._maker.remove_function(name)
        del self._functions[name], self._callables[name]

    def _hide_table(self, name: str) -> None:
        self._connection.unregister(name)
        del self._tables[name]

    def _check_free(self, what: str, wanted: Mapping[str, Any], shown: Iterable[str], query: str) -> None:
        taken = {fold(name) for (name,) in self._connection.execute(query).fetchall()} - set(map(fold, shown))
        seen: set[str] = set()
        for name in wanted:
            if fold(name) in taken or fold(name) in seen:
                has = "DuckDB has" if what == "functions" else "The connection has"
                kind = "a function" if what == "functions" else "a table or view"
                also = " and another" if fold(name) in seen else ""
                raise AlreadyExists(
                    f"{has} {kind} {name!r} already{also}. Give this one another name, {what}={{{name!r}: {name + '_2'!r}}}, "
                    f"which attaches those that it names, or leave it out with {what}=[…].",
                    name=name,
                )
            seen.add(fold(name))
