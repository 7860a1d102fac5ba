"""Which rows of a view are out of date where each is made of one row of one table, and what takes their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import Lanes, from_array
from lancegpu_sql.query.picked import Numbers, PickedRows, are_in, source_digests
from lancegpu_sql.query.relation import TableRelation
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.refresh.views.model import View
from lancegpu_sql.refresh.views.sources import marks_of
from lancegpu_sql.sql.views import over_rows
from lancegpu_sql.tables import Snapshot
from lancegpu_sql.tables.naming import ROW_ID
from lancegpu_sql.tables.views import DIGEST, ORDINAL, SOURCE_ROW

Run = Callable[[str, Mapping[str, TableRelation]], QueryResult]
"""Runs a query, with relations by the names that its text has for them."""

_SOURCE = "lancegpu source"


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
    """

    computed: Numbers | None
    computed_rows: int
    removed: Numbers

    @property
    def nothing(self) -> bool:
        """Whether every row is as it should be."""
        return not self.computed_rows and not len(self.removed)


def rows_to_do(view: View, source: Snapshot, reads: Sequence[str], key: bytes, *, full: bool) -> RowsToDo:
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
    """
    own, made_of, digests = _view_rows(view.snapshot)
    if full:
        return RowsToDo(None, source.count_rows(), own)
    noted = frozenset[bytes]() if view.state is None else view.state.fragment_marks
    marks = marks_of(source, reads, key)
    doubtful = [number for number, mark in marks.items() if mark not in noted]
    if not doubtful and len(noted) == len(marks):
        return RowsToDo(_NONE, 0, _NONE)
    computed = _changed(source, reads, key, doubtful, made_of, digests)
    live = np.sort(
        np.concatenate([_NONE, *(batch.column(ROW_ID).to_numpy() for batch in source.scan([], row_id=True))])
    )
    removed = own[~are_in(made_of, live) | are_in(made_of, computed)]
    return RowsToDo(None if len(computed) == len(live) else computed, len(computed), removed)


def computed_rows(
    view: View, source: Snapshot, reads: Sequence[str], key: bytes, todo: RowsToDo, run: Run
) -> Iterator[pa.RecordBatch]:
    """Run a view's query over the source rows to compute; yield rows of the view's table, hidden columns too."""
    relation = PickedRows(source, reads, key, todo.computed)
    result = run(over_rows(view.definition.query, _SOURCE, (SOURCE_ROW, DIGEST)), {_SOURCE: relation})
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
    """
    schema = snapshot.full_schema
    given = iter(batch.columns)
    columns = [own[field.name] if field.name in own else next(given) for field in schema]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


_NONE: Numbers = np.empty(0, dtype=np.uint64)


def _view_rows(snapshot: Snapshot) -> tuple[Numbers, Numbers, Lanes]:
    """Return of each row of a view its id, the id of the row that it was made of, and the digest of what that held."""
    own, made_of, digests = [_NONE], [_NONE], [np.empty((0, 2), dtype=np.uint64)]
    for batch in snapshot.scan([SOURCE_ROW, DIGEST], row_id=True):
        own.append(batch.column(ROW_ID).to_numpy())
        made_of.append(batch.column(SOURCE_ROW).to_numpy())
        digests.append(from_array(batch.column(DIGEST))[0])
    return np.concatenate(own), np.concatenate(made_of), np.concatenate(digests)


def _changed(
    source: Snapshot, reads: Sequence[str], key: bytes, doubtful: Sequence[int], made_of: Numbers, digests: Lanes
) -> Numbers:
    """Return the rows in some fragments whose digests are not those that the view has of them, in ascending order."""
    found = [_NONE]
    order = np.argsort(made_of, kind="stable")
    ordered = made_of[order]
    for batch in source.scan(list(reads), fragment_ids=doubtful, row_id=True) if doubtful else ():
        ids = batch.column(ROW_ID).to_numpy()
        present, _ = from_array(source_digests(batch, reads, key))
        if not len(ordered):
            found.append(ids)
            continue
        at = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        stored = digests[order[at]]
        same: npt.NDArray[np.bool_] = (ordered[at] == ids) & (stored == present).all(axis=1)
        found.append(ids[~same])
    return np.sort(np.concatenate(found))


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
