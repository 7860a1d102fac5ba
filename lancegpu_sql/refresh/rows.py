"""The rows a refresh has to compute, in the order of the table, with an account of those it has not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply import InputBatch
from lancegpu_sql.apply.digest import Lanes, row_digests, to_array
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.refresh.checkpoint import KEY_FIELDS, Part, PartWriter, part_schema
from lancegpu_sql.refresh.checkpoint_index import CheckpointIndex
from lancegpu_sql.refresh.current import Arguments, RowStates, states
from lancegpu_sql.refresh.publication import rows_by_fragment
from lancegpu_sql.refresh.target import Target
from lancegpu_sql.tables import Fragment, Snapshot
from lancegpu_sql.tables.naming import ROW_ADDRESS, ROW_ID

_KEY_SCHEMA = pa.schema(KEY_FIELDS)


@dataclass
class Tally:
    """What became of one fragment's live rows in this pass."""

    fragment: Fragment
    current: int = 0
    assigned: int = 0
    failed: int = 0

    @property
    def complete(self) -> bool:
        """Whether every live row will be current once the assigned ones are published."""
        return not self.failed and self.current + self.assigned == self.fragment.live_rows


Addresses = npt.NDArray[np.uint64]

Choice = Callable[[RowStates, Addresses], npt.NDArray[np.bool_]]
"""Tells which rows of a batch to compute."""


def out_of_date(found: RowStates, _addresses: Addresses) -> npt.NDArray[np.bool_]:
    """Choose rows never computed, or whose inputs or Function version changed; failed rows stay failed."""
    return ~(found.fresh | found.failed)


def without_a_value(found: RowStates, _addresses: Addresses) -> npt.NDArray[np.bool_]:
    """Choose rows without a current value, those that failed among them."""
    return ~found.fresh


def at_one_of(chosen: Addresses) -> Choice:
    """Choose rows that stand at one of these addresses, current or not."""
    return lambda _found, addresses: np.isin(addresses, chosen)


@dataclass
class RowSource:
    """Streams the rows to compute out of one version of a table.

    Rows that a checkpoint already holds are adopted: written to `adopted` parts of this pass instead of being computed.
    Iterate once; what was found stands in `tallies` and `adopted_parts` afterwards.
    """

    snapshot: Snapshot
    target: Target
    arguments: Arguments
    fragments: Sequence[Fragment]
    where: str | None
    retry_failed: bool
    known: CheckpointIndex
    folder: Path
    cancelled: threading.Event
    planned: Callable[[int], None]
    reused: Callable[[int], None]
    tallies: dict[int, Tally] = field(default_factory=dict)
    adopted_parts: list[Part] = field(default_factory=list)
    adopted_rows: Counter[int] = field(default_factory=Counter)
    _writer: PartWriter | None = field(default=None, init=False)

    def batches(self) -> Iterator[InputBatch]:
        """Yield batches of arguments; the tag of each is `(address, row_id, digest)`."""
        try:
            for choice, fragments in self._visits():
                yield from self._visit(choice, fragments)
        finally:
            if self._writer is not None and not self._writer.abandoned:
                self.adopted_parts.append(self._writer.finish())
                self._writer = None

    def _visits(self) -> Iterator[tuple[Choice, list[Fragment]]]:
        """One scan over all fragments, or with a predicate one over each that has a matching row."""
        if self.where is None:
            self.planned(sum(fragment.live_rows for fragment in self.fragments))
            yield without_a_value if self.retry_failed else out_of_date, list(self.fragments)
            return
        # DuckDB takes as long to load as all else here; most refreshes have no predicate.
        from lancegpu_sql.query.filter import RowFilter

        with RowFilter(self.snapshot, self.where) as row_filter:
            for fragment in self.fragments:
                addresses = row_filter.addresses(fragment.id)
                if len(addresses):
                    self.planned(len(addresses))
                    yield at_one_of(addresses), [fragment]

    def _visit(self, choice: Choice, fragments: list[Fragment]) -> Iterator[InputBatch]:
        for fragment in fragments:
            self.tallies[fragment.id] = Tally(fragment)
        columns = [*dict.fromkeys(self.target.inputs), self.target.proof_column]
        ids = [fragment.id for fragment in fragments]
        for batch in self.snapshot.scan(columns, fragment_ids=ids, row_id=True, row_address=True):
            if self.cancelled.is_set():
                raise Cancelled(f"the refresh of {self.target.title} was cancelled; finished parts are kept")
            yield from self._chosen(batch, choice)

    def _chosen(self, batch: pa.RecordBatch, choice: Choice) -> Iterator[InputBatch]:
        arguments = self.arguments.of(batch)
        digests = row_digests(arguments, self.target.key)
        found = states(batch.column(self.target.proof_column), digests)
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        chosen = choice(found, addresses)
        for fragment_id, rows in rows_by_fragment(addresses[found.fresh & ~chosen]).items():
            self.tallies[fragment_id].current += rows
            if self.where is None:
                self.reused(rows)
        for fragment_id, rows in rows_by_fragment(addresses[chosen]).items():
            self.tallies[fragment_id].assigned += rows
        keys = pa.RecordBatch.from_arrays(
            [batch.column(ROW_ADDRESS), batch.column(ROW_ID), to_array(digests)], schema=_KEY_SCHEMA
        )
        if self.known:
            chosen = self._adopt(chosen, keys, digests)
        if chosen.all():
            yield InputBatch(arguments=arguments, row_ids=batch.column(ROW_ID), tag=keys)
        elif chosen.any():
            mask = pa.array(chosen)
            keys = keys.filter(mask)
            yield InputBatch(arguments=arguments.filter(mask), row_ids=keys.column(1), tag=keys)

    def _adopt(self, chosen: npt.NDArray[np.bool_], keys: pa.RecordBatch, digests: Lanes) -> npt.NDArray[np.bool_]:
        """Write chosen rows that a checkpoint holds to this pass's own parts; return those still to compute."""
        places = np.flatnonzero(chosen)
        found = self.known.find(keys.column(1).to_numpy()[places], digests[places])
        for at, values in found.values():
            self._take_over(keys.take(pa.array(places[at])), values)
        rest = chosen.copy()
        rest[places[found.rows]] = False
        return rest

    def _take_over(self, adopted: pa.RecordBatch, values: pa.RecordBatch) -> None:
        if self._writer is None:
            schema = part_schema(self.target.value_fields)
            self._writer = PartWriter(self.folder / "adopted", schema)
        self._writer.write(
            pa.RecordBatch.from_arrays(
                [*adopted.columns, *values.columns], schema=part_schema(self.target.value_fields)
            )
        )
        self.adopted_rows.update(rows_by_fragment(adopted.column(0).to_numpy()))
        self.reused(values.num_rows)
