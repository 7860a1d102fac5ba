"""Materialized views as Lance tables: the mark that tells them apart, and a refresh of one as a single commit."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from lancegpu_sql.errors import CommitConflict, ViewWrite
from lancegpu_sql.tables.engine import lance, lance_errors, lance_schema, until_committed
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS
from lancegpu_sql.tables.naming import HIDDEN_PREFIX, ROW_ADDRESS, ROW_ID
from lancegpu_sql.tables.publishing import JOB_PROPERTY
from lancegpu_sql.tables.reading import latest_held
from lancegpu_sql.tables.uncommitted import Numbers, UncommittedFragments, offsets_by_fragment

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

VIEW_KEY = "lancegpu:view"
"""Under which a view's definition stands in its schema's metadata."""
STATE_KEY = "lancegpu:view_state"
"""Under which stands what its rows were made of. It is committed with them, so that neither goes without the other."""
SOURCE_ROW = f"{HIDDEN_PREFIX}source_row"
ORDINAL = f"{HIDDEN_PREFIX}ordinal"
DIGEST = f"{HIDDEN_PREFIX}digest"

_FRAGMENT_BYTES = 64 << 20


def view_text(schema: pa.Schema, key: str = VIEW_KEY) -> str | None:
    """Return a view's definition, or its state, as it is stored; None for a table that is no view."""
    text: bytes | None = (schema.metadata or {}).get(key.encode())
    return None if text is None else text.decode()


def refuse_view(snapshot: Snapshot) -> None:
    """Raise ViewWrite for a table that is a materialized view: only a refresh writes to it."""
    if view_text(snapshot.full_schema) is not None:
        raise ViewWrite(
            f"{snapshot.name!r} is a materialized view: its rows come from its query, by REFRESH MATERIALIZED VIEW "
            f"{snapshot.name}. Change the tables that it reads, or drop it with DROP MATERIALIZED VIEW {snapshot.name}.",
            view=snapshot.name,
        )


class ViewChanges:
    """Collects the rows that a refresh adds and removes, then makes them one version; removes what was not committed.

    Memory: about 64 MB of rows at a time, and 8 bytes for each row removed.

    Parameters
    ----------
    snapshot
        The version of the view that the refresh is based on.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._base = view_text(snapshot.full_schema, STATE_KEY)
        self._deleted: list[Numbers] = []
        self._deleted_at: list[Numbers] = []
        self._pending: list[pa.RecordBatch] = []
        self._fragments = UncommittedFragments(snapshot)
        self.rows_added = 0

    @property
    def rows_removed(self) -> int:
        """How many rows go."""
        return sum(map(len, self._deleted))

    def delete(self, ids: Numbers, addresses: Numbers) -> None:
        """Remove rows by their ids, and their addresses in the version that this is based on; each may be named once."""
        self._deleted.append(ids)
        self._deleted_at.append(addresses)

    def insert(self, rows: pa.RecordBatch) -> None:
        """Add rows, of exactly the view's columns, hidden ones too."""
        if not rows.num_rows:
            return
        self.rows_added += rows.num_rows
        self._pending.append(rows)
        waiting = sum(one.num_rows for one in self._pending), sum(one.nbytes for one in self._pending)
        if waiting[0] >= FRAGMENT_ROWS or waiting[1] >= _FRAGMENT_BYTES:
            self._write()

    def commit(self, metadata: Mapping[str, str], *, job_id: str) -> Snapshot:
        """Make it one version, with this in the schema's metadata.

        Compaction meanwhile does no harm: rows are known by their ids.

        Raises
        ------
        CommitConflict
            Another refresh was first, or somebody else wrote to the view; nothing was done.
        """
        self._write()

        def attempt() -> Snapshot | None:
            latest = self._snapshot.latest()
            if view_text(latest.full_schema, STATE_KEY) != self._base:
                return None
            return self._fragments.commit(latest, self._operation(latest, metadata), {JOB_PROPERTY: job_id})

        with latest_held(self._snapshot):
            done = until_committed(attempt)
        if done is None:
            name = self._snapshot.name
            raise CommitConflict(f"View {name!r} was refreshed by somebody else meanwhile. Try again.", table=name)
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fragments.remove()

    def _write(self) -> None:
        if not self._pending:
            return
        table, self._pending = pa.Table.from_batches(self._pending), []
        self._fragments.write(table, self._snapshot.full_schema)

    def _operation(self, latest: Snapshot, metadata: Mapping[str, str]) -> Any:
        """An operation of Lance's that takes fragments and metadata at once."""
        known = {key.decode(): value.decode() for key, value in (latest.full_schema.metadata or {}).items()}
        schema = latest.full_schema.with_metadata(known | dict(metadata))
        present, left = self._left(latest)
        if not any(left.values()):
            return lance.LanceOperation.Overwrite(schema, self._fragments.fragments)
        # Lance numbers new fragments itself, but takes one with the number of a present one for that. It wants all of
        # these again: one without rows stays until the table is compacted.
        for number, fragment in enumerate(self._fragments.fragments, start=max(left) + 1):
            fragment.id = number
        kept = [one or self._emptied(latest, present[number]) for number, one in left.items()]
        return lance.LanceOperation.Merge(
            [*kept, *self._fragments.fragments], lance_schema.LanceSchema.from_pyarrow(schema)
        )

    def _left(self, latest: Snapshot) -> tuple[dict[int, Any], dict[int, Any]]:
        """The fragments by number, as they are and without the rows that go; None for one that has none then."""
        fragments = {one.fragment_id: one for one in latest.dataset.get_fragments()}
        present = {number: one.metadata for number, one in fragments.items()}
        left = {number: one if one.num_rows else None for number, one in present.items()}
        for number, offsets in offsets_by_fragment(np.sort(self._going(latest))):
            with lance_errors(latest.name):
                left[number] = fragments[number].delete_rows(offsets)
        return present, left

    def _going(self, latest: Snapshot) -> Numbers:
        """Where the rows stand that go; one that is gone stands nowhere."""
        if latest.version == self._snapshot.version:
            return np.concatenate([_NONE, *self._deleted_at])
        return _addresses(latest, np.concatenate([_NONE, *self._deleted]))

    def _emptied(self, latest: Snapshot, fragment: Any) -> Any:
        """A fragment of which every row is deleted, which Lance makes of none."""
        if not fragment.num_rows:
            return fragment
        rows = fragment.physical_rows
        file = lance.fragment.DeletionFile(latest.version, secrets.randbits(63), "array", rows, None)
        schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(pa.table([pa.array(np.arange(rows, dtype=np.uint32))], schema=schema))
        with lance_errors(latest.name):
            latest.files.write(file.path(fragment.id), sink.getvalue().to_pybytes())
        fragment.deletion_file = file
        return fragment


_NONE: Numbers = np.empty(0, dtype=np.uint64)


def _addresses(latest: Snapshot, ids: Numbers) -> Numbers:
    """Where rows stand; one that is gone stands nowhere."""
    wanted = np.sort(ids)
    found = [_NONE]
    if not len(ids):
        return _NONE
    for batch in latest.scan([], row_id=True, row_address=True):
        numbers = batch.column(ROW_ID).to_numpy()
        at = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
        found.append(batch.column(ROW_ADDRESS).to_numpy()[wanted[at] == numbers])
    return np.concatenate(found)
