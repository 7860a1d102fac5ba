"""A query that calls Functions: described at once, run anew by each reading of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import InPlace, refuse
from lancegpu_sql.query.kept import kept_used
from lancegpu_sql.query.reading import FunctionReading, Memos
from lancegpu_sql.query.result import QueryResult, Reading
from lancegpu_sql.query.state import SessionState
from lancegpu_sql.query.tables import QueryTables


class FunctionQuery:
    """One statement that reads and calls Functions.

    Parameters
    ----------
    text, parameters
        The statement, and values for it.
    tables
        Those that it reads.
    state
        What the session made and set.
    known
        The Functions by folded name.
    source
        Where they are computed.
    also
        The name of a view or macro that is made for it though it does not mention it.
    """

    def __init__(
        self,
        text: str,
        parameters: Any,
        tables: QueryTables,
        state: SessionState,
        known: Mapping[str, FunctionVersion],
        source: FunctionSource,
        also: str = "",
    ) -> None:
        self._text = text
        self._parameters = parameters
        self._tables = tables
        self._state = state
        self._known = known
        self._source = source
        self._memos = Memos(source.memo_bytes)
        self._movable = False
        self._kept = kept_used(f"{text} {also}", state.kept)

    def result(self) -> QueryResult:
        """Its result, not read yet.

        Raises
        ------
        InvalidQuery
            It does not bind.
        """
        try:
            columns, types = self._described(self._text)
        except InvalidQuery as exc:
            if "volatile" not in exc.message:
                raise
            # Such as PARTITION BY, where DuckDB wants the same value for the same arguments.
            self._movable = True
            columns, types = self._described(self._text)
        return QueryResult(self._opened, columns, types)

    @contextmanager
    def _opened(self) -> Iterator[Reading]:
        reading = FunctionReading(
            self._text,
            self._state.cursor,
            self._known,
            self._source,
            self._memos,
            self._bound_for,
            movable=self._movable,
        )
        self._state.readings.add(reading)
        try:
            yield reading
        finally:
            reading.close()

    def _bound_for(self, reading: FunctionReading) -> Any:
        return self._bind(reading.cursor(), self._text, reading.functions)

    def _described(self, text: str) -> tuple[list[str], list[str]]:
        """The names and types of a query's columns, without running it."""
        functions = InPlace(self._state.cursor(), self._known, refuse, movable=self._movable)
        cursor = self._state.cursor()
        try:
            with duckdb_errors():
                relation = self._bind(cursor, text, functions)
                return [functions.as_written(name) for name in relation.columns], list(map(str, relation.types))
        except LanceGpuError as exc:
            raise type(exc)(functions.as_written(exc.message), **exc.facts) from exc.__cause__
        finally:
            cursor.close()
            functions.close()

    def _bind(self, cursor: duckdb.DuckDBPyConnection, text: str, functions: InPlace) -> Any:
        for kept in self._kept:
            self._tables.bind(cursor, functions.text(kept.text))
        return self._tables.bind(cursor, functions.text(text), self._parameters)
