"""Column files out of computed rows: new values where there are some, old ones where they stay, nulls elsewhere.

Lance wants a fragment's column whole, deleted rows included. Computed rows come from checkpoint parts in the order of
their addresses, so one pass over the parts serves all fragments, and only a bounded run of rows is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.refresh.checkpoint import ADDRESS, DIGEST, Part, read_part

_NULL_ROWS = 65_536
_GROUP_BYTES = 32 << 20
_BEYOND = 2**64 - 1

_OFFSET_BITS = 32  # a Lance row address: fragment id above, offset within the fragment below


class AddressedRows:
    """Rows of checkpoint parts by rising address, taken piece by piece.

    Parameters
    ----------
    *runs
        Lists of parts; the addresses of each rise, and no address stands in two of them.
    """

    def __init__(self, *runs: Iterable[Part]) -> None:
        self._runs = [_Run(parts) for parts in runs]

    def between(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Take the rows from address `start` to below `end`; what stands before them is passed over for good."""
        while True:
            heads = sorted((head, at) for at, run in enumerate(self._runs) if (head := run.head(start)) < end)
            if not heads:
                return
            next_head = heads[1][0] if len(heads) > 1 else end
            yield self._runs[heads[0][1]].take(next_head)


class _Run:
    """One list of parts, read as far as it was asked for."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._batches = (batch for part in parts for batch in read_part(part))
        self._ahead: pa.RecordBatch | None = None

    def head(self, start: int) -> int:
        """Return the first address that is not below `start`, or one beyond all others."""
        while True:
            if self._ahead is None:
                self._ahead = next(self._batches, None)
            if self._ahead is None:
                return _BEYOND
            self._ahead = self._ahead.slice(self._rows_below(start))
            if self._ahead.num_rows:
                return int(self._ahead.column(ADDRESS)[0].as_py())
            self._ahead = None

    def take(self, end: int) -> pa.RecordBatch:
        """Take the rows at hand that stand below `end`."""
        assert self._ahead is not None
        rows = self._rows_below(end)
        taken = self._ahead.slice(0, rows)
        self._ahead = self._ahead.slice(rows) if rows < self._ahead.num_rows else None
        return taken

    def _rows_below(self, address: int) -> int:
        assert self._ahead is not None
        return int(np.searchsorted(self._ahead.column(ADDRESS).to_numpy(), np.uint64(address)))


def column_batches(
    fragment_id: int,
    physical_rows: int,
    schema: pa.Schema,
    computed: AddressedRows,
    stored: Iterator[pa.RecordBatch] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield a fragment's column file in `schema` (values, then digests), `physical_rows` rows in all.

    Parameters
    ----------
    computed
        Where computed rows come from.
    stored
        The fragment's present columns in the same schema and physical order, where some of them stay.
    """
    base = fragment_id << _OFFSET_BITS
    if stored is None:
        yield from _dense(base, physical_rows, schema, computed)
        return
    start = 0
    for window in stored:
        end = start + window.num_rows
        at = start
        for fresh in _bounded(computed.between(base + start, base + end)):
            upto = int(_offsets(fresh[-1], base)[-1]) + 1
            yield _patched(window.slice(at - start, upto - at), base + at, fresh, schema)
            at = upto
        if at < end:
            yield window.slice(at - start).select(schema.names)
        start = end


def _bounded(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches into groups of about 32 MB: rows just computed may be far larger than those they replace."""
    group: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        group.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _GROUP_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _dense(base: int, physical_rows: int, schema: pa.Schema, computed: AddressedRows) -> Iterator[pa.RecordBatch]:
    """Pass computed rows through as they are; only where rows are missing (deleted ones) are nulls put between."""
    position = 0
    for rows in computed.between(base, base + physical_rows):
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
    places = np.arange(window.num_rows)
    at = window.num_rows
    for rows in fresh:
        places[_offsets(rows, base)] = np.arange(at, at + rows.num_rows)
        at += rows.num_rows
    old = window.select(schema.names).cast(schema)
    return pa.concat_batches([old, *(_values(rows, schema) for rows in fresh)]).take(pa.array(places))


def _values(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [*(rows.column(name) for name in schema.names[:-1]), rows.column(DIGEST)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _offsets(rows: pa.RecordBatch, base: int) -> npt.NDArray[np.int64]:
    addresses: npt.NDArray[np.uint64] = rows.column(ADDRESS).to_numpy()
    return (addresses - np.uint64(base)).astype(np.int64)


def _null_windows(rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows > 0:
        size = min(rows, _NULL_ROWS)
        yield _nulls(size, schema)
        rows -= size


def _nulls(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
