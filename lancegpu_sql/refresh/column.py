"""Refreshes a computed column: as many passes as it takes, and what is said and tidied up when they are over."""

from __future__ import annotations

import time
from collections import Counter

from lancegpu_sql.catalog.models import WaitingOn, utc_now
from lancegpu_sql.refresh.checkpoint import find_parts, part_schema
from lancegpu_sql.refresh.checkpoint_index import CheckpointIndex
from lancegpu_sql.refresh.column_pass import ColumnPass
from lancegpu_sql.refresh.current import Arguments, count_rows, require_current, unproven
from lancegpu_sql.refresh.failed_rows import FailedRows, rows_of
from lancegpu_sql.refresh.lock import column_lock
from lancegpu_sql.refresh.need import Resources, apply_options, worker_need
from lancegpu_sql.refresh.places import CheckpointPlaces
from lancegpu_sql.refresh.report import RefreshJob, Report
from lancegpu_sql.refresh.request import Mode, RefreshOptions, RefreshResult
from lancegpu_sql.refresh.rows import RowSource
from lancegpu_sql.refresh.target import Target, declared_function, find_target
from lancegpu_sql.tables import Fragment, Snapshot

# Proofs of earlier versions spare a look at the rows after a `restore`; more of them than this only take room.
_PROOFS_PER_FRAGMENT = 4
_FEW_PROOFS = 64


def refresh_column(
    resources: Resources, table: str, column: str, options: RefreshOptions, job: RefreshJob
) -> RefreshResult:
    """Bring a computed column up to date.

    Rows never computed, rows whose inputs changed and rows computed by another Function version are computed, nothing
    else; with `options.where` every matching row is. Of two refreshes of one column the second waits for the first.

    Memory is bounded whatever the table's size: batches in flight (see `apply`), one window of rows while a column file
    is written, the addresses of one fragment where `options.where` is given, and, after an interrupted refresh, the keys
    of a few checkpoint parts.

    Raises
    ------
    ColumnNotFound, TableNotFound, FunctionNotFound, GpuClassNotFound
        There is nothing to refresh, or nothing to refresh it with.
    StaleInput
        The column reads one that is not current; nothing was written.
    FunctionFailed, WorkerLost, Cancelled, StorageError
        It stopped; finished parts are kept and used by the next refresh.
    """
    target = find_target(resources.tables.open(table), column)

    def wait_behind() -> None:
        told = (
            f"another refresh of {target.title} runs, or its table is being optimized; this one starts when that ends, and "
            "does what is left"
        )
        reason = "another_refresh"
        job.waiting(WaitingOn(gpu_class=None, since=utc_now(), reason=reason, message=told, can_be_met=True))

    folder = resources.folder / "locks"
    with column_lock(folder, table, target.proof_column, cancelled=job.cancelled, blocked=wait_behind):
        job.running("planning")
        return _ColumnRefresh(resources, table, column, options, job).run()


