"""One pass of a column's refresh over one version of its table: compute, checkpoint, publish, prove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import pyarrow as pa

from lancegpu_sql.apply import ApplyOptions, Computed, InputBatch, apply
from lancegpu_sql.apply.digest import marked_failed
from lancegpu_sql.errors import CatalogError, StorageError
from lancegpu_sql.refresh.checkpoint import PartWriter, part_schema
from lancegpu_sql.refresh.failed_rows import FailedRows, rows_of
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.places import CheckpointPlaces
from lancegpu_sql.refresh.publication import Unpublished, publish, rows_by_fragment
from lancegpu_sql.refresh.report import RefreshJob, Report
from lancegpu_sql.refresh.rows import RowSource, Tally
from lancegpu_sql.tables import Fragment
from lancegpu_sql.workers import WorkerNeed


class ColumnPass:
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
