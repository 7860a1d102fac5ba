"""Which rows of a view are out of date where each is made of one row of one table, and what takes their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import Lanes, from_array
from lancegpu_sql.query.picked import Numbers, PickedRows, are_in, source_digests
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.refresh.views.sources import as_refreshed, marks_of
from lancegpu_sql.sql.views import over_rows
from lancegpu_sql.tables import Snapshot
from lancegpu_sql.tables.naming import ROW_ADDRESS, ROW_ID, is_hidden
from lancegpu_sql.tables.views import DIGEST, ORDINAL, SOURCE_ROW

Run = Callable[[str, Mapping[str, TableRelation]], QueryResult]
"""Runs a query, with relations by the names that its text has for them."""

_SOURCE = "lancegpu source"
_ROWS_AT_ONCE = 8_192


@dataclass(frozen=True)
class RowsToDo:
    """What a refresh has to do.

    Attributes
    ----------
    computed
        The source rows to compute, by their ids in ascending order; None for all.
    computed_rows
        How many these are.
    removed
        The rows of the view that go, by their ids.
    removed_at
        Their addresses.
    fragments
        The fragments of the source in which the rows to compute stand; None for all.
    """

    computed: Numbers | None
    computed_rows: int
    removed: Numbers
    removed_at: Numbers
    fragments: tuple[int, ...] | None = None

    @property
    def nothing(self) -> bool:
        """Whether every row is as it should be."""
        return not self.computed_rows and not len(self.removed)


def rows_to_do(
    view: View, source: Snapshot, reads: Sequence[str], key: bytes, *, full: bool, again: Numbers
) -> RowsToDo:
    """Find the source rows that are new or changed, and the rows of the view that are not right any more.

    Fragments of the source that are as the last refresh saw them are not read. Of the others the columns that the query
    reads are, and compared with what the view's rows were made of.

    Memory: 40 bytes for each row of the view and 8 for each of the source.

    Parameters
    ----------
    key
        Of the digests.
    full
        Compute every row.
    again
        Rows to compute whether they have changed or not, by their ids in ascending order.
    """
    stored = _view_rows(view.snapshot)
    if full:
        return RowsToDo(None, source.count_rows(), stored.ids, stored.addresses)
    noted = frozenset[bytes]() if view.state is None else view.state.fragment_marks
    marks = marks_of(source, reads, key)
    doubtful = [number for number, mark in marks.items() if mark not in noted]
    if not doubtful and len(noted) == len(marks) and not len(again):
        return RowsToDo(_NONE, 0, _NONE, _NONE)
    live = np.sort(row_ids(source))
    shrunk, read = _told_apart(view, source, reads, key, doubtful)
    changed = [*stored.differ(source.scan(list(reads), fragment_ids=read, row_id=True) if read else (), reads, key)]
    back = [*_back(source, reads, key, shrunk, stored)]
    elsewhere = np.concatenate([_NONE, *back, again[are_in(again, live)]])
    computed = np.unique(np.concatenate([*changed, elsewhere])) if len(elsewhere) else np.sort(_joined(changed))
    goes = ~are_in(stored.made_of, live) | are_in(stored.made_of, computed)
    every = len(computed) == len(live)
    fragments = None if every or len(elsewhere) else tuple(read)
    return RowsToDo(None if every else computed, len(computed), stored.ids[goes], stored.addresses[goes], fragments)


def computed_rows(
    view: View, text: str, source: Snapshot, reads: Sequence[str], key: bytes, todo: RowsToDo, run: Run
) -> Iterator[pa.RecordBatch]:
    """Run a view's query over the source rows to compute; yield rows of the view's table, hidden columns too.

    Parameters
    ----------
    text
        The query; it may name `SOURCE_ROW`, the id of the row.
    """
    relation = PickedRows(source, reads, key, todo.computed, todo.fragments)
    result = run(over_rows(text, _SOURCE, (SOURCE_ROW, DIGEST)), {_SOURCE: relation})
    ordinals = _Ordinals()
    with result.to_reader() as reader:
        for batch in reader:
            rows, digests = batch.columns[-2:]
            yield fitted(
                view.snapshot, batch, {SOURCE_ROW: rows, ORDINAL: ordinals.of(rows.to_numpy()), DIGEST: digests}
            )


def fitted(snapshot: Snapshot, batch: pa.RecordBatch, own: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return rows of a query with the hidden columns of a view, in the types of its table.

    The query's columns stand in the table's order; by name they would not do, as two of a query may have the same one.
    Where it says ``*``, hidden columns of the source are among them.
    """
    schema = snapshot.full_schema
    given = [column for name, column in zip(batch.schema.names, batch.columns, strict=True) if not is_hidden(name)]
    columns = [*given, *(own[field.name] for field in schema if is_hidden(field.name))]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


