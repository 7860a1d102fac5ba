"""Rows of one version updated, deleted and inserted, all in one commit: what a statement of SQL comes to.

An updated row is written whole to a new fragment and keeps its row id, as Lance's own update does it. What a computed
column held goes with it, beside the digest of the inputs it was computed from, so that the next refresh sees whether it is
still current. The commit is built on the version that was read: where another writer changed, moved or removed rows of the
same fragments since, it is refused, and the statement must be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.changes import Change
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.fitting import fit_column, refuse_computed
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS
from lancegpu_sql.tables.naming import ROW_ID, is_blob
from lancegpu_sql.tables.reading import Reading
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.uncommitted import Numbers, UncommittedFragments, offsets_by_fragment
from lancegpu_sql.tables.views import refuse_view
from lancegpu_sql.tables.windows import FIRST_ROWS, WINDOW_BYTES

_NO_NUMBERS: Numbers = np.empty(0, dtype=np.uint64)


class RowChanges:
    """Collects changes of rows, then commits them at once; a context manager that removes what was not committed.

    Memory: about 64 MB of rows at a time, and 16 bytes for each row updated or deleted.

    Parameters
    ----------
    snapshot
        The version whose rows are changed, by their ids and addresses in it.

    Raises
    ------
    ViewWrite
        It is a materialized view.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        refuse_view(snapshot)
        self._snapshot = snapshot
        self._reading = Reading(snapshot)
        self._updated: list[Numbers] = []
        self._deleted: list[Numbers] = []
        self._inserted_rows = 0
        self._fragments = UncommittedFragments(snapshot)
        self._rows_per_read = FIRST_ROWS
        self._pending: list[tuple[pa.Table, Numbers]] = []
        self._pending_inserts: list[pa.Table] = []

    def update(self, ids: Numbers, addresses: Numbers, values: pa.RecordBatch) -> None:
        """Give rows other values in some columns.

        Raises
        ------
        InvalidData, ComputedColumnWrite, ColumnNotFound
        """
        self._updated.append(addresses)
        fitted = self._fitted(values)
        start = 0
        while start < len(ids):
            rows = slice(start, start + self._rows_per_read)
            whole = self._whole_rows(ids[rows])
            for name, column in zip(fitted.schema.names, fitted.columns, strict=True):
                at = whole.schema.names.index(name)
                whole = whole.set_column(at, fitted.schema.field(name), column[start : start + whole.num_rows])
            self._pending.append((whole, ids[rows]))
            self._write_updates(unless_small=True)
            start += self._rows_per_read
            if whole.nbytes:
                self._rows_per_read = max(
                    1, min(FRAGMENT_ROWS, WINDOW_BYTES * whole.num_rows // whole.nbytes, self._rows_per_read * 16)
                )

    def delete(self, addresses: Numbers) -> None:
        """Remove rows; one that is named twice is removed once."""
        self._deleted.append(addresses)

    def insert(self, rows: pa.RecordBatch) -> None:
        """Add rows; columns that are left out are null.

        Raises
        ------
        InvalidData, ComputedColumnWrite, ColumnNotFound
        """
        if rows.num_rows:
            self._check_complete(rows.schema)
            self._inserted_rows += rows.num_rows
            self._pending_inserts.append(pa.Table.from_batches([self._fitted(rows)]))
            self._write_inserts(unless_small=True)

    def commit(self) -> Change:
        """Make all of it one new version.

        Raises
        ------
        CommitConflict
            Another writer was at the same rows; nothing was done.
        InvalidData
            A row is updated twice, or updated and deleted.
        """
        self._write_updates()
        self._write_inserts()
        updated = np.concatenate([_NO_NUMBERS, *self._updated])
        deleted = _distinct(np.concatenate([_NO_NUMBERS, *self._deleted]))
        touched = _distinct(np.concatenate([updated, deleted]))
        if len(touched) < len(updated) + len(deleted):
            raise self._twice()
        change = Change(self._snapshot, self._inserted_rows, len(updated), len(deleted))
        if not len(touched) and not self._inserted_rows:
            return change
        operation = self._operation(touched)
        done = self._fragments.commit(self._snapshot, operation, {})
        return Change(done, change.rows_inserted, change.rows_updated, change.rows_deleted)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fragments.remove()
        self._reading.close()

    def _whole_rows(self, ids: Numbers) -> pa.Table:
        """Rows by their ids, in that order, hidden columns included."""
        names, dataset = self._snapshot.full_schema.names, self._snapshot.dataset
        with lance_errors(self._snapshot.name):
            if not any(map(is_blob, self._snapshot.full_schema)):
                # Private, and the only way to rows by their ids that keeps their order.
                return dataset._take_rows(ids.tolist(), names)  # noqa: SLF001
            # Blobs are handed out by a scan only.
            found = dataset.scanner(
                columns=[*names, ROW_ID],
                filter=f"{ROW_ID} IN ({', '.join(map(str, ids.tolist()))})",
                blob_handling="all_binary",
            ).to_table()
        numbers = found.column(ROW_ID).to_numpy()
        order = np.argsort(numbers)
        table: pa.Table = found.select(names).take(pa.array(order[np.searchsorted(numbers[order], ids)]))
        for at, field in enumerate(self._snapshot.full_schema):
            if isinstance(field.type, pa.BaseExtensionType) and is_blob(field):
                table = table.set_column(at, field, lance.blob_array(table.column(at).to_pylist()))
        return table

    def _operation(self, touched: Numbers) -> Any:
        """The Lance operation: fragments lose the rows that go or moved, and new ones hold those that came or moved."""
        changed, emptied = [], []
        for fragment_id, offsets in offsets_by_fragment(touched):
            with lance_errors(self._snapshot.name):
                left = self._snapshot.dataset.get_fragment(fragment_id).delete_rows(offsets)
            if left is None:
                emptied.append(fragment_id)
            else:
                changed.append(left)
        return lance.LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=changed,
            new_fragments=self._fragments.fragments,
            update_mode="rewrite_rows",
        )

    def _write_updates(self, *, unless_small: bool = False) -> None:
        if not self._pending or (unless_small and _is_small([table for table, _ in self._pending])):
            return
        ids = np.concatenate([numbers for _, numbers in self._pending])
        table = pa.concat_tables([table for table, _ in self._pending])
        self._pending = []
        if len(_distinct(ids)) < len(ids):
            raise self._twice()
        written = self._written(table)
        if not self._snapshot.has_stable_row_ids:
            return
        start = 0
        for fragment in written:
            own = ids[start : start + fragment.physical_rows].tolist()
            fragment.row_id_meta = lance.fragment.RowIdSequence(own).to_inline_metadata()
            start += fragment.physical_rows

    def _write_inserts(self, *, unless_small: bool = False) -> None:
        if self._pending_inserts and not (unless_small and _is_small(self._pending_inserts)):
            table, self._pending_inserts = pa.concat_tables(self._pending_inserts), []
            self._written(table)

    def _twice(self) -> InvalidData:
        return InvalidData(
            f"A row of table {self._snapshot.name!r} would be changed twice: more than one row of the source matches it.",
            table=self._snapshot.name,
        )

    def _written(self, table: pa.Table) -> list[Any]:
        schema = pa.schema([self._snapshot.full_schema.field(name) for name in table.schema.names])
        return self._fragments.write(table, schema)

    def _fitted(self, values: pa.RecordBatch) -> pa.RecordBatch:
        """The values in the table's types."""
        refuse_computed(self._snapshot, values.schema.names)
        fields = [self._snapshot.full_schema.field(name) for name in values.schema.names]
        columns = []
        for field, column in zip(fields, values.columns, strict=True):
            if not field.nullable and column.null_count:
                raise InvalidData(
                    f"Table {self._snapshot.name!r}: column {field.name!r} cannot be null.",
                    table=self._snapshot.name,
                    column=field.name,
                )
            columns.append(fit_column(self._snapshot, field, column))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _check_complete(self, given: pa.Schema) -> None:
        missing = [one.name for one in self._snapshot.schema if not one.nullable and one.name not in given.names]
        if missing:
            raise InvalidData(
                f"Table {self._snapshot.name!r}: column {missing[0]!r} cannot be null, and the rows lack it.",
                table=self._snapshot.name,
                column=missing[0],
            )


def _distinct(numbers: Numbers) -> Numbers:
    """The numbers in their order, each once; numpy's own `unique` takes ten times as long for a million."""
    ordered = np.sort(numbers)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _is_small(tables: Sequence[pa.Table]) -> bool:
    """Whether these tables together are not yet worth a fragment."""
    size_bytes, rows = sum(table.nbytes for table in tables), sum(table.num_rows for table in tables)
    return bool(size_bytes < WINDOW_BYTES and rows < FRAGMENT_ROWS)
