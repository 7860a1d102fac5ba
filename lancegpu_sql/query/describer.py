"""What columns the texts of a query have, told by DuckDB without running them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.query.engine import duckdb_errors, read_tree
from lancegpu_sql.query.in_place import InPlace
from lancegpu_sql.query.stages import parameters_for
from lancegpu_sql.query.tables import QueryTables


class Describer:
    """Tells what columns texts have, for one query."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, functions: InPlace, tables: QueryTables, parameters: Any
    ) -> None:
        self._cursor = cursor
        self._functions = functions
        self._tables = tables
        self._parameters = parameters

    def columns(self, text: str) -> list[tuple[str, str]]:
        """The names and types of a query's columns, without running it."""
        with duckdb_errors():
            relation = self._relation(text)
            names = map(self._functions.as_written, relation.columns)
            return list(zip(names, map(str, relation.types), strict=True))

    def schema(self, text: str) -> pa.Schema:
        """The same in Arrow's types."""
        with duckdb_errors():
            rows = self._relation(text).limit(0).to_arrow_table()
            return rows.rename_columns(list(map(self._functions.as_written, rows.column_names))).schema

    def _relation(self, text: str) -> Any:
        parameters = parameters_for(text, self._parameters)
        named = self._functions.text(text, "all", united=True)
        return bound(self._tables, self._cursor, named, parameters, self._functions)

    def read_tree(self, text: str) -> object:
        """DuckDB's own reading of a query; None where it gives none."""
        return read_tree(self._cursor, text)


def bound(
    tables: QueryTables, cursor: duckdb.DuckDBPyConnection, text: str, parameters: Any, functions: InPlace
) -> Any:
    """A text with private names as a relation; its subqueries' columns have names that their user can write.

    What DuckDB says against it, it says of the text as it was, so far as it says the same of that.
    """
    named = functions.with_inner_names(text)
    if named == text:
        return tables.bind(cursor, text, parameters)
    try:
        return tables.bind(cursor, named, parameters)
    except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException) as exc:
        said = exc
    try:
        return tables.bind(cursor, text, parameters)
    except duckdb.Error as exc:
        raise (exc if _first_line(exc) == _first_line(said) else said) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
