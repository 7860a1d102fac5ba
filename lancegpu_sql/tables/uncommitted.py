"""Fragments that no version has yet, and row addresses taken apart by fragment: what changes of single rows are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.errors import StorageError
from lancegpu_sql.tables.column_file import data_path
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS
from lancegpu_sql.tables.publishing import commit

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

Numbers = npt.NDArray[np.uint64]
"""Row ids or row addresses."""

# A row's address is the number of its fragment, then its place in that.
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


class UncommittedFragments:
    """Writes fragments for a table, and removes the files of those that were not committed.

    Attributes
    ----------
    fragments
        Those written and not committed, in Lance's form.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.fragments: list[Any] = []

    def write(self, rows: pa.Table, schema: pa.Schema) -> list[Any]:
        """Write rows, as this schema has them, and return the fragments that they take.

        Raises
        ------
        StorageError
        """
        with lance_errors(self._snapshot.name):
            written: list[Any] = lance.fragment.write_fragments(
                rows.cast(schema), self._snapshot.dataset, schema, max_rows_per_file=FRAGMENT_ROWS
            )
        self.fragments += written
        return written

    def commit(self, latest: Snapshot, operation: Any, properties: dict[str, str]) -> Snapshot:
        """Commit an operation that adds them; see `publishing.commit`.

        Raises
        ------
        CommitConflict, StorageError
        """
        try:
            done = commit(latest, operation, properties)
        except StorageError:
            if not latest.files.tell_outcomes:
                # The version may be there, and its files must be; those of none go with Lance's clean-up.
                self.fragments = []
            raise
        self.fragments = []
        return done

    def remove(self) -> None:
        """Remove the files of those that belong to no version."""
        self._snapshot.files.remove(data_path(file.path) for one in self.fragments for file in one.files)


def offsets_by_fragment(addresses: Numbers) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of each fragment that has some of the rows, and their places in it; `addresses` are ascending."""
    if not len(addresses):
        return
    borders = np.flatnonzero(np.diff(addresses >> _OFFSET_BITS)) + 1
    for run in np.split(addresses, borders):
        yield int(run[0] >> _OFFSET_BITS), (run & _OFFSET_MASK).tolist()
