"""Runs SQL over the tables of one database, and keeps what its user makes for the session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar
from uuid import uuid4

import duckdb
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.query.carriers import rows_of
from lancegpu_sql.query.engine import duckdb_errors, read_tree
from lancegpu_sql.query.function_query import FunctionQuery
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import NeedsToRun, signatures_of
from lancegpu_sql.query.kept import kept_used
from lancegpu_sql.query.own_statements import OwnStatements
from lancegpu_sql.query.plain import PlainQueries
from lancegpu_sql.query.plans import Plans
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.state import SessionState
from lancegpu_sql.query.tables import QueryTables, Tables
from lancegpu_sql.sql.explained import explained_in, query_explained, with_explained
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.missing_function import with_registered
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.versions import with_version_names
from lancegpu_sql.sql.views import EngineFunctions
from lancegpu_sql.tables.snapshot import Snapshot

Result = TypeVar("Result")
Parameters = Sequence[object] | Mapping[str, object]

# A PIVOT that must look for its columns is several statements at once.
_READS = frozenset({"SELECT", "EXPLAIN", "MULTI"})
_WRITES = re.compile(r"\s*(CREATE|COPY|INSERT)\b", re.IGNORECASE)
# What they give is small, and holds names of columns.
_ABOUT_A_QUERY = re.compile(r"\s*(DESCRIBE|SUMMARIZE|SHOW|DESC)\b", re.IGNORECASE)
# DuckDB carries out what does so as it binds it, each time.
_MOVES_A_SEQUENCE = re.compile(r"\b(nextval|setval)\s*\(", re.IGNORECASE)
_FORMATS = frozenset({"text", "json"})
_LISTS_TABLES = re.compile(r"\s*(SHOW\s+TABLES|SHOW|DESCRIBE|PRAGMA\s+show_tables)\s*;?\s*", re.IGNORECASE)
# A function of one name may be several: of some only those that read the clock in another time zone are not the same.
_ENGINE_FUNCTIONS = """
SELECT function_name, 'volatile' FROM duckdb_functions() WHERE function_type = 'scalar'
GROUP BY ALL HAVING bool_and(stability <> 'CONSISTENT')
UNION ALL SELECT DISTINCT function_name, 'aggregate' FROM duckdb_functions() WHERE function_type = 'aggregate'
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
    functions
        The Functions that queries may call; None where there are none.
    reads_all
        Whether all rows of each query are wanted, so that calls are large from the beginning.
    plans
        Plans made before, for as long as nothing is made or set in the session; None for its own.
    row_ids
        Whether queries may read the ids of the tables' rows.
    """

    def __init__(
        self,
        snapshots: Callable[[str], Snapshot | None],
        names: Callable[[], list[str]],
        functions: FunctionSource | None = None,
        *,
        reads_all: bool = False,
        plans: Plans | None = None,
        row_ids: bool = True,
    ) -> None:
        self._reads_all = reads_all
        self._plans = plans or Plans()
        self._tables = Tables(snapshots, names, row_ids=row_ids)
        self._functions = functions
        self._state = SessionState()
        self._plain = PlainQueries(self._state)
        self._own = OwnStatements(self._tables, self._state, functions, self._plain)

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
        _check_parameters(parameters)
        statements = self._statements(text)
        if not statements:
            raise InvalidQuery("There is no statement to run.")
        for kind, statement in statements[:-1]:
            self._one(kind, statement, None)
        return self._one(*statements[-1], parameters)

    def _statements(self, text: str) -> list[tuple[str, str]]:
        """The statements of a text, each with its kind, as DuckDB tells them apart."""
        try:
            with duckdb_errors():
                found = self._state.engine.extract_statements(text)
        except InvalidQuery:
            plain = with_explained(text, lambda query: with_version_names(query)[0])
            if plain == text:
                raise
            try:
                with duckdb_errors():
                    found = self._state.engine.extract_statements(plain)  # an alias may follow AT (VERSION => n) here
            except InvalidQuery as other:  # its place is not that in the text
                raise InvalidQuery(other.message.partition("\n")[0]) from other.__cause__
            return [(found[0].type.name, text)]
        return [(_kind_of(statement.type.name, statement.query), statement.query) for statement in found]

    def query(
        self,
        text: str,
        parameters: Parameters | None = None,
        *,
        given: Mapping[str, TableRelation] | None = None,
    ) -> QueryResult:
        """One statement that reads: checked now, run when its rows are asked for. It may call Functions.

        Parameters
        ----------
        given
            Relations by the names that the text has for them, beside the tables of the database.

        Raises
        ------
        InvalidQuery
            It does not bind.
        """
        _check_parameters(parameters)
        return self._hinted(lambda known: self._query(text, parameters, given, known))

    def schema(self, text: str) -> pa.Schema:
        """The names and Arrow types of a query's columns. No Function is called, unless values of it tell what columns there are.

        Raises
        ------
        InvalidQuery
            It does not bind.
        """
        return self._hinted(lambda known: self._schema(text, known))

    def _hinted(self, work: Callable[[Mapping[str, FunctionVersion]], Result]) -> Result:
        """Do something with the Functions; what DuckDB does not find may be one that was meant."""
        known = self._known()
        try:
            return work(known)
        except InvalidQuery as exc:
            told = with_registered(exc.message, known)
            if told == exc.message:
                raise
            raise InvalidQuery(told, **exc.facts) from exc.__cause__

    def _schema(self, text: str, known: Mapping[str, FunctionVersion]) -> pa.Schema:
        if not calls_in(text, signatures_of(known)):
            return self._query(f"FROM (\n{text}\n) LIMIT 0", None, None, known).to_arrow().schema
        assert self._functions is not None
        named, versions = with_version_names(text)
        tables = QueryTables(self._tables, self._state.made, versions)
        # What DuckDB says against it is of the same line as where no Function is called.
        query = FunctionQuery(f"\n{named}", None, tables, self._state, known, self._functions)
        try:
            return query.schema()
        except NeedsToRun:
            return query.done()[0].schema

    def _query(
        self,
        text: str,
        parameters: Parameters | None,
        given: Mapping[str, TableRelation] | None,
        known: Mapping[str, FunctionVersion],
    ) -> QueryResult:
        text, versions = self._with_own_names(text)
        tables = QueryTables(self._tables, self._state.made, versions, given)
        if calls_in(text, signatures_of(known)) or kept_used(text, self._state.kept):
            assert self._functions is not None
            made = (self._state, known, self._functions)
            plans = None if parameters or not self._state.untouched else self._plans
            query = FunctionQuery(text, parameters, tables, *made, reads_all=self._reads_all, plans=plans)
            try:
                at_once = _ABOUT_A_QUERY.match(text) or _MOVES_A_SEQUENCE.search(text)
                return self._plain.fixed(*query.done()) if at_once else query.result()
            except NeedsToRun:
                return query.looked_for() if query.gives_the_same_again else self._plain.fixed(*query.done())
        if _MOVES_A_SEQUENCE.search(text):
            with self._plain.reading(text, parameters, tables) as reading:
                return self._plain.fixed(*reading.call(rows_of))
        return self._plain.result(lambda: self._plain.reading(text, parameters, tables))

    def run(self, text: str, parameters: Parameters | None = None) -> QueryResult:
        """One of DuckDB's own statements on the session, run at once; what it returned is kept.

        Raises
        ------
        InvalidQuery
            It does not bind, or writes to one of the tables.
        """
        _check_parameters(parameters)
        with duckdb_errors():
            (statement,) = self._state.engine.extract_statements(text)
        return self._own.run(statement.type.name, statement.query, parameters, self.describe)

    @contextmanager
    def copied(self, columns: Mapping[str, str], source: str, table: str) -> Iterator[QueryResult]:
        """What COPY puts into a table; DuckDB keeps it for as long as this context lasts.

        Parameters
        ----------
        columns
            Those that it fills, with their types.
        source
            What stands behind the columns of COPY: ``FROM 'file' (…)``.
        table
            What the table is called where something is wrong.

        Raises
        ------
        InvalidQuery, StorageError
            There is no such file, or its rows do not suit.
        """
        name = f"{table} {uuid4().hex}"
        typed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns.items())
        self.run(f"CREATE TEMP TABLE {quote(name)} ({typed})")
        try:
            self.run(f"COPY {quote(name)} ({', '.join(map(quote, columns))})\n{source}")
            yield self.query(f"FROM {quote(name)}")
        except LanceGpuError as exc:
            raise type(exc)(exc.message.replace(name, table), **exc.facts) from exc.__cause__
        finally:
            self.run(f"DROP TABLE {quote(name)}")

    def made(self) -> tuple[str, ...]:
        """The names of the tables and views that the user made in the session."""
        return self._state.made()

    def table_named(self, written: str) -> str | None:
        """The name of the table of the database that a written one means; None where the session made such a thing."""
        return self._tables.name_of(written, self._state.made())

    def no_table(self, name: str) -> InvalidQuery:
        """The error that says that there is no such table."""
        return self._tables.no_table(name)

    def describe(self, text: str, parameters: Parameters | None = None) -> list[tuple[str, str]]:
        """The names and DuckDB types of a query's columns, without running it."""
        result = self.query(text, parameters)
        return list(zip(result.columns, result.types, strict=True))

    def explain(
        self, text: str, parameters: Parameters | None = None, *, analyze: bool = False, form: str = "text"
    ) -> QueryResult:
        """How a query that calls Functions runs, in the columns in which DuckDB explains its own.

        Parameters
        ----------
        analyze
            Run it, and say what that took.
        form
            ``text``, for people, or ``json``.

        Raises
        ------
        InvalidQuery
            It does not bind, or there is no such form.
        """
        assert self._functions is not None
        if form.lower() not in _FORMATS:
            raise InvalidQuery(f"A query that calls Functions is explained as text or json, not as {form}.")
        text, versions = self._with_own_names(text)
        tables = QueryTables(self._tables, self._state.made, versions)
        query = FunctionQuery(text, parameters, tables, self._state, self._known(), self._functions)
        told = query.explained(analyze=analyze, as_json=form.lower() == "json")
        key = "analyzed_plan" if analyze else "stages"
        return self.fixed(pa.table({"explain_key": [key], "explain_value": [told]}))

    def read_tree(self, text: str) -> object:
        """DuckDB's own reading of a query, as plain values; None where it gives none."""
        with self._cursor() as cursor:
            return read_tree(cursor, text)

    def engine_functions(self) -> EngineFunctions:
        """What DuckDB's own functions are like."""
        with self._cursor() as cursor:
            rows = cursor.execute(_ENGINE_FUNCTIONS).fetchall()
        named = {kind: frozenset(fold(name) for name, found in rows if found == kind) for _, kind in rows}
        return EngineFunctions(named.get("volatile", frozenset()), named.get("aggregate", frozenset()))

    def close(self) -> None:
        """End the engine; what lived in the session is gone."""
        self._state.close()

    def _one(self, kind: str, text: str, parameters: Parameters | None) -> QueryResult:
        if _LISTS_TABLES.fullmatch(text):
            return self._list_tables()
        explained = explained_in(text)
        if explained is not None and self._own.calls_functions(explained.statement.text):
            inner = query_explained(explained)
            return self.explain(inner, parameters, analyze=explained.analyze, form=explained.format)
        if explained is not None:
            text = with_explained(text, lambda query: self._with_own_names(query)[0])
        return self.query(text, parameters) if kind in _READS else self._own.run(kind, text, parameters, self.describe)

    def _with_own_names(self, text: str) -> tuple[str, dict[str, tuple[str, int]]]:
        """A text in which tables at a version, and those whose row ids it reads, have names of their own; and the former."""
        text, versions = with_version_names(text)
        return self._tables.with_row_ids(text, self._state.made()), versions

    def _known(self) -> Mapping[str, FunctionVersion]:
        return {} if self._functions is None else self._functions.known()

    def fixed(self, rows: pa.Table) -> QueryResult:
        """Rows that are there already, as a result."""
        return self._plain.fixed(rows)

    def _list_tables(self) -> QueryResult:
        names = sorted({*self._tables.names(), *self._state.made()})
        return self.fixed(pa.table({"name": pa.array(names, pa.string())}))

    def _cursor(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return self._plain.cursor()


def _kind_of(kind: str, text: str) -> str:
    """What DuckDB says that a statement is, or what it is beside a PIVOT that must look for its columns."""
    write = _WRITES.match(text) if kind == "MULTI" else None
    return write[1].upper() if write else kind


def _check_parameters(parameters: Parameters | None) -> None:
    if parameters is not None and (
        isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping)
    ):
        raise InvalidQuery(
            f"The parameters of a query are a sequence, for ? or $1, or a mapping, for $name, not {parameters!r} "
            f"({type(parameters).__name__}). One alone is written [value]."
        )
