"""Refreshes a view: plan, compute, write what differs, commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from lancegpu_sql.catalog.models import WaitingOn, utc_now
from lancegpu_sql.errors import Cancelled, StorageError
from lancegpu_sql.query.functions import FunctionSource
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.query.session import QuerySession
from lancegpu_sql.refresh.current import require_current
from lancegpu_sql.refresh.failed_rows import FailedRows
from lancegpu_sql.refresh.lock import column_lock
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.report import RefreshJob
from lancegpu_sql.refresh.request import RefreshResult
from lancegpu_sql.refresh.views.again import StoredRows, new_rows
from lancegpu_sql.refresh.views.by_rows import Run, computed_rows, row_ids
from lancegpu_sql.refresh.views.failed_calls import CallFailures, FailedCalls, WhyFailed, failed_of, left_of, texts_of
from lancegpu_sql.refresh.views.kept_functions import KeptFunctions, query_of
from lancegpu_sql.refresh.views.model import View, ViewState, metadata_of, open_view, view_of
from lancegpu_sql.refresh.views.plan import RefreshPlan, digest_key, plan_refresh
from lancegpu_sql.refresh.views.request import ViewOptions
from lancegpu_sql.refresh.views.results import ResultStore
from lancegpu_sql.refresh.views.sources import PinnedTables
from lancegpu_sql.refresh.views.worker_functions import WorkerFunctions
from lancegpu_sql.tables.views import ViewChanges

_LOCK_NAME = "\0view"  # of no column
_LOOK_SECONDS = 0.1
_KEEP_SECONDS = 5.0


def refresh_view(
    resources: Resources,
    name: str,
    options: ViewOptions,
    job: RefreshJob,
    *,
    functions: FunctionSource | None = None,
    for_another: bool = False,
) -> RefreshResult:
    """Bring a view up to date with the latest versions of its sources, in one commit.

    A job whose process died between that commit and its end commits nothing more when it is gone on with.

    With `options.cascade` the views that it reads are brought up to date before it, each in a commit of its own.
    Of two refreshes of one view the second waits for the first. Results of Functions that were computed are kept, whatever
    becomes of the refresh, and used by the next.

    Parameters
    ----------
    functions
        What computes Functions; workers if left out.
    for_another
        Whether that is done for a view that reads this one.

    Raises
    ------
    ViewNotFound, TableNotFound, ColumnNotFound, FunctionNotFound, GpuClassNotFound
        There is nothing to refresh, or nothing to refresh it with.
    StaleInput
        It reads a computed column that is out of date; nothing was written.
    FunctionFailed, WorkerLost, Cancelled, StorageError
        It stopped; the view stays as it was.
    """
    view = open_view(resources.tables, name)
    if options.cascade:
        first = options.model_copy(update={"full": False})
        for read in view.definition.reads:
            if resources.tables.exists(read) and view_of(resources.tables.open(read)) is not None:
                refresh_view(resources, read, first, job, functions=functions, for_another=True)

    def wait_behind() -> None:
        told = f"another refresh of view {name} runs; this one starts when it ends, and does what is left"
        reason = "another_refresh"
        job.waiting(WaitingOn(gpu_class=None, since=utc_now(), reason=reason, message=told, can_be_met=True))

    folder = resources.folder / "locks"
    with column_lock(folder, name, _LOCK_NAME, cancelled=job.cancelled, blocked=wait_behind):
        job.running("planning")
        why = WhyFailed(resources.settings.job_errors_kept + 1)
        source = functions or WorkerFunctions(resources, name, options, job, why)
        refresh = _ViewRefresh(resources, name, options, job, source, why)
        return (None if for_another else refresh.published_before()) or refresh.run()


class _ViewRefresh:
    """One refresh."""

    def __init__(
        self,
        resources: Resources,
        name: str,
        options: ViewOptions,
        job: RefreshJob,
        source: FunctionSource,
        why: WhyFailed,
    ) -> None:
        self._resources = resources
        self._options = options
        self._job = job
        self._view = open_view(resources.tables, name)
        self._pinned = PinnedTables(resources.tables, self._view.definition.reads, resources.plans)
        self._store = ResultStore(resources.folder, resources.settings.view_result_store_bytes)
        self._failed = {} if self._view.state is None else failed_of(self._view.state.failed)
        by_row = self._view.definition.way == "rows"
        self._failures = CallFailures(
            name,
            {} if options.retry_failed else self._failed,
            skips=options.skips,
            by_row=by_row,
            errors=FailedRows(resources.catalog, job.id, options, resources.settings.job_errors_kept),
            why=why,
        )
        by_row = by_row and self._failures.matters
        self._functions = KeptFunctions(source, self._store, self._failures, by_row=by_row)
        self._reading: QueryResult | None = None

    def published_before(self) -> RefreshResult | None:
        """Return what this job did, where it did it already and could not say so any more."""
        state = self._view.state
        if state is None or state.refreshed_by != self._job.id:
            return None
        return RefreshResult(
            mode="no_op",
            rows_assigned=0,
            rows_failed=0,
            rows_remaining=sum(map(len, self._failed.values())),
            version=self._view.snapshot.version,
            job_id=self._job.id,
            source_versions={name: source.version for name, source in state.sources.items()},
        )

    def run(self) -> RefreshResult:
        """Do what there is to do."""
        view = self._view
        for table, columns in view.definition.reads.items():
            require_current(self._pinned.pin(table), columns, self._resources.catalog, wanted_by=f"view {view.name}")
        full, again = self._options.full, self._options.retry_failed
        plan = plan_refresh(view, self._pinned, self._functions.registered, full=full, retry_failed=again)
        if plan.todo is not None:
            self._job.progress(rows_planned=plan.todo.computed_rows)
            self._failures.rows_planned = plan.todo.computed_rows
        if plan.mode == "no_op":
            return self._no_op(plan)
        self._job.event("planned", f"{plan.mode}: {plan.reason}")
        session = self._pinned.session(self._functions)
        try:
            with ViewChanges(view.snapshot) as changes, self._watched():
                self._job.running("computing")
                self._collect(view, plan, partial(self._query, session), changes)
                self._failures.finish(self._functions.made.total())
                self._job.running("publishing")
                state, failed_calls = self._with_failed(plan)
                done = changes.commit(metadata_of(state=state), job_id=self._job.id)
        finally:
            session.close()
        self._job.event("published", f"{changes.rows_added:,} rows as version {done.version}")
        return self._result(plan, done.version, changes.rows_added, changes.rows_removed, failed_calls)

    def _collect(self, view: View, plan: RefreshPlan, run: Run, changes: ViewChanges) -> None:
        """Compute the rows that come, and find those that go."""
        if plan.todo is None:
            stored = StoredRows(view.snapshot)
            for rows in new_rows(view, run, stored):
                self._check()
                changes.insert(rows)
            changes.delete(*stored.left_over())
            return
        (source,) = plan.sources.values()
        reads, key = view.definition.reads[source.name], digest_key(view, plan.state.functions)
        if plan.todo.computed_rows:
            for rows in computed_rows(view, query_of(view, self._functions), source, reads, key, plan.todo, run):
                self._check()
                changes.insert(rows)
        changes.delete(plan.todo.removed, plan.todo.removed_at)

    def _with_failed(self, plan: RefreshPlan) -> tuple[ViewState, int]:
        """What the view is made of, with the calls that have no value, and how many these are."""
        found = [self._failures.found() if plan.mode != "no_op" or plan.todo is not None else self._failed]
        computed = None if plan.todo is None else plan.todo.computed
        if computed is not None and self._failed:  # the other rows are as they were
            (source,) = plan.sources.values()
            found.append(left_of(self._failed, np.sort(row_ids(source)), computed))
        groups = {group for some in found for group in some}
        failed = {group: FailedCalls.joined(some[group] for some in found if group in some) for group in groups}
        count = sum(map(len, failed.values()))
        made = {"failed": texts_of(failed), "calls_failed": count, "refreshed_by": self._job.id}
        return plan.state.model_copy(update=made), count

    def _query(self, session: QuerySession, text: str, given: Mapping[str, TableRelation]) -> QueryResult:
        self._reading = session.query(text, given=given)
        return self._reading

    def _cancel_query(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _no_op(self, plan: RefreshPlan) -> RefreshResult:
        """Note what was found to be no change, so that the next refresh need not look."""
        version, left = self._view.snapshot.version, sum(map(len, self._failed.values()))
        if self._view.state is None or plan.state.sources != self._view.state.sources:
            state, left = self._with_failed(plan)
            with ViewChanges(self._view.snapshot) as changes:
                version = changes.commit(metadata_of(state=state), job_id=self._job.id).version
        return self._result(plan, version, 0, 0, left)

    def _result(self, plan: RefreshPlan, version: int, rows: int, removed: int, failed_calls: int) -> RefreshResult:
        if self._failures.rows:
            told = f"{self._failures.rows:,} {self._failures.subject.told}; the errors of this job tell why"
            self._job.event("rows failed", told, {"rows_failed": self._failures.rows})
        made, reused = self._functions.made.total(), self._functions.reused.total()
        self._job.progress(rows_computed=rows, rows_reused=reused, rows_failed=self._failures.rows)
        return RefreshResult(
            mode=plan.mode,
            rows_assigned=rows,
            rows_failed=self._failures.rows,
            rows_remaining=failed_calls,
            version=version,
            job_id=self._job.id,
            rows_removed=removed,
            calls_made=made,
            calls_reused=reused,
            source_versions={name: source.version for name, source in plan.sources.items()},
        )

    def _check(self) -> None:
        if self._job.cancelled.is_set():
            raise Cancelled(f"The refresh of view {self._view.name} was cancelled")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """End what DuckDB does when the job is cancelled; keep what was computed, so that little is lost with the process."""
        over = threading.Event()

        def watch() -> None:
            kept_at = time.monotonic()
            keep_seconds = min(_KEEP_SECONDS, self._resources.settings.part_target_seconds)
            while not over.wait(_LOOK_SECONDS):
                if self._job.cancelled.is_set():
                    self._cancel_query()
                if time.monotonic() - kept_at >= keep_seconds:
                    # A disk that is full is told when all is written at the end.
                    with suppress(StorageError):
                        self._functions.flush()
                    kept_at = time.monotonic()

        thread = threading.Thread(target=watch, name="lancegpu view", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
