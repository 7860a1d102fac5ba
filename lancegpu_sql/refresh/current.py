"""Which rows of a computed column are current: by the files alone where that is proven, else by their digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import Lanes, from_array, is_failed, row_digests, same
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import InvalidData, StaleInput
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.functions.casts import lossless_cast
from lancegpu_sql.refresh.target import Target, declared_function, find_target
from lancegpu_sql.tables import Fragment, Snapshot

Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowCounts:
    """How many live rows of a column are in which state."""

    fresh: int = 0
    stale: int = 0
    failed: int = 0
    never: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            self.fresh + other.fresh, self.stale + other.stale, self.failed + other.failed, self.never + other.never
        )

    @property
    def remaining(self) -> int:
        """Rows without a current value."""
        return self.out_of_date + self.failed

    @property
    def out_of_date(self) -> int:
        """Rows that the next refresh computes."""
        return self.stale + self.never


@dataclass(frozen=True)
class RowStates:
    """The state of each row of a batch; every row is in exactly one."""

    fresh: Rows
    failed: Rows
    never: Rows

    @property
    def stale(self) -> Rows:
        """Computed once, from inputs or by a Function version that are not the present ones."""
        return ~(self.fresh | self.failed | self.never)

    def counts(self) -> RowCounts:
        """Return how many rows are in each state."""
        return RowCounts(*(int(np.count_nonzero(rows)) for rows in (self.fresh, self.stale, self.failed, self.never)))


def states(stored: pa.Array, present: Lanes) -> RowStates:
    """Compare stored digests (nulls: never computed) with those of the rows' present inputs."""
    lanes, known = from_array(stored)
    unchanged = known & same(lanes, present)
    failed = unchanged & is_failed(lanes)
    return RowStates(fresh=unchanged & ~failed, failed=failed, never=~known)


class Arguments:
    """Turns a batch of a table's columns into a batch of a Function's arguments."""

    def __init__(self, target: Target, function: FunctionVersion) -> None:
        types = {parameter.name: parse_type(parameter.type) for parameter in function.parameters}
        self._inputs = target.inputs
        self._schema = pa.schema([(name, types[name]) for name in target.parameters])

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch's input columns under the parameters' names, in the parameters' types."""
        columns = [
            self._cast(batch.column(name), name, field) for name, field in zip(self._inputs, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cast(self, column: pa.Array, name: str, field: pa.Field) -> pa.Array:
        try:
            return lossless_cast(column, field.type)
        except pa.ArrowInvalid as exc:
            raise InvalidData(
                f"column {name!r} holds a value that does not fit parameter {field.name!r} of type {field.type}: {exc}",
                column=name,
            ) from exc


def unproven(snapshot: Snapshot, target: Target, catalog: Catalog) -> list[Fragment]:
    """Return the fragments whose files do not prove that all their rows are current; reads no data."""
    proven = catalog.proven(target.proof_key)
    return [
        fragment
        for fragment in sorted(snapshot.fragments, key=lambda fragment: fragment.id)
        if fragment.live_rows and not target.is_proven(fragment, proven)
    ]


def count_rows(snapshot: Snapshot, target: Target, catalog: Catalog) -> RowCounts:
    """Count a column's rows by state, reading only fragments that their files do not prove.

    A fragment found current all through is noted, so that it need not be read again.
    """
    doubtful = unproven(snapshot, target, catalog)
    proven_rows = sum(fragment.live_rows for fragment in snapshot.fragments) - sum(
        fragment.live_rows for fragment in doubtful
    )
    counts = RowCounts(fresh=proven_rows)
    if not doubtful:
        return counts
    function = declared_function(catalog, target.table, target.declaration)
    arguments = Arguments(target, function)
    columns = [*dict.fromkeys(target.inputs), target.proof_column]
    for fragment in doubtful:
        found = RowCounts()
        for batch in snapshot.scan(columns, fragment_ids=[fragment.id]):
            present = row_digests(arguments.of(batch), target.key)
            found += states(batch.column(target.proof_column), present).counts()
        if not found.remaining:
            catalog.add_proofs(target.proof_key, [target.proof(fragment)])
        counts += found
    return counts


def failed_rows(snapshot: Snapshot, target: Target, catalog: Catalog) -> Iterator[tuple[npt.NDArray[np.uint64], Lanes]]:
    """Yield the ids of a column's rows that are failed now, and the digests of what they failed with."""
    doubtful = [fragment.id for fragment in unproven(snapshot, target, catalog)]
    if not doubtful:
        return
    arguments = Arguments(target, declared_function(catalog, target.table, target.declaration))
    columns = [*dict.fromkeys(target.inputs), target.proof_column]
    for batch in snapshot.scan(columns, fragment_ids=doubtful, row_id=True):
        present = row_digests(arguments.of(batch), target.key)
        failed = states(batch.column(target.proof_column), present).failed
        if failed.any():
            yield batch.column("_rowid").to_numpy()[failed], present[failed]


def require_current(snapshot: Snapshot, columns: Iterable[str], catalog: Catalog, *, wanted_by: str) -> None:
    """Refuse to compute from computed columns that are out of date; a row that failed there is null, and that is its value.

    Raises
    ------
    StaleInput
        Naming the columns to refresh first.
    """
    computed = {column.column for column in snapshot.computed}
    behind = {
        name: remaining
        for name in dict.fromkeys(columns)
        if name in computed and (remaining := count_rows(snapshot, find_target(snapshot, name), catalog).out_of_date)
    }
    if behind:
        told = " and ".join(
            f"{name} ({rows:,} row{' is' if rows == 1 else 's are'} not current)" for name, rows in behind.items()
        )
        raise StaleInput(
            f"{wanted_by} reads {told} of table {snapshot.name!r}; refresh {', '.join(behind)} first. Nothing was written",
            table=snapshot.name,
            columns=tuple(behind),
        )
