"""Functions whose results are looked up before they are called, and kept once they were."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion, Parameter
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.functions import FunctionCalls, FunctionSource, OnError, QueryRun
from lancegpu_sql.query.in_place import signatures_of
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.refresh.views.failed_calls import CallFailures, call_group
from lancegpu_sql.refresh.views.kept_calls import Kept, KeptCalls
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.refresh.views.results import ResultStore
from lancegpu_sql.sql.functions_in_text import calls_in
from lancegpu_sql.sql.views import with_argument
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.views import SOURCE_ROW

ROW_PARAMETER = "lancegpu_source_row"
"""Of a Function of which each call says for which source row it is made; the Function itself has none such."""

_ROW = Parameter(name=ROW_PARAMETER, type="uint64", nullable=False)


class KeptFunctions:
    """A source of Functions that calls another one for inputs that it has never seen; a `FunctionSource`.

    Attributes
    ----------
    made, reused
        By Function: of how many inputs results were computed, equal ones counted once as far as memory reached; and for
        how many rows results were there.
    reused_results
        By Function: for how many rows results were kept from before.

    Parameters
    ----------
    source
        Computes what is not kept.
    store
        Where results are kept, those of deterministic Functions.
    failures
        Calls without a value.
    by_row
        Whether each call says for which source row it is made, as the argument `ROW_PARAMETER`.
    """

    def __init__(
        self, source: FunctionSource, store: ResultStore, failures: CallFailures, *, by_row: bool = False
    ) -> None:
        self._source = source
        self._store = store
        self._failures = failures
        self._open: dict[str, Kept] = {}
        self._calls: list[KeptCalls] = []
        self._lock = threading.Lock()
        self._known = source.known()
        self.by_row = by_row
        self.made: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()
        self.reused_results: Counter[str] = Counter()

    @property
    def memo_bytes(self) -> int:
        """How much memory the values of one Function may take."""
        return self._source.memo_bytes

    @property
    def registered(self) -> Mapping[str, FunctionVersion]:
        """The latest version of each when the refresh began, by folded name."""
        return self._known

    def known(self) -> Mapping[str, FunctionVersion]:
        """Return them as the query calls them."""
        if not self.by_row:
            return self._known
        return {
            name: version.model_copy(update={"parameters": (*version.parameters, _ROW)})
            for name, version in self._known.items()
        }

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """Return the computed columns that may be read instead of calling their Function."""
        found = self._source.stored(snapshot)
        if not self.by_row:
            return found
        return [replace(one, column=replace(one.column, inputs=(*one.column.inputs, SOURCE_ROW))) for one in found]

    def place(self, version: FunctionVersion) -> Place:
        """Return where a Function runs."""
        return self._source.place(version)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> QueryRun:
        """Begin a reading."""
        return _KeptRun(self, self._source.open_run(text, stop, rest))

    def flush(self) -> None:
        """Write what was computed, also where not all is there that was asked for with it."""
        with self._lock:
            kept, calls = list(self._open.values()), list(self._calls)
        for each in calls:
            each.keep_so_far()
        for one in kept:
            one.flush()

    def calls(self, run: QueryRun, version: FunctionVersion, on_error: OnError, memo: Memo | None) -> FunctionCalls:
        """Return a way to compute a Function."""
        if self.by_row:
            version = version.model_copy(update={"parameters": version.parameters[:-1]})
        # What fails in a TRY is meant to be null there, and is no failure of the view's.
        failures = self._failures if on_error == "raise" and self._failures.matters else None
        skips = failures is not None and failures.skips
        calls = run.calls(version, on_error="null" if skips else on_error, memo=memo)
        kept = self._kept(version) if version.deterministic and self._store.keeps else None
        kept_calls = KeptCalls(version, calls, kept, failures, by_row=self.by_row, count=self._count, memo=memo)
        with self._lock:
            self._calls.append(kept_calls)
        return kept_calls

    def _count(self, version: FunctionVersion, *, made: int, reused: int, found: int) -> None:
        with self._lock:
            self.made[version.name] += made
            self.reused[version.name] += reused + found
            self.reused_results[version.name] += found

    def _kept(self, version: FunctionVersion) -> Kept:
        group = call_group(version)
        with self._lock:
            found = self._open.get(group)
            if found is None:
                found = Kept(self._store.of(group, parse_type(version.output_type)))
                self._open[group] = found
            return found


def query_of(view: View, functions: KeptFunctions) -> str:
    """Return the query of a view as these Functions are called, over `SOURCE_ROW` where they are told of rows."""
    text = view.definition.query
    if not functions.by_row:
        return text
    calls = calls_in(text, signatures_of(functions.registered))
    return with_argument(text, calls, ROW_PARAMETER, SOURCE_ROW)


class _KeptRun:
    """One reading, whose calls look results up first."""

    def __init__(self, functions: KeptFunctions, run: QueryRun) -> None:
        self._functions = functions
        self._run = run

    @property
    def cancelled(self) -> threading.Event:
        """Set when the reading should end."""
        return self._run.cancelled

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> FunctionCalls:
        """Return a way to compute a Function."""
        return self._functions.calls(self._run, version, on_error, memo)

    def spent(self) -> Mapping[str, Spent]:
        """Return what workers did so far."""
        return self._run.spent()

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it."""
        return self._run.interrupted()

    def finished(self, error: BaseException | None) -> None:
        """Keep what was computed, however the reading ended."""
        try:
            self._functions.flush()
        finally:
            self._run.finished(error)
