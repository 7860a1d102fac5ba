"""DuckDB's own statements on a session: run at once, and what they make is kept for the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.function_query import FunctionQuery
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import signatures_of
from lancegpu_sql.query.kept import is_there, kept_text, kept_used
from lancegpu_sql.query.plain import PlainQueries
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.rules import check_statement, check_write, remembered_setting
from lancegpu_sql.query.state import KeptText, SessionState
from lancegpu_sql.query.tables import QueryTables, Tables
from lancegpu_sql.sql.functions_in_text import TextCall, calls_in
from lancegpu_sql.sql.inner_query import inner_query, inserted_query, with_column_names
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.places import query_error
from lancegpu_sql.sql.statement import Write, write_in
from lancegpu_sql.sql.tokens import tokens_of
from lancegpu_sql.sql.versions import with_version_names

# What a statement returns that has nothing to tell.
_NOTHING = pa.table({"Success": pa.array([], pa.bool_())})


Describe = Callable[[str, Any], list[tuple[str, str]]]


class OwnStatements:
    """Those of one session.

    Parameters
    ----------
    tables, state, functions
        Of the session.
    plain
        Runs what calls no Function.
    """

    def __init__(
        self,
        tables: Tables,
        state: SessionState,
        functions: FunctionSource | None,
        plain: PlainQueries,
    ) -> None:
        self._tables = tables
        self._state = state
        self._functions = functions
        self._plain = plain

    def run(self, kind: str, text: str, parameters: Any, describe: Describe) -> QueryResult:
        """Run one of a kind that DuckDB names; what it returned is kept.

        `describe` tells the names and types of a query's columns.

        Raises
        ------
        InvalidQuery
            It does not bind, or writes to one of the tables.
        """
        check_statement(kind, text)
        self._state.note_statement()
        text = self._tables.with_row_ids(with_version_names(text)[0], self._state.made())
        write = write_in(text)
        if write is not None:
            made = self._state.made()
            check_write(write, made=made, table=lambda name: self._tables.name_of(name, made))
            if self._is_there(write):
                return self._plain.fixed(_NOTHING)
            kept = kept_text(write, calls=bool(calls_in(text, signatures_of(self._known()))), kept=self._state.kept)
            if kept is not None:
                return self._keep(replace(kept, text=_with_column_names(kept.text, None, describe, kept.name)))
            text = write.text
            _check_calls(text, write.verb, calls_in(text, signatures_of(self._known())))
            if write.verb == "DROP" and write.target and self._state.forget(write.keeps_as, write.target[-1]):
                return self._plain.fixed(_NOTHING)
        rows = self._done(text, parameters, describe)
        if kind == "CREATE":
            self._state.note_made()
        if write is not None and write.verb == "CREATE" and write.target:
            self._state.forget(write.keeps_as, write.target[-1])
        name = remembered_setting(kind, text)
        if name is not None:
            self._state.note_setting(name, text)
        return self._plain.fixed(rows)

    def _done(self, text: str, parameters: Any, describe: Describe) -> pa.Table:
        """What a statement returned, which has run by then: it is small, and DuckDB has it."""
        tables = QueryTables(self._tables, self._state.made)
        if self.calls_functions(text):
            assert self._functions is not None
            text = _with_column_names(text, parameters, describe)
            query = FunctionQuery(text, parameters, tables, self._state, self._known(), self._functions)
            return query.done(inner_query(text) or inserted_query(text))[0]
        with self._plain.reading(text, parameters, tables) as reading:
            return reading.call(lambda relation: _NOTHING if relation is None else relation.to_arrow_table())

    def _is_there(self, write: Write) -> bool:
        """Whether a CREATE has nothing to do, since what it would make is there."""
        if write.verb != "CREATE" or not write.keeps_as or len(write.target) != 1:
            return False
        name = write.target[-1]
        if write.keeps_as == "MACRO" and fold(name) in self._known():
            raise InvalidQuery(
                f"There is a Function {name!r} in the database, which a macro of that name would never be called for. Give "
                "the macro another one.",
                name=name,
            )
        if write.keeps_as == "MACRO":
            made = self._state.made_macros()
        else:
            made = () if write.kind == "TABLE" else self._state.made()  # DuckDB knows what becomes of its own tables
        return is_there(write, made, self._state.kept)

    def _keep(self, kept: KeptText) -> QueryResult:
        """Keep a view or macro whose text calls Functions, once DuckDB has made it for a moment."""
        assert self._functions is not None
        before = self._state.kept.get(fold(kept.name))
        if kept.kind == "VIEW" and before is None:
            with duckdb_errors():
                self._state.remove_view(kept.name)
        self._state.keep(kept)
        try:
            probe = f"FROM {quote(kept.name)}" if kept.kind == "VIEW" else f"SELECT 1 /* {kept.name} */"
            tables = QueryTables(self._tables, self._state.made)
            FunctionQuery(probe, None, tables, self._state, self._known(), self._functions, also=kept.name).result()
        except BaseException:
            self._state.forget(kept.kind, kept.name)
            if before is not None:
                self._state.keep(before)
            raise
        return self._plain.fixed(_NOTHING)

    def _known(self) -> Mapping[str, FunctionVersion]:
        return {} if self._functions is None else self._functions.known()

    def calls_functions(self, text: str) -> bool:
        """Whether a text calls Functions, itself or through a view or macro."""
        return bool(calls_in(text, signatures_of(self._known())) or kept_used(text, self._state.kept))


def _check_calls(text: str, verb: str, calls: Sequence[TextCall]) -> None:
    """Refuse calls in what DuckDB would make again and again: it knows a Function only while a statement runs."""
    start, end = inner_query(text) or (len(text), len(text))
    if verb == "ALTER":
        start = next((token.start for token in tokens_of(text) if token.text.upper() == "USING"), len(text))
        end = len(text)
    for call in calls if verb in ("CREATE", "ALTER") else ():
        if not start <= call.start < end:
            raise query_error(
                f"The Function {text[call.start : call.end]} cannot be part of a DEFAULT, a CHECK, a generated column or an "
                "index of a table of the session. Compute it in a query, or as a computed column of a table of the database.",
                text,
                call.start,
            )


def _with_column_names(text: str, parameters: Any, describe: Describe, name: str = "query") -> str:
    """A statement whose query has the names of columns in it that DuckDB gives them as they are written.

    `name` is what DuckDB calls the query by, should it later give other columns.
    """
    span = inner_query(text)
    if span is None:
        return text
    columns = [column for column, _ in describe(text[slice(*span)], parameters)]
    return with_column_names(text, span, columns, name)
