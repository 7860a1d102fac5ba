"""A query that calls Functions: planned at once, run anew by each reading of its result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.query.bound import version_called
from lancegpu_sql.query.carriers import carried
from lancegpu_sql.query.describer import Describer, bound
from lancegpu_sql.query.engine import duckdb_errors
from lancegpu_sql.query.explained import Measured, as_text, as_value
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.in_place import InPlace, Movable, NeedsToRun, refuse, signatures_of
from lancegpu_sql.query.kept import kept_used
from lancegpu_sql.query.memos import Memos
from lancegpu_sql.query.plans import KeptPlan, Plans, made_of
from lancegpu_sql.query.reading import FunctionReading
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.stages import Stages
from lancegpu_sql.query.state import SessionState
from lancegpu_sql.query.tables import QueryTables
from lancegpu_sql.sql.blocks.kinds import VOLATILE
from lancegpu_sql.sql.call_reader import without_values
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.plan import plan_query
from lancegpu_sql.sql.read_only import reads_only
from lancegpu_sql.sql.stages import QueryPlan
from lancegpu_sql.sql.tokens import tokens_of


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
    reads_all
        Whether whoever reads it wants all its rows, so that calls are large from the beginning.
    plans
        What was made of queries before; None where nothing is kept.
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
        *,
        reads_all: bool = False,
        plans: Plans | None = None,
    ) -> None:
        self._reads_all = reads_all
        self._plans = plans
        self._text = text
        self._parameters = parameters
        self._tables = tables
        self._state = state
        self._known = known
        self._signatures = signatures_of(known)
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
        NeedsToRun
            Its columns are not known before it has run; see `looked_for` and `done`.
        """
        made = self._kept_plan() or self._made_plan()
        self._plan = made.plan
        return QueryResult(self._opened, [name for name, _ in made.columns], [kind for _, kind in made.columns])

    def _kept_plan(self) -> KeptPlan | None:
        """What is kept of it, if that is what would be made now; its tables are opened."""
        kept = self._plans.of(self._text) if self._plans else None
        if kept is None:
            return None
        self._tables.open(self._text, kept.names)
        return kept if kept.made_of == self._made_of() else None

    def _made_plan(self) -> KeptPlan:
        with self._describer() as describer:
            columns = tuple(describer.columns(self._text))
            names, follows_from = self._tables.asked(), self._made_of() if self._plans else ()
            made = KeptPlan(self._planned(self._text, describer), columns, names, follows_from)
            if self._plans and reads_only(describer.read_tree(self._text), self._tables.names()):
                self._plans.keep(self._text, made)
        return made

    def _made_of(self) -> tuple[str, ...]:
        return made_of(self._text, self._signatures, self._tables, self._source.stored)

    def schema(self) -> pa.Schema:
        """The names and Arrow types of its columns; no Function is called.

        Raises
        ------
        InvalidQuery, NeedsToRun
            As of `result`.
        """
        with self._describer() as describer:
            return describer.schema(self._text)

    @property
    def gives_the_same_again(self) -> bool:
        """Whether nothing in it may be another value each time."""
        texts = [self._text, *(kept.text for kept in self._kept)]
        calls = [call for text in texts for call in calls_in(text, self._signatures)]
        called = [self._signatures[without_values(call.function)] for call in calls]
        words = {fold(token.text) for text in texts for token in tokens_of(text)}
        return all(each.deterministic for each in called) and not words & VOLATILE

    def looked_for(self) -> QueryResult:
        """Its result, not read yet, where it runs once to tell its columns, and so does each reading of it."""
        with self._opened() as reading:
            columns = reading.call(lambda relation: list(zip(relation.columns, map(str, relation.types), strict=True)))
            names = [reading.functions.as_written(name) for name, _ in columns]
        return QueryResult(self._opened, names, [kind for _, kind in columns])

    def _planned(self, text: str, describer: Describer) -> QueryPlan:
        computed = self._tables.computed(self._source.stored)
        return plan_query(text, self._signatures, describer.columns, computed, describer.read_tree)

    def done(self, query: tuple[int, int] | None = None) -> tuple[pa.Table, Mapping[str, str]]:
        """Run it at once, as a statement that does something.

        Parameters
        ----------
        query
            Where a query stands in it whose rows it does it with: that one is planned. All other calls are made in place.

        Returns
        -------
        rows
            All that it returns.
        kinds
            The types of columns that Arrow does not keep.
        """

        if query is not None:
            start, end = query
            with suppress(NeedsToRun), self._describer() as describer:
                plan = self._planned(self._text[start:end], describer)
                self._plan = replace(plan, final_sql=f"{self._text[:start]}{plan.final_sql}{self._text[end:]}")
        self._reads_all = True

        with self._opened() as reading:
            relation, kinds = reading.call(carried)
            table: pa.Table = reading.call(lambda _relation: relation.to_arrow_table())
            name = reading.functions.as_written
            table = table.rename_columns([name(column) for column in table.column_names])
            return _with_names(table, reading.functions), {name(column): kind for column, kind in kinds.items()}

    def explained(self, *, analyze: bool, as_json: bool) -> str:
        """How it runs: its stages, where Functions run, what the planner did and why not.

        Parameters
        ----------
        analyze
            Run it, and say what that took; its rows are dropped.
        as_json
            For programs.
        """
        try:
            self.result()
        except NeedsToRun:
            functions = tuple(sorted({call.function for call in calls_in(self._text, self._signatures)}))
            why = "its columns are known when it has run"
            self._plan = QueryPlan((), self._text, functions, (f"in place: {', '.join(functions)}, since {why}",))
        measured = self._measured() if analyze else None
        called = {call.function for call in calls_in(self._text, self._signatures)}
        called |= {call.function for kept in self._kept for call in calls_in(kept.text, self._signatures)}
        places = {name: self._source.place(version_called(self._known, name)) for name in sorted(called)}
        if as_json:
            return json.dumps(as_value(self._plan, places, measured), ensure_ascii=False)
        return as_text(self._plan, places, measured)

    def _measured(self) -> Measured:
        begun = time.perf_counter()
        with self._opened() as reading:
            stream = reading.call(lambda relation: relation.to_arrow_reader(_DROPPED_ROWS))
            rows = 0
            while (batch := reading.call(lambda _relation: next(stream, None))) is not None:
                rows += batch.num_rows
            return Measured(rows, time.perf_counter() - begun, reading.tally, reading.spent())

    def _opened(self) -> AbstractContextManager[FunctionReading]:
        def bind(reading: FunctionReading) -> Any:
            reading.runs_as_written = not self._plan.stages
            reads_all = self._reads_all or self._plan.reads_all
            return Stages(
                self._plan, self._parameters, self._known, reading, self._bind, reads_all=reads_all
            ).relation()

        return self._reading(bind)

    @contextmanager
    def _reading(self, bind: Callable[[FunctionReading], Any]) -> Iterator[FunctionReading]:
        reading = FunctionReading(self._text, self._state.cursor, self._known, self._source, self._memos, bind)
        self._state.readings.add(reading)
        try:
            yield reading
        finally:
            reading.close()

    @contextmanager
    def _describer(self) -> Iterator[Describer]:
        called: list[BaseException] = []
        functions = InPlace(self._state.cursor(), self._known, refuse, called.append)
        cursor = self._state.cursor()
        try:
            with duckdb_errors():
                self._make_kept(cursor, functions, "all", united=True)
                yield Describer(cursor, functions, self._tables, self._parameters)
        except LanceGpuError as exc:
            if called or NeedsToRun.__name__ in exc.message:  # calls with constants are doubted only
                raise NeedsToRun from exc
            raise type(exc)(functions.as_written(exc.message), **exc.facts) from exc.__cause__
        finally:
            cursor.close()
            functions.close()

    def _bind(self, cursor: duckdb.DuckDBPyConnection, text: str, parameters: Any, functions: InPlace) -> Any:
        """A text as a relation of a reading."""
        try:
            return self._bound(cursor, text, parameters, functions, "none")
        except duckdb.BinderException as exc:
            said = exc
        movable: Movable = "deterministic" if any(word in str(said) for word in _REFUSES) else "none"
        with suppress(duckdb.BinderException):
            if movable != "none":
                return self._bound(cursor, text, parameters, functions, movable)
        try:  # it did bind when it was described, where one name stood for both
            return self._bound(cursor, text, parameters, functions, movable, united=True)
        except duckdb.BinderException:
            raise said from None

    def _bound(
        self,
        cursor: duckdb.DuckDBPyConnection,
        text: str,
        parameters: Any,
        functions: InPlace,
        movable: Movable,
        *,
        united: bool = False,
    ) -> Any:
        self._make_kept(cursor, functions, movable, united=united)
        return bound(self._tables, cursor, functions.text(text, movable, united=united), parameters, functions)

    def _make_kept(
        self, cursor: duckdb.DuckDBPyConnection, functions: InPlace, movable: Movable, *, united: bool
    ) -> None:
        for kept in self._kept:
            bound(self._tables, cursor, functions.text(kept.text, movable, united=united), None, functions)


_DROPPED_ROWS = 65_536
# What DuckDB says where it wants the same value for the same arguments: in PARTITION BY, where an alias is used again.
_REFUSES = ("volatile", "side effects")


def _with_names(table: pa.Table, functions: InPlace) -> pa.Table:
    """A small table that tells of columns, with their names as they are written."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = [text if text is None else functions.as_written(text) for text in table.column(index).to_pylist()]
            table = table.set_column(index, field, pa.array(texts, pa.string()))
    return table
