"""Functions that the refresh of a view calls on workers, for the job that it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from lancegpu_sql.apply.calls import Calls
from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.functions import OnError
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.refresh.need import Resources, apply_options, gpu_classes_for, query_need
from lancegpu_sql.refresh.report import RefreshJob, Report
from lancegpu_sql.refresh.stored_columns import stored_columns
from lancegpu_sql.refresh.views.failed_calls import WhyFailed
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.sql.names import fold
from lancegpu_sql.tables import Snapshot


class WorkerFunctions:
    """The Functions of a database for one refresh; a `lancegpu_sql.query.functions.FunctionSource`."""

    def __init__(self, resources: Resources, view: str, options: ViewOptions, job: RefreshJob, why: WhyFailed) -> None:
        self._why = why
        self._resources = resources
        self._view = view
        self._options = options
        self._job = job
        self._computed = 0
        self._lock = threading.Lock()

    @property
    def memo_bytes(self) -> int:
        """How much memory the values of one Function may take."""
        return self._resources.settings.query_memo_bytes

    def known(self) -> Mapping[str, FunctionVersion]:
        """Return the latest version of each Function, by folded name."""
        return {fold(version.name): version for version in self._resources.catalog.functions()}

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """Return the computed columns of a table, which may be read instead of calling their Function."""
        return stored_columns(snapshot, self._resources.catalog)

    def place(self, version: FunctionVersion) -> Place:
        """Return where a Function runs."""
        placement = version.placement
        gpu_class, _ = gpu_classes_for(self._resources.catalog, placement)
        named = None if gpu_class is None else gpu_class.name
        return Place(version.name, version.version, named, placement.gpus if placement.gpu else 0)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> _Run:  # noqa: ARG002
        """Begin a reading."""
        return _Run(self, stop)

    def calls(self, run: _Run, version: FunctionVersion, on_error: OnError, memo: Memo | None) -> Calls:
        """Return a way to compute a Function on workers of the pool."""
        options = self._options.for_function(version)
        need = query_need(
            self._resources.catalog,
            self._resources.settings,
            version,
            self._job.id,
            f"refresh of view {self._view}",
            options,
        )
        return Calls(
            need,
            self._resources.pool,
            apply_options(self._resources.settings, version, options),
            value_type=parse_type(version.output_type),
            watch=_Watch(self, need.gpu_class.name if need.gpu_class else None),
            cancelled=run.cancelled,
            memo=memo,
            on_error=on_error,
            told=self._why.teller(version) if on_error == "null" else None,
        )

    def computed(self, rows: int) -> None:
        """Count rows that workers computed."""
        with self._lock:
            self._computed += rows
            self._job.progress(rows_computed=self._computed)

    @property
    def job(self) -> RefreshJob:
        """For which it is."""
        return self._job


class _Run:
    """One reading; it ends when the job is cancelled."""

    def __init__(self, functions: WorkerFunctions, stop: Callable[[], None]) -> None:
        self.cancelled = threading.Event()
        self._functions = functions
        self._stop = stop

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> Calls:
        """Return a way to compute a Function."""
        return self._functions.calls(self, version, on_error, memo)

    def spent(self) -> Mapping[str, Spent]:
        """Return nothing: who refreshes is told by the job."""
        return {}

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it."""
        return "Cancelled; what was computed is kept, and used by the next refresh."

    def finished(self, error: BaseException | None) -> None:
        """Do nothing: the job ends with the refresh."""


class _Watch(Report):
    """Says what becomes of one Function's workers."""

    def __init__(self, functions: WorkerFunctions, gpu_class: str | None) -> None:
        super().__init__(functions.job, gpu_class)
        self._functions = functions

    def call_done(self, rows: int, seconds: float, worker: str) -> None:  # noqa: ARG002  # as of `ApplyWatch`
        """Count rows."""
        self._functions.computed(rows)
