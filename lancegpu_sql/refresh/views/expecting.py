"""What a refresh of a view may be expected to do: its query is run with results that are kept, and without its Functions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.functions import FunctionSource, OnError
from lancegpu_sql.query.in_place import signatures_of
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.refresh.current import require_current
from lancegpu_sql.refresh.failed_rows import FailedRows
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.request import Mode
from lancegpu_sql.refresh.views.by_rows import computed_rows
from lancegpu_sql.refresh.views.failed_calls import CallFailures, WhyFailed, failed_of
from lancegpu_sql.refresh.views.kept_functions import KeptFunctions, query_of
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.refresh.views.plan import RefreshPlan, digest_key, plan_refresh
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.refresh.views.results import ResultStore
from lancegpu_sql.refresh.views.sources import PinnedTables
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.views import repeats_or_ends_early
from lancegpu_sql.tables.snapshot import Snapshot

_MOST_SECONDS = 10.0
"""Running a query without its Functions for longer says less than it costs."""


@dataclass(frozen=True)
class Expected:
    """What a refresh is expected to do.

    Attributes
    ----------
    mode, reason
        How it is done, and why.
    rows_to_compute
        Rows of its sources over which the query runs.
    rows_to_remove
        Rows of the view that go, those among them in whose place others come; None where that is not known beforehand.
    calls_expected
        For how many inputs Functions are called, as far as results that are kept tell; None where it was not counted.
    calls_at_most
        More are not made; None where that is not known beforehand.
    results_kept
        For how many rows a result is kept; None where it was not counted.
    """

    mode: Mode
    reason: str
    rows_to_compute: int
    rows_to_remove: int | None
    calls_expected: int | None
    calls_at_most: int | None
    results_kept: int | None


def expect(resources: Resources, view: View, source: FunctionSource) -> Expected:
    """Tell what a refresh would do now; no Function is called, and nothing is written.

    Raises
    ------
    TableNotFound, ColumnNotFound, FunctionNotFound, StaleInput
        A refresh would be refused for the same reason.
    """
    pinned = PinnedTables(resources.tables, view.definition.reads)
    for table, columns in view.definition.reads.items():
        require_current(pinned.pin(table), columns, resources.catalog, wanted_by=f"view {view.name}")
    functions = _functions(resources, view, source)
    plan = plan_refresh(view, pinned, functions.registered)
    if plan.mode == "no_op":
        return Expected(plan.mode, plan.reason, 0, 0, 0, 0, 0)
    rows = sum(table.count_rows() for table in plan.sources.values())
    rows = rows if plan.todo is None else plan.todo.computed_rows
    removed = None if plan.todo is None else len(plan.todo.removed)
    sites = len(calls_in(view.definition.query, signatures_of(functions.registered)))
    if not sites:
        return Expected(plan.mode, plan.reason, rows, removed, 0, 0, 0)
    if not _run(view, plan, pinned, functions):
        told = f"{plan.reason}; its calls are not counted, for without them its query takes longer than {_MOST_SECONDS:g} s"
        return Expected(plan.mode, told, rows, removed, None, None, None)
    made, kept = functions.made.total(), functions.reused_results.total()
    most = made if not made or (sites == 1 and not repeats_or_ends_early(view.definition.query)) else None
    return Expected(plan.mode, plan.reason, rows, removed, made, most, kept)


def _functions(resources: Resources, view: View, source: FunctionSource) -> KeptFunctions:
    """The view's Functions, which give null where no result is kept."""
    failures = CallFailures(
        view.name,
        {} if view.state is None else failed_of(view.state.failed),
        skips=False,
        by_row=view.definition.way == "rows",
        errors=FailedRows(resources.catalog, "", ViewOptions.of(), 0),
        why=WhyFailed(0),
    )
    store = ResultStore(resources.folder, resources.settings.view_result_store_bytes, looks_only=True)
    return KeptFunctions(_Uncalled(source), store, failures, by_row=failures.by_row and failures.matters)


def _run(view: View, plan: RefreshPlan, pinned: PinnedTables, functions: KeptFunctions) -> bool:
    """Run the query, unless it takes too long; tell whether it ended."""
    ends_at = time.monotonic() + _MOST_SECONDS
    session = pinned.session(functions)
    readings: list[QueryResult] = []
    over = threading.Event()

    def run(text: str, given: Mapping[str, TableRelation]) -> QueryResult:
        readings.append(session.query(text, given=given))
        return readings[-1]

    def watch() -> None:
        if not over.wait(max(0.0, ends_at - time.monotonic())):
            for reading in readings:
                reading.cancel()

    watching = threading.Thread(target=watch, name="lancegpu expecting", daemon=True)
    watching.start()
    try:
        if plan.todo is None:
            with run(query_of(view, functions), {}).to_reader() as reader:
                for _ in reader:
                    pass
        elif plan.todo.computed_rows:
            (table,) = plan.sources.values()
            reads, key = view.definition.reads[table.name], digest_key(view, plan.state.functions)
            for _ in computed_rows(view, query_of(view, functions), table, reads, key, plan.todo, run):
                pass
    except Cancelled:
        return False
    finally:
        over.set()
        watching.join()
        session.close()
    return True


class _Uncalled:
    """Functions of another source that give null for whatever they are asked."""

    def __init__(self, source: FunctionSource) -> None:
        self._source = source

    @property
    def memo_bytes(self) -> int:
        return self._source.memo_bytes

    def known(self) -> Mapping[str, FunctionVersion]:
        return self._source.known()

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        return self._source.stored(snapshot)

    def place(self, version: FunctionVersion) -> Place:
        return self._source.place(version)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> _UncalledRun:  # noqa: ARG002
        return _UncalledRun()


class _UncalledRun:
    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> _NoCalls:  # noqa: ARG002
        return _NoCalls(parse_type(version.output_type), memo)

    def spent(self) -> Mapping[str, Spent]:
        return {}

    def interrupted(self) -> str:
        return "Cancelled."

    def finished(self, error: BaseException | None) -> None: ...


class _NoCalls:
    """A Function that is not called; what it is asked for is counted by the memo."""

    def __init__(self, kind: pa.DataType, memo: Memo | None) -> None:
        self._kind = kind
        self._memo = memo

    def submit(self, arguments: pa.RecordBatch) -> _Nulls:
        if self._memo is not None and arguments.num_rows:
            self._memo.find(arguments, lambda some: _Nulls(pa.nulls(some.num_rows, self._kind)))
        return _Nulls(pa.nulls(arguments.num_rows, self._kind))

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Nulls:
    values: pa.Array
    done: bool = True

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def result(self) -> pa.Array:
        return self.values

    def so_far(self) -> pa.Array:
        return self.values

    def failed(self) -> pa.Array:
        return pa.repeat(pa.scalar(False), len(self.values))