class _ColumnRefresh:
    """One refresh, from its first pass to its last."""

    def __init__(self, resources: Resources, table: str, column: str, options: RefreshOptions, job: RefreshJob) -> None:
        self._resources = resources
        self._table = table
        self._column = column
        self._options = options
        self._job = job
        self._assigned: Counter[int] = Counter()
        self._done: dict[int, bytes] = {}
        self._followed = False
        self._report: Report | None = None
        self._failed: Counter[int] = Counter()
        self._failures = FailedRows(resources.catalog, job.id, options, resources.settings.job_errors_kept)

    def run(self) -> RefreshResult:
        """Pass over the table until nothing that was computed is left unpublished."""
        again = True
        while again:
            snapshot = self._resources.tables.open(self._table)
            target = find_target(snapshot, self._column)
            require_current(snapshot, target.inputs, self._resources.catalog, wanted_by=target.title)
            again, version = self._pass(snapshot, target)
        final = snapshot if version == snapshot.version else self._resources.tables.open(self._table, version)
        remaining = count_rows(final, find_target(final, self._column), self._resources.catalog).remaining
        assigned = self._assigned.total()
        self._tidy(final, target)
        mode: Mode = "no_op"
        if assigned:
            mode = "full" if assigned >= final.count_rows() else "incremental"
        failed = self._failed.total()
        if failed:
            told = f"{failed:,} rows failed and are null; the errors of this job tell why"
            self._job.event("rows failed", told, {"rows_failed": failed})
        return RefreshResult(
            mode=mode,
            rows_assigned=assigned - failed,
            rows_failed=failed,
            rows_remaining=remaining,
            version=version,
            job_id=self._job.id,
        )

    def _pass(self, snapshot: Snapshot, target: Target) -> tuple[bool, int]:
        """Compute and publish once.

        Returns whether another pass is due, because fragments changed under this one, and the version readers see.
        """
        fragments = self._fragments(snapshot, target)
        if not fragments:
            return False, snapshot.version
        places = self._places(target)
        places.fetch()
        function = declared_function(self._resources.catalog, target.table, target.declaration)
        need = worker_need(self._resources, target, function, self._options, self._job.id)
        self._report = self._report or Report(self._job, need.gpu_class.name if need.gpu_class else None)
        source = RowSource(
            snapshot=snapshot,
            target=target,
            arguments=Arguments(target, function),
            fragments=fragments,
            where=self._options.where,
            retry_failed=self._options.retry_failed,
            known=CheckpointIndex(find_parts(places.known), part_schema(target.value_fields)),
            folder=places.job / f"{time.time_ns():x}",
            cancelled=self._job.cancelled,
            planned=self._report.planned,
            reused=self._report.reused,
        )
        how = apply_options(self._resources.settings, function, self._options)
        self._failures.rows = self._failed.total()
        work = ColumnPass(
            self._resources, self._job, self._report, source, places, need, how, self._interval_rows(), self._failures
        )
        work.compute()
        self._check_failures(target, source)
        self._drop_damaged(source.known, places)
        work.publish()
        work.prove()
        self._assigned.update(work.assigned)
        self._failed.update(work.failed)
        self._done |= {
            fragment.id: target.input_signature(fragment) for fragment in fragments if fragment.id not in work.lost
        }
        # Rows that an update moved are in the parts. Once is enough: a busy table must not keep a refresh going for ever.
        moved = work.rows_gone and not self._followed
        self._followed = self._followed or moved
        return bool(work.lost) or moved, work.version

    def _drop_damaged(self, known: CheckpointIndex, places: CheckpointPlaces) -> None:
        for path in known.damaged:
            told = f"the checkpoint {path.name} is damaged and was left out; its rows are computed again"
            self._job.event("checkpoint_damaged", told)
            places.drop(path)

    def _fragments(self, snapshot: Snapshot, target: Target) -> list[Fragment]:
        """Return the fragments to look at; what an earlier pass did is not done twice."""
        if self._options.where is None:
            return unproven(snapshot, target, self._resources.catalog)
        present = sorted(snapshot.fragments, key=lambda fragment: fragment.id)
        done = {one.id for one in present if self._done.get(one.id) == target.input_signature(one)}
        # What stood in other fragments is published once more, from its parts.
        self._assigned = Counter({at: rows for at, rows in self._assigned.items() if at in done})
        self._failed = Counter({at: rows for at, rows in self._failed.items() if at in done})
        return [fragment for fragment in present if fragment.live_rows and fragment.id not in done]

    def _check_failures(self, target: Target, source: RowSource) -> None:
        """Refuse to publish where more rows failed than may."""
        to_compute = sum(tally.assigned for tally in source.tallies.values())
        self._failures.check(rows_of(target), self._assigned.total() + to_compute)

    def _interval_rows(self) -> int | None:
        return self._options.publication_interval_rows or self._resources.settings.publication_interval_rows

    def _tidy(self, final: Snapshot, target: Target) -> None:
        """Forget checkpoints that are published, and proofs that say nothing any more."""
        self._places(target).clear()
        catalog = self._resources.catalog
        if len(catalog.proven(target.proof_key)) > _PROOFS_PER_FRAGMENT * len(final.fragments) + _FEW_PROOFS:
            present = {proof for one in final.fragments for proof in (target.signature(one), target.proof(one))}
            catalog.drop_proofs(target.proof_key, keep=present)
        if self._assigned:
            catalog.drop_proofs_under(target.proof_prefix, keep_key=target.proof_key)

    def _places(self, target: Target) -> CheckpointPlaces:
        root = self._resources.folder / "checkpoints"
        forced = self._options.where is not None
        return CheckpointPlaces(root, target, self._job.id, forced, self._resources.tables.beside)
