"""Column files out of computed rows: new values where there are some, old ones where they stay, nulls elsewhere.

Lance wants a fragment's column whole, deleted rows included. Computed rows come from checkpoint parts in the order of
their addresses, so one pass over the parts serves all fragments, and no more than a window of rows is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.refresh.checkpoint import ADDRESS, DIGEST, Part, read_part

WINDOW_ROWS = 65_536

_OFFSET_BITS = 32  # a Lance row address: fragment id above, offset within the fragment below


class AddressedRows:
    """Rows of checkpoint parts by rising address, taken piece by piece."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._batches = (batch for part in parts for batch in read_part(part))
        self._ahead: pa.RecordBatch | None = None

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Take the rows from address `start` to below `end`; what stands before them is passed over for good."""
        while True:
            batch = self._ahead if self._ahead is not None else next(self._batches, None)
            self._ahead = None
            if batch is None:
                return
            first, last = np.searchsorted(batch.column(ADDRESS).to_numpy(), np.array([start, end], dtype=np.uint64))
            if last > first:
                yield batch.slice(first, last - first)
            if last < batch.num_rows:
                self._ahead = batch.slice(last)
                return


def column_batches(
    fragment_id: int,
    physical_rows: int,
    schema: pa.Schema,
    sources: Sequence[AddressedRows],
    stored: Iterator[pa.RecordBatch] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield a fragment's column file in `schema` (values, then digests), `physical_rows` rows in all.

    Parameters
    ----------
    sources
        Where computed rows come from; no address stands in two of them.
    stored
        The fragment's present columns in the same schema and physical order, where some of them stay.
    """
    base = fragment_id << _OFFSET_BITS
    if stored is None and len(sources) == 1:
        yield from _dense(base, physical_rows, schema, sources[0])
        return
    start = 0
    for window in stored or _null_windows(physical_rows, schema):
        end = start + window.num_rows
        fresh = [rows for source in sources for rows in source.between(base + start, base + end)]
        yield _patched(window, base + start, fresh, schema)
        start = end


def _dense(base: int, physical_rows: int, schema: pa.Schema, source: AddressedRows) -> Iterator[pa.RecordBatch]:
    """Pass computed rows through as they are; only where rows are missing (deleted ones) are nulls put between."""
    position = 0
    for rows in source.between(base, base + physical_rows):
        offsets = _offsets(rows, base)
        first, last = int(offsets[0]), int(offsets[-1])
        if first > position:
            yield from _null_windows(first - position, schema)
        if last - first + 1 == rows.num_rows:
            yield _values(rows, schema)
        else:
            yield _patched(_nulls(last - first + 1, schema), base + first, [rows], schema)
        position = last + 1
    yield from _null_windows(physical_rows - position, schema)


def _patched(window: pa.RecordBatch, base: int, fresh: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the window with the fresh rows in their places."""
    if not fresh:
        return window.select(schema.names)
    places = np.arange(window.num_rows)
    at = window.num_rows
    for rows in fresh:
        places[_offsets(rows, base)] = np.arange(at, at + rows.num_rows)
        at += rows.num_rows
    old = window.select(schema.names).cast(schema)
    table = pa.Table.from_batches([old, *(_values(rows, schema) for rows in fresh)])
    return table.combine_chunks().take(pa.array(places)).combine_chunks().to_batches()[0]


def _values(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [*(rows.column(name) for name in schema.names[:-1]), rows.column(DIGEST)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _offsets(rows: pa.RecordBatch, base: int) -> npt.NDArray[np.int64]:
    addresses: npt.NDArray[np.uint64] = rows.column(ADDRESS).to_numpy()
    return (addresses - np.uint64(base)).astype(np.int64)


def _null_windows(rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows > 0:
        size = min(rows, WINDOW_ROWS)
        yield _nulls(size, schema)
        rows -= size


def _nulls(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
