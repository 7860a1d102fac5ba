"""Refreshes a computed column: plan, compute, checkpoint, publish, prove."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa

from lancegpu_sql.apply import ApplyOptions, Computed, InputBatch, apply
from lancegpu_sql.apply.digest import marked_failed
from lancegpu_sql.catalog.models import WaitingOn, utc_now
from lancegpu_sql.errors import CatalogError, StorageError
from lancegpu_sql.refresh.checkpoint import PartWriter, find_parts, part_schema
from lancegpu_sql.refresh.checkpoint_index import CheckpointIndex
from lancegpu_sql.refresh.current import Arguments, count_rows, require_current, unproven
from lancegpu_sql.refresh.failed_rows import FailedRows, rows_of
from lancegpu_sql.refresh.lock import column_lock
from lancegpu_sql.refresh.need import Resources, apply_options, worker_need
from lancegpu_sql.refresh.places import CheckpointPlaces
from lancegpu_sql.refresh.publication import Unpublished, publish, rows_by_fragment
from lancegpu_sql.refresh.report import RefreshJob, Report
from lancegpu_sql.refresh.request import Mode, RefreshOptions, RefreshResult
from lancegpu_sql.refresh.rows import RowSource, Tally
from lancegpu_sql.refresh.target import Target, declared_function, find_target
from lancegpu_sql.tables import Fragment, Snapshot
from lancegpu_sql.workers import WorkerNeed

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
        work = _Pass(
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


class _Pass:
    """One pass over one version of the table: its rows computed, published and proven."""

    def __init__(
        self,
        resources: Resources,
        job: RefreshJob,
        report: Report,
        source: RowSource,
        places: CheckpointPlaces,
        need: WorkerNeed,
        how: ApplyOptions,
        publication_interval_rows: int | None,
        failures: FailedRows,
    ) -> None:
        self._resources = resources
        self._job = job
        self._report = report
        self._source = source
        self._places = places
        self._need = need
        self._how = how
        self._interval_rows = publication_interval_rows
        self._failures = failures
        self._schema = part_schema(source.target.value_fields)
        self._unpublished = Unpublished()
        self._published: Counter[int] = Counter()
        self._shown = source.snapshot
        self._signatures = {one.id: source.target.signature(one) for one in source.snapshot.fragments}
        self.assigned: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.rows_gone = False

    @property
    def version(self) -> int:
        """The version that shows what is published so far."""
        return self._shown.version

    def compute(self) -> None:
        """Compute the rows that need it; a part that is finished is kept whatever happens next."""
        batches = self._source.batches()
        first = next(batches, None)
        if first is not None:
            self._compute(chain([first], batches))
        self._unpublished.adopt(self._source.adopted_parts, self._source.adopted_rows)

    def _compute(self, batches: Iterator[InputBatch]) -> None:
        pool, cancelled = self._resources.pool, self._job.cancelled
        writer: PartWriter | None = None
        parts = 0
        try:
            results = apply(
                batches,
                self._need,
                pool,
                self._how,
                watch=self._report,
                cancelled=cancelled,
                rows_left=self._rows_left,
                grace_seconds=lambda: self._job.grace_seconds,
            )
            for computed in results:
                writer = writer or PartWriter(self._source.folder / f"{parts:06d}", self._schema)
                writer.write(self._rows(computed))
                self._unpublished.count(computed.tag.column(0), [failure.index for failure in computed.failed])
                self._report.computed(computed.tag.num_rows - len(computed.failed))
                if computed.failed:
                    self._note_failed(computed)
                if computed.closes_part:
                    self._finish(writer)
                    writer, parts = None, parts + 1
                    self._job.event(
                        "part done", f"{self._unpublished.rows.total():,} rows are kept and not yet published"
                    )
                    self._publish_when_due()
        finally:
            if writer is not None and not writer.abandoned:
                self._finish(writer)
            with suppress(CatalogError):  # before anything is published it is tried again
                self._failures.flush()

    def _finish(self, writer: PartWriter) -> None:
        part = writer.finish()
        self._unpublished.computed.append(part)
        try:
            self._places.keep(part)
        except StorageError as exc:
            told = f"{part.rows:,} rows are kept on this host only, for now: {exc.message}"
            self._job.event("part not copied", told)

    def _note_failed(self, computed: Computed) -> None:
        source = self._source
        places = computed.tag.column(0).to_numpy()[[failure.index for failure in computed.failed]]
        for fragment_id, rows in rows_by_fragment(places).items():
            source.tallies[fragment_id].failed += rows
        self._report.failed(len(computed.failed))
        self._failures.add(computed, source.target)
        current = sum(tally.current for tally in source.tallies.values())
        # At least so many rows are computed; with a predicate they are counted fragment by fragment, as they are come to.
        at_most = None if source.where is not None else sum(one.live_rows for one in source.fragments) - current
        self._failures.check(rows_of(source.target), at_most)

    def _rows_left(self) -> int | None:
        # With a predicate the rows are counted fragment by fragment, as they are come to.
        return self._report.rows_left() if self._source.where is None else None

    def _rows(self, computed: Computed) -> pa.RecordBatch:
        """Return computed values beside their keys, a struct spread over its sibling columns."""
        values = [computed.values]
        if self._source.target.declaration.output_field is not None:
            names = [field.name for field in computed.values.type]
            fields = dict(zip(names, computed.values.flatten(), strict=True))
            values = [fields[str(column.output_field)] for column in self._source.target.columns]
        keys = list(computed.tag.columns)
        if computed.failed:
            keys[-1] = marked_failed(keys[-1], [failure.index for failure in computed.failed])
        return pa.RecordBatch.from_arrays([*keys, *values], schema=self._schema)

    def _publish_when_due(self) -> None:
        if self._interval_rows is not None and self._unpublished.rows.total() >= self._interval_rows:
            self.publish()

    def publish(self) -> None:
        """Show readers all that is computed so far, in one commit."""
        if not self._unpublished.rows:
            return
        self._report.publishing()
        self._failures.flush()
        done = publish(
            self._resources.tables,
            self._source.snapshot,
            self._source.target,
            self._unpublished,
            self._signatures,
            job_id=self._job.id,
        )
        failed, self._unpublished = self._unpublished.failed, Unpublished()
        self._shown = done.snapshot
        self.lost.update(done.lost)
        self._published.update(done.rows)
        self._job.event("published", f"{sum(done.rows.values()):,} rows as version {self.version}")
        planned = {fragment.id: fragment for fragment in self._source.snapshot.fragments}
        for fragment in done.snapshot.fragments:
            if fragment.id in done.rows:
                self._signatures[fragment.id] = self._source.target.signature(fragment)
                self.rows_gone |= fragment.live_rows < planned[fragment.id].live_rows
                self.assigned[fragment.id] = min(self._published[fragment.id], fragment.live_rows)
                self.failed[fragment.id] += failed[fragment.id]

    def prove(self) -> None:
        """Note the fragments that are current all through, so that the next refresh need not read them."""
        target = self._source.target
        present = {fragment.id: fragment for fragment in self._shown.fragments}
        proofs = [
            target.signature(now) if tally.fragment.deletions is None else target.proof(now)
            for tally in self._source.tallies.values()
            if (now := present.get(tally.fragment.id)) is not None and self._is_current(tally, now)
        ]
        self._resources.catalog.add_proofs(target.proof_key, proofs)

    def _is_current(self, tally: Tally, now: Fragment) -> bool:
        all_shown = self._published[now.id] == tally.assigned
        same_files = self._source.target.signature(now) == self._signatures[now.id]
        return tally.complete and all_shown and same_files and tally.fragment.deletions in (None, now.deletions)
