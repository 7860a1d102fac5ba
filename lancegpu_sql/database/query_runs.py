"""Queries that call Functions as jobs: workers from the pool, progress and cancellation through the catalog."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lancegpu_sql.apply.calls import Calls
from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.apply.watch import WorkerTimings
from lancegpu_sql.catalog.models import FunctionVersion, JobRecord
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.display import PlainLines, style_for
from lancegpu_sql.jobs.housekeeping import prune_finished_queries
from lancegpu_sql.jobs.running import RunningJob
from lancegpu_sql.placement.request import PlacementEvent, Ready
from lancegpu_sql.query.bound import bound_values, name_called
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.functions import OnError
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.refresh.need import apply_options, gpu_classes_for, query_need
from lancegpu_sql.refresh.report import Report
from lancegpu_sql.refresh.request import RefreshOptions
from lancegpu_sql.refresh.stored_columns import stored_columns
from lancegpu_sql.sql.call_reader import with_values
from lancegpu_sql.sql.names import fold
from lancegpu_sql.tables.snapshot import Snapshot

QUERY = "query"

_LOOK_SECONDS = 0.1
_LEAVE_SECONDS = 1.0
_SHOWN_CHARACTERS = 1_000


class QueryRuns:
    """The Functions of a database for its queries; a `lancegpu_sql.query.functions.FunctionSource`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def memo_bytes(self) -> int:
        """How much memory the values of one Function may take."""
        return self._services.settings.query_memo_bytes

    def known(self) -> Mapping[str, FunctionVersion]:
        """Return the latest version of each Function, by folded name."""
        return {fold(version.name): version for version in self._services.catalog.functions()}

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """Return the computed columns of a table, which may be read instead of calling their Function."""
        return stored_columns(snapshot, self._services.catalog)

    def place(self, version: FunctionVersion) -> Place:
        """Return where a Function runs."""
        placement = version.placement
        gpu_class, _ = gpu_classes_for(self._services.catalog, placement)
        named = None if gpu_class is None else gpu_class.name
        name = with_values(version.name, bound_values(version))
        return Place(name, version.version, named, placement.gpus if placement.gpu else 0)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> QueryJob:
        """Begin a reading of a query's result."""
        return QueryJob(self._services.check_open(), text, stop, rest)


class QueryJob:
    """One reading of a query's result. It is in the catalog from its first worker on.

    Few writes are made of it, so that a cheap query on a warm worker stays cheap: one at the beginning, one at the end.
    """

    def __init__(self, services: Services, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> None:
        self.cancelled = threading.Event()
        self._services = services
        self._record = JobRecord.new(QUERY, request={"sql": text[:_SHOWN_CHARACTERS]})
        self._stop = stop
        self._rest = rest
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._job: RunningJob | None = None
        self._context: JobContext | None = None
        self._has_context = threading.Event()
        self._lock = threading.Lock()
        self._watches: list[_QueryWatch] = []

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> Calls:
        """Return a way to compute a Function on workers of the pool."""
        services = self._services
        need = query_need(services.catalog, services.settings, version, self._record.id, "a query")
        watch = _QueryWatch(self, name_called(version), need.gpu_class.name if need.gpu_class else None)
        self._watches.append(watch)
        return Calls(
            need,
            self._services.pool,
            apply_options(self._services.settings, version, RefreshOptions.of()),
            value_type=parse_type(version.output_type),
            watch=watch,
            cancelled=self.cancelled,
            memo=memo,
            on_error=on_error,
        )

    def spent(self) -> Mapping[str, Spent]:
        """Return what workers did so far, by folded name of the Function."""
        found: dict[str, Spent] = {}
        for watch in self._watches:
            before, more = found.get(watch.function, Spent()), watch.spent
            found[watch.function] = Spent(
                before.calls + more.calls,
                before.rows + more.rows,
                before.seconds + more.seconds,
                before.waiting_seconds + more.waiting_seconds,
            )
        return found

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it."""
        waiting_on = None if self._job is None else self._job.record.waiting_on
        if waiting_on is None:
            return "Cancelled; what the query had computed is not kept."
        return (
            f"Cancelled while it waited: {waiting_on.message.rstrip('.')}. A query keeps nothing: run it again when there is "
            "room. A computed column waits without you: REFRESH COLUMN … WITH (wait = false) leaves it to an agent."
        )

    def finished(self, error: BaseException | None) -> None:
        """End the job, if it has become one."""
        self._error = error
        self._over.set()
        if self._job is not None:
            self._job.ended(None)

    def context(self) -> JobContext:
        """The job, which begins here."""
        with self._lock:
            if self._job is None:
                self._job = self._services.runner.start(self._record, self._work)
        self._has_context.wait()
        assert self._context is not None
        return self._context

    def _work(self, context: JobContext) -> dict[str, Any]:
        """Wait for the end of the reading, in the job's thread; pass on that someone cancelled it."""
        self._context = context
        self._has_context.set()
        prune_finished_queries(self._services.catalog, self._services.folder)  # while it is computed
        lines = PlainLines(sys.stderr)
        style = self._services.settings.progress
        quiet = (style_for(sys.stderr) if style == "auto" else style) == "quiet"
        while not self._over.wait(_LOOK_SECONDS):
            self._rest()
            if context.cancelled.is_set():
                self._stop()
                if not self._over.wait(_LEAVE_SECONDS):
                    raise Cancelled("The query was cancelled")  # whoever reads it looks elsewhere; its workers are free
            elif not quiet and self._job is not None and self._job.record.waiting_on is not None:
                lines.show(self._job.record)
        if isinstance(self._error, Exception):
            raise self._error
        if self._error is not None:
            raise Cancelled("The query was interrupted")
        return {}


class _QueryWatch:
    """Turns what `apply` sees of one Function into what the query's job says; the job begins with the first of it."""

    def __init__(self, job: QueryJob, function: str, gpu_class: str | None) -> None:
        self.function = function
        self.spent = Spent()
        self._asked_at = time.monotonic()
        self._job = job
        self._gpu_class = gpu_class
        self._begun: Report | None = None

    @property
    def _report(self) -> Report:
        if self._begun is None:
            self._begun = Report(self._job.context(), self._gpu_class)
        return self._begun

    def placement_event(self, event: PlacementEvent) -> None:
        """Say what becomes of the worker; that a warm one is there is not worth two writes to the catalog."""
        if isinstance(event, Ready):
            self.spent = replace(self.spent, waiting_seconds=time.monotonic() - self._asked_at)
        warm = isinstance(event, Ready) and self._begun is None
        report = self._report
        if not warm:
            report.placement_event(event)

    def call_done(self, rows: int, seconds: float, worker: str) -> None:  # noqa: ARG002  # as of `ApplyWatch`
        """Count rows."""
        before = self.spent
        self.spent = replace(before, calls=before.calls + 1, rows=before.rows + rows, seconds=before.seconds + seconds)
        self._report.computed(rows)

    def worker_timings(self, timings: WorkerTimings) -> None:
        """Pass them on."""
        self._report.worker_timings(timings)

    def log(self, line: str) -> None:
        """Keep a line that user code printed."""
        self._report.log(line)

    def event(self, kind: str, message: str) -> None:
        """Keep an event."""
        self._report.event(kind, message)
