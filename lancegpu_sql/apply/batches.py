"""What goes in and what comes out, and cutting the one into calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancegpu_sql.errors import LanceGpuError, Owner


@dataclass(frozen=True)
class InputBatch:
    """Rows to compute.

    Parameters
    ----------
    arguments
        The Function's parameters as columns, in order, cast to their types.
    row_ids
        uint64, one a row: names a row in an error.
    tag
        Columns of the caller's own, one row for each; they come back beside the values.
    of_table
        Whether `row_ids` are those of a table's rows, by which its reader finds them; else they only count.
    """

    arguments: pa.RecordBatch
    row_ids: pa.Array
    tag: pa.RecordBatch
    of_table: bool = True

    @property
    def rows(self) -> int:
        """How many."""
        rows: int = self.arguments.num_rows
        return rows

    def slice(self, offset: int, rows: int) -> InputBatch:
        """Return some of the rows, without a copy."""
        return InputBatch(
            self.arguments.slice(offset, rows),
            self.row_ids.slice(offset, rows),
            self.tag.slice(offset, rows),
            self.of_table,
        )


@dataclass(frozen=True)
class RowFailure:
    """Why a row has no value.

    Parameters
    ----------
    index
        Of the row among those that came with it.
    owner
        Whose fault it is: `user` or `input`.
    error
        What would have ended the work, had it not been told to go on: `RowFailed` or `WorkerLost`.
    tries
        How often the row was tried.
    """

    index: int
    owner: Owner
    error: LanceGpuError
    tries: int


@dataclass(frozen=True)
class Computed:
    """Rows computed, in the order of the input.

    Parameters
    ----------
    tag
        As it came with the input.
    values
        The Function's results, one a row; null for those that failed.
    failed
        The rows among them that failed.
    closes_part
        Whether a part ends here: what is written down now need not be computed again. The input's last part may be
        closed by one without rows.
    seconds
        How long the Function took.
    """

    tag: pa.RecordBatch
    values: pa.Array
    closes_part: bool
    failed: tuple[RowFailure, ...] = ()
    seconds: float = 0.0


class Cutter:
    """Cuts input batches into pieces for calls. A piece spans batches, and is copied, only where these are small."""

    def __init__(self) -> None:
        self._batches: deque[InputBatch] = deque()
        self.rows = 0

    def add(self, batch: InputBatch) -> None:
        """Take one more batch."""
        if batch.rows:
            self._batches.append(batch)
            self.rows += batch.rows

    def row_bytes(self) -> float:
        """Return the bytes of one row's arguments, on average over the batch to be cut next."""
        first = self._batches[0].arguments
        average: float = first.nbytes / first.num_rows
        return average

    def cut(self, rows: int, max_bytes: int, *, more_comes: bool) -> InputBatch | None:
        """Cut off at most `rows` rows, or return None to ask for another batch first.

        What is left of a batch is taken as it is when it has at least half the rows: then calls fall in step with the
        batches, and nothing is copied.
        """
        if self.rows == 0:
            return None
        first = self._batches[0].rows
        if first * 2 >= rows:
            return self._cut_first(min(rows, first), max_bytes)
        if self.rows < rows and more_comes:
            return None
        return self._cut_first(self._join(rows), max_bytes)

    def _cut_first(self, rows: int, max_bytes: int) -> InputBatch:
        batch = self._batches.popleft()
        piece = batch.slice(0, rows)
        # The average hides a few very large rows.
        while rows > 1 and piece.arguments.nbytes > 2 * max_bytes:
            rows //= 2
            piece = batch.slice(0, rows)
        if rows < batch.rows:
            self._batches.appendleft(batch.slice(rows, batch.rows - rows))
        self.rows -= rows
        return piece

    def _join(self, rows: int) -> int:
        """Make one batch of the first ones, and return how many of `rows` it has.

        One that makes a call by itself is not split to fill another: every call after that would be put together of two.
        """
        taken: list[InputBatch] = []
        count = 0
        while self._batches and count < rows:
            batch = self._batches.popleft()
            if batch.rows > rows - count:
                if count and batch.rows <= rows:
                    self._batches.appendleft(batch)
                    break
                self._batches.appendleft(batch.slice(rows - count, batch.rows - (rows - count)))
                batch = batch.slice(0, rows - count)
            taken.append(batch)
            count += batch.rows
        self._batches.appendleft(taken[0] if len(taken) == 1 else _concat(taken))
        return count


def _concat(batches: Sequence[InputBatch]) -> InputBatch:
    return InputBatch(
        pa.concat_batches([batch.arguments for batch in batches]),
        pa.concat_arrays([batch.row_ids for batch in batches]),
        pa.concat_batches([batch.tag for batch in batches]),
        batches[0].of_table,
    )
