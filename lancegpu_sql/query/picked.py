"""Rows of a table as a view's refresh reads them: all or some, beside their ids and the digests of what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import row_digests, to_array
from lancegpu_sql.query.proof import Proof, proof_fields
from lancegpu_sql.query.readable import to_readable
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.tables.naming import ROW_ID
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.views import DIGEST, SOURCE_ROW

Numbers = npt.NDArray[np.uint64]

_ROWS_AT_ONCE = 8_192
_DENSE = 16
_WORTH_A_SCAN = 8
"""To take a row by its id costs as much as to read so many; measured with texts of 80 bytes: 40 and 1.5 microseconds."""


class PickedRows(TableRelation):
    """A table's visible columns at one version, of all rows or of some, with two more: `SOURCE_ROW` and `DIGEST`.

    Parameters
    ----------
    snapshot
        The version.
    reads
        The columns of which `DIGEST` is the digest.
    key
        Its key: of two values of `DIGEST` that are equal, these columns and the key were.
    ids
        The rows, by their ids in ascending order; None for all.
    fragments
        The fragments in which these stand; None where that is not known.
    proofs, added
        Further columns, behind those: as of `lancegpu_sql.query.proved.ProvedRelation`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        reads: Sequence[str],
        key: bytes,
        ids: Numbers | None = None,
        fragments: Sequence[int] | None = None,
        proofs: Mapping[str, Proof] = MappingProxyType({}),
        added: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(snapshot)
        self._reads = list(reads)
        self._key = key
        self._ids = ids
        self._fragments = fragments
        self._proofs = proofs
        self._added = added
        own = [pa.field(SOURCE_ROW, pa.uint64(), nullable=False), pa.field(DIGEST, pa.binary(), nullable=False)]
        own += proof_fields(snapshot, proofs, added)
        self._own = {field.name for field in own}
        self._schema = pa.schema([*self._schema, *own])

    def proving(self, proofs: Mapping[str, Proof], added: Mapping[str, str]) -> PickedRows:
        """Return the same rows, of which each says whether computed columns are current in it."""
        return PickedRows(self.snapshot, self._reads, self._key, self._ids, self._fragments, proofs, added)

    def _filtered_by_lance(self, names: Sequence[str], condition: Any) -> pa.RecordBatchReader | None:
        if self._ids is not None or not self._own.isdisjoint(names):
            return None
        return super()._filtered_by_lance(names, condition)

    def _reader(self, names: Sequence[str], condition: Any = None) -> pa.RecordBatchReader:
        if condition is not None or (self._ids is None and self._own.isdisjoint(names)):
            return super()._reader(names, condition)
        schema = pa.schema([self._schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(list(names), schema))

    def _batches(self, names: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        needed = [column for name in names for column in self._needed(name)]
        for batch in self._stored_batches(list(dict.fromkeys(needed))):
            columns = [self._column(name, batch) for name in names]
            fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
            yield to_readable(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)), schema)

    def _needed(self, name: str) -> Sequence[str]:
        """The stored columns of which a column is made."""
        if name == SOURCE_ROW:
            return ()
        if name == DIGEST:
            return self._reads
        return self._proofs[name].reads if name in self._proofs else (self._added.get(name, name),)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if name == SOURCE_ROW:
            return batch.column(ROW_ID)
        if name == DIGEST:
            return source_digests(batch, self._reads, self._key).cast(pa.binary())
        if name in self._proofs:
            return self._proofs[name].current(batch)
        return batch.column(self._added.get(name, name))

    def _stored_batches(self, stored: list[str]) -> Iterator[pa.RecordBatch]:
        if self._ids is None:
            yield from self.snapshot.scan(stored, row_id=True)
            return
        around = self._fragments
        rows = (
            self.snapshot.count_rows()
            if around is None
            else sum(self.snapshot.fragment(one).live_rows for one in around)
        )
        if len(self._ids) * _WORTH_A_SCAN > rows:
            for batch in self.snapshot.scan(stored, fragment_ids=around, row_id=True):
                chosen = batch.filter(pa.array(are_in(batch.column(ROW_ID).to_numpy(), self._ids)))
                if chosen.num_rows:
                    yield chosen
            return
        for start in range(0, len(self._ids), _ROWS_AT_ONCE):
            yield from self.snapshot.take(self._ids[start : start + _ROWS_AT_ONCE], stored)


def source_digests(batch: pa.RecordBatch, reads: Sequence[str], key: bytes) -> pa.FixedSizeBinaryArray:
    """Return the digests of some columns of rows."""
    columns = [batch.column(name) for name in reads]
    digested = pa.RecordBatch.from_arrays(columns, names=list(reads)) if columns else batch.select([])
    return to_array(row_digests(digested, key))


def are_in(numbers: Numbers, ordered: Numbers) -> npt.NDArray[np.bool_]:
    """Tell which numbers are among others, which ascend."""
    found: npt.NDArray[np.bool_]
    if not len(ordered) or not len(numbers):
        return np.zeros(len(numbers), dtype=bool)
    low, high = ordered[0], ordered[-1]
    if int(high - low) <= _DENSE * (len(numbers) + len(ordered)):
        # Ids of a table's rows count up: to look one up is far cheaper than to search for it.
        there = np.zeros(int(high - low) + 1, dtype=bool)
        there[ordered - low] = True
        found = (numbers >= low) & (numbers <= high)
        found[found] = there[numbers[found] - low]
        return found
    at = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    found = ordered[at] == numbers
    return found
