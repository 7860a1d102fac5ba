"""Queries that DuckDB runs alone, and rows that are there already, as results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.query.carriers import restored
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.result import PlainReading, QueryResult
from lancegpu_sql.query.state import SessionState
from lancegpu_sql.query.tables import QueryTables


class PlainQueries:
    """Those of one session; each has a connection of its own."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own, for as long as it is needed."""
        cursor = self._state.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def reading(self, text: str, parameters: Any, tables: QueryTables) -> Iterator[PlainReading]:
        """A query as DuckDB has it, on a connection of its own."""
        with (
            duckdb_errors(),
            self.cursor() as cursor,
            closing(PlainReading(cursor, lambda: tables.bind(cursor, text, parameters))) as reading,
        ):
            yield reading

    def fixed(self, rows: pa.Table, kinds: Mapping[str, str] = MappingProxyType({})) -> QueryResult:
        """Rows that are there already, as a result.

        Parameters
        ----------
        kinds
            The types of columns that Arrow does not keep.
        """

        @contextmanager
        def opened() -> Iterator[PlainReading]:
            def bind() -> Any:
                cursor.register("rows", rows)
                return cursor.sql(restored("rows", kinds))

            with self.cursor() as cursor, closing(PlainReading(cursor, bind)) as reading:
                yield reading

        return self.result(opened)

    def result(self, opened: Callable[[], AbstractContextManager[PlainReading]]) -> QueryResult:
        """A result that a reading gives, which is bound now and read when its rows are asked for."""
        with duckdb_errors(), opened() as reading:
            relation = reading.relation  # it is only bound, which takes no time
            columns, types = list(relation.columns), list(map(str, relation.types))
        return QueryResult(opened, columns, types)
