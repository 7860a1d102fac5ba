"""A query that calls Functions: planned at once, run anew by each reading of its result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import InPlace, Movable, refuse, signatures_of
from lancegpu_sql.query.kept import kept_used
from lancegpu_sql.query.reading import FunctionReading, Memos
from lancegpu_sql.query.result import QueryResult, Reading
from lancegpu_sql.query.stages import Stages, parameters_for
from lancegpu_sql.query.state import SessionState
from lancegpu_sql.query.tables import QueryTables
from lancegpu_sql.sql.plan import plan_query
from lancegpu_sql.sql.stages import QueryPlan


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
        self._kept = kept_used(f"{text} {also}", state.kept)
        self._plan = QueryPlan((), text, ())

    def result(self) -> QueryResult:
        """Its result, not read yet.

        Raises
        ------
        InvalidQuery
            It does not bind.
        """
        with self._describer() as describer:
            columns = describer.columns(self._text)
            self._plan = plan_query(
                self._text, signatures_of(self._known), describer.columns, read_tree=describer.read_tree
            )
        return QueryResult(self._opened, [name for name, _ in columns], [kind for _, kind in columns])

    @contextmanager
    def _opened(self) -> Iterator[Reading]:
        def bind(reading: FunctionReading) -> Any:
            reading.runs_as_written = not self._plan.stages
            return Stages(self._plan, self._parameters, self._known, reading, self._bind).relation()

        reading = FunctionReading(self._text, self._state.cursor, self._known, self._source, self._memos, bind)
        self._state.readings.add(reading)
        try:
            yield reading
        finally:
            reading.close()

    @contextmanager
    def _describer(self) -> Iterator[_Describer]:
        functions = InPlace(self._state.cursor(), self._known, refuse)
        cursor = self._state.cursor()
        try:
            with duckdb_errors():
                self._make_kept(cursor, functions, "all")
                yield _Describer(cursor, functions, self._tables, self._parameters)
        except LanceGpuError as exc:
            raise type(exc)(functions.as_written(exc.message), **exc.facts) from exc.__cause__
        finally:
            cursor.close()
            functions.close()

    def _bind(self, cursor: duckdb.DuckDBPyConnection, text: str, parameters: Any, functions: InPlace) -> Any:
        """A text as a relation of a reading."""
        try:
            self._make_kept(cursor, functions, "none")
            return self._tables.bind(cursor, functions.text(text), parameters)
        except duckdb.BinderException as exc:
            if not any(word in str(exc) for word in _REFUSES):
                raise
        self._make_kept(cursor, functions, "deterministic")
        return self._tables.bind(cursor, functions.text(text, "deterministic"), parameters)

    def _make_kept(self, cursor: duckdb.DuckDBPyConnection, functions: InPlace, movable: Movable) -> None:
        for kept in self._kept:
            self._tables.bind(cursor, functions.text(kept.text, movable))


# What DuckDB says where it wants the same value for the same arguments: in PARTITION BY, where an alias is used again.
_REFUSES = ("volatile", "side effects")


class _Describer:
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
            relation = self._tables.bind(
                self._cursor, self._functions.text(text, "all"), parameters_for(text, self._parameters)
            )
            names = map(self._functions.as_written, relation.columns)
            return list(zip(names, map(str, relation.types), strict=True))

    def read_tree(self, text: str) -> object:
        """DuckDB's own reading of a query; None where it gives none."""
        try:
            found = self._cursor.execute("SELECT json_serialize_sql($1)", [text]).fetchone()
        except duckdb.Error:
            return None
        tree = json.loads(found[0]) if found else None
        return None if tree is None or tree.get("error") else tree
