"""Publishes computed rows: whole column files, with the digests that prove the values, in one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.refresh.assemble import AddressedRows, column_batches
from lancegpu_sql.refresh.checkpoint import Part
from lancegpu_sql.refresh.target import Target
from lancegpu_sql.tables import ColumnFile, Fragment, Snapshot, TableStore
from lancegpu_sql.tables.column_file import discard

_FRAGMENT_BITS = np.uint64(32)


def rows_by_fragment(addresses: npt.NDArray[np.uint64]) -> Counter[int]:
    """Count row addresses by the fragment they point into."""
    ids, counts = np.unique(addresses >> _FRAGMENT_BITS, return_counts=True)
    return Counter(dict(zip(ids.tolist(), counts.tolist(), strict=True)))


@dataclass
class Unpublished:
    """Finished parts that no reader sees yet, and how many of their rows stand in which fragment."""

    computed: list[Part] = field(default_factory=list)
    adopted: list[Part] = field(default_factory=list)
    rows: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)

    def count(self, addresses: pa.Array, failed: Sequence[int] = ()) -> None:
        """Count rows just computed by the fragment they stand in; those at the indices `failed` have no value."""
        places = addresses.to_numpy()
        self.rows.update(rows_by_fragment(places))
        if failed:
            self.failed.update(rows_by_fragment(places[list(failed)]))

    def adopt(self, parts: Sequence[Part], rows: Counter[int]) -> None:
        """Add rows that an earlier, interrupted refresh had computed."""
        self.adopted.extend(parts)
        self.rows.update(rows)


@dataclass(frozen=True)
class Published:
    """What one publication brought: what readers see now, rows by fragment, and fragments that changed under it."""

    snapshot: Snapshot
    rows: dict[int, int]
    lost: tuple[int, ...]


def publish(
    tables: TableStore,
    planned: Snapshot,
    target: Target,
    waiting: Unpublished,
    signatures: Mapping[int, bytes],
    *,
    job_id: str,
) -> Published:
    """Write a column file for each fragment that has computed rows, and commit them together.

    A fragment whose place, rows, inputs or values changed is lost, not overwritten: its rows are found again by the next
    pass, in their parts.

    Parameters
    ----------
    planned
        The version whose rows were computed.
    signatures
        By fragment, `Target.signature` as it was in `planned`, or as this refresh's last publication made it.
    """
    latest = tables.open(target.table)
    present = {fragment.id: fragment for fragment in latest.fragments}
    before = {fragment.id: fragment for fragment in planned.fragments}
    computed = AddressedRows(waiting.computed, waiting.adopted)

    def unchanged(fragment: Fragment) -> bool:
        old = before[fragment.id]
        same_files = target.signature(fragment) == signatures[fragment.id]
        return same_files and fragment.physical_rows == old.physical_rows

    files: list[ColumnFile] = []
    for fragment_id in sorted(waiting.rows):
        fragment = present.get(fragment_id)
        if fragment is not None and unchanged(fragment):
            # Deleted rows were computed, too: the rows that are left do not tell whether all were.
            whole = waiting.rows[fragment_id] >= max(before[fragment_id].live_rows, fragment.live_rows)
            files.append(_write(latest, target, fragment, computed, whole=whole))
    publication = latest.publish(files, job_id=job_id, guard=unchanged)
    discard(latest, [file for file in files if file.fragment_id in publication.lost])
    shown = tables.open(target.table, publication.version)
    # Lance carries a commit over one that replaced an input's file after the guard had looked: such values are published
    # beside digests that tell on them, and must not be taken for current.
    kept = {
        fragment.id: waiting.rows[fragment.id]
        for fragment in shown.fragments
        if fragment.id in publication.published
        and target.input_signature(fragment) == target.input_signature(before[fragment.id])
    }
    return Published(
        snapshot=shown,
        rows=kept,
        lost=tuple(sorted(waiting.rows.keys() - kept.keys())),
    )


def _write(
    snapshot: Snapshot, target: Target, fragment: Fragment, computed: AddressedRows, *, whole: bool
) -> ColumnFile:
    schema = target.file_schema
    stored = None if whole else snapshot.read_physical(fragment.id, schema.names)
    batches = column_batches(fragment.id, fragment.physical_rows, schema, computed, stored)
    return snapshot.write_column_file(fragment.id, schema, batches)
