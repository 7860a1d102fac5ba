"""A query runs again: which of its rows the view has already, and which rows of the view are none of them any more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import Lanes, from_array, row_digests, to_array
from lancegpu_sql.apply.key_table import KeyTable
from lancegpu_sql.query.picked import Numbers
from lancegpu_sql.refresh.views.by_rows import Run, fitted
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.tables import Snapshot
from lancegpu_sql.tables.naming import ROW_ADDRESS, ROW_ID
from lancegpu_sql.tables.views import DIGEST

_NO_KEY = bytes(16)


class StoredRows:
    """The rows that a view has, by the digests of their values; equal ones are counted.

    Memory: about 90 bytes for each row, and 48 for each that is new.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        own, places = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint64)]
        digests = [np.empty((0, 2), dtype=np.uint64)]
        for batch in snapshot.scan([DIGEST], row_id=True, row_address=True):
            own.append(batch.column(ROW_ID).to_numpy())
            places.append(batch.column(ROW_ADDRESS).to_numpy())
            digests.append(from_array(batch.column(DIGEST))[0])
        self._ids: Numbers = np.concatenate(own)
        self._addresses: Numbers = np.concatenate(places)
        self._keys = KeyTable()
        self._numbers, _ = self._keys.number(np.concatenate(digests))
        self._known = self._keys.entries
        self._left = np.bincount(self._numbers, minlength=self._known)

    def new(self, digests: Lanes) -> npt.NDArray[np.bool_]:
        """Tell which rows of a batch the view has not, one of its own standing for one of them."""
        numbers, _ = self._keys.number(digests)
        known = numbers < self._known
        rank = _ranks(numbers)
        taken = known.copy()
        taken[known] = rank[known] < self._left[numbers[known]]
        self._left -= np.bincount(numbers[taken], minlength=self._known)
        return ~taken

    def left_over(self) -> tuple[Numbers, Numbers]:
        """Return the ids and the addresses of the rows for which none came."""
        if not len(self._ids):
            return self._ids, self._addresses
        left = _ranks(self._numbers) < self._left[self._numbers]
        return self._ids[left], self._addresses[left]


def new_rows(view: View, run: Run, stored: StoredRows) -> Iterator[pa.RecordBatch]:
    """Run a view's query; yield those rows that the view has not, with their digests."""
    visible = view.snapshot.schema.names
    with run(view.definition.query, {}).to_reader() as reader:
        for batch in reader:
            rows = fitted(view.snapshot, batch, {DIGEST: pa.nulls(batch.num_rows, pa.binary(16))})
            digests = row_digests(rows.select(visible), _NO_KEY)
            new = stored.new(digests)
            if new.any():
                with_digests = rows.set_column(len(visible), view.snapshot.full_schema.field(DIGEST), to_array(digests))
                yield with_digests.filter(pa.array(new))


def _ranks(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return of each number how many equal ones stand before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(numbers) else order
    lengths = np.diff(np.concatenate([starts, [len(numbers)]]))
    ranks = np.empty(len(numbers), dtype=np.int64)
    ranks[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return ranks