_NONE: Numbers = np.empty(0, dtype=np.uint64)


def _joined(some: Sequence[Numbers]) -> Numbers:
    return np.concatenate([_NONE, *some])


@dataclass(frozen=True)
class _Stored:
    """Of each row of a view its id and address, the id of the row that it was made of, and the digest of what that held."""

    ids: Numbers
    addresses: Numbers
    made_of: Numbers
    digests: Lanes

    @cached_property
    def _by_source(self) -> tuple[npt.NDArray[np.intp], Numbers]:
        """The rows in the order of those that they were made of, and the ids of these."""
        order = np.argsort(self.made_of, kind="stable")
        return order, self.made_of[order]

    def differ(self, batches: Iterable[pa.RecordBatch], reads: Sequence[str], key: bytes) -> Iterator[Numbers]:
        """Yield the ids of rows of the source that the view does not have as they are."""
        order, ordered = self._by_source
        for batch in batches:
            ids = batch.column(ROW_ID).to_numpy()
            if not len(ordered):
                yield ids
                continue
            present, _ = from_array(source_digests(batch, reads, key))
            at = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
            same: npt.NDArray[np.bool_] = (ordered[at] == ids) & (self.digests[order[at]] == present).all(axis=1)
            yield ids[~same]


def _view_rows(snapshot: Snapshot) -> _Stored:
    ids, addresses, made_of, digests = [_NONE], [_NONE], [_NONE], [np.empty((0, 2), dtype=np.uint64)]
    for batch in snapshot.scan([SOURCE_ROW, DIGEST], row_id=True, row_address=True):
        ids.append(batch.column(ROW_ID).to_numpy())
        addresses.append(batch.column(ROW_ADDRESS).to_numpy())
        made_of.append(batch.column(SOURCE_ROW).to_numpy())
        digests.append(from_array(batch.column(DIGEST))[0])
    return _Stored(*map(np.concatenate, (ids, addresses, made_of, digests)))


def _back(
    source: Snapshot, reads: Sequence[str], key: bytes, shrunk: Mapping[int, Snapshot], stored: _Stored
) -> Iterator[Numbers]:
    """Yield rows that are back: of fragments whose files the last refresh saw, where they were deleted.

    What else stands there is as it was, and is not read. Nothing is taken back but by restoring an older version.
    """
    if not shrunk or source.history.only_went_on(next(iter(shrunk.values())).version):
        return
    for number, old in shrunk.items():
        present = row_ids(source, number)
        back = present[~are_in(present, np.sort(row_ids(old, number)))]
        for start in range(0, len(back), _ROWS_AT_ONCE):
            yield from stored.differ(source.take(back[start : start + _ROWS_AT_ONCE], reads), reads, key)


def _told_apart(
    view: View, source: Snapshot, reads: Sequence[str], key: bytes, doubtful: Sequence[int]
) -> tuple[dict[int, Snapshot], list[int]]:
    """The fragments that only lost rows, or got some back, with the version that the last refresh saw; and the others."""
    noted = None if view.state is None else view.state.sources.get(source.name)
    old = as_refreshed(source, reads, noted) if noted is not None and doubtful else None
    # The key is that of this refresh: rows of another one are all to be looked at.
    if old is None or not _same_key(view, old, reads, key):
        return {}, list(doubtful)
    before = marks_of(old, reads, deletions=False)
    now = marks_of(source, reads, deletions=False)
    shrunk = {number: old for number in doubtful if before.get(number) == now[number]}
    return shrunk, [number for number in doubtful if number not in shrunk]


def _same_key(view: View, old: Snapshot, reads: Sequence[str], key: bytes) -> bool:
    """Whether the view's rows have digests of this key."""
    assert view.state is not None
    return view.state.fragment_marks == frozenset(marks_of(old, reads, key).values())


def row_ids(snapshot: Snapshot, fragment: int | None = None) -> Numbers:
    """Return the ids of the rows of a table, or of one fragment of it."""
    fragments = None if fragment is None else [fragment]
    found = [batch.column(ROW_ID).to_numpy() for batch in snapshot.scan([], fragment_ids=fragments, row_id=True)]
    return np.concatenate([_NONE, *found])


class _Ordinals:
    """Numbers the rows that were made of one source row, which come one after another."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._count = 0

    def of(self, rows: Numbers) -> pa.Array:
        if not len(rows):
            return pa.array([], pa.int32())
        starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        lengths = np.diff(np.concatenate([starts, [len(rows)]]))
        numbers = np.arange(len(rows)) - np.repeat(starts, lengths)
        if self._last == int(rows[0]):
            numbers[: lengths[0]] += self._count
        self._count = int(numbers[-1]) + 1
        self._last = int(rows[-1])
        return pa.array(numbers.astype(np.int32))
