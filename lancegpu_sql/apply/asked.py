"""Rows asked for at once, and their values."""

from __future__ import annotations

import threading

import pyarrow as pa


class Asked:
    """Rows that a Function is to be applied to, and their values when these are there; `left` of them have none yet.

    Parameters
    ----------
    arguments
        The Function's parameters as columns; let go when the values are there.
    first_row
        The number of the first row among all that were asked for.
    marked
        Whether values are to be structs of ``value`` and ``failed``.
    """

    def __init__(self, arguments: pa.RecordBatch, first_row: int, *, marked: bool) -> None:
        self.arguments: pa.RecordBatch | None = arguments
        self.rows: int = arguments.num_rows
        self.first_row = first_row
        self._marked = marked
        self.left: int = self.rows
        self._pieces: list[pa.Array] = []
        self._error: BaseException | None = None
        self._over = threading.Event()

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._over.is_set()

    @property
    def nbytes(self) -> int | None:
        """The size of the values; None where there are none."""
        return sum(piece.nbytes for piece in self._pieces) if self.done and self._error is None else None

    def so_far(self) -> pa.Array | None:
        """Return the values of the first rows, as many as are there; None where none are."""
        pieces = list(self._pieces)
        return pa.concat_arrays(pieces) if pieces else None

    def take(self, values: pa.Array) -> None:
        """Take the next rows' values."""
        self._keep(values, failed=False)

    def take_failed(self, value_type: pa.DataType) -> None:
        """The next row failed: its value is null."""
        self._keep(pa.nulls(1, value_type), failed=True)

    def fail(self, error: BaseException) -> None:
        """There will be no values."""
        if not self.done:
            self._error = error
            self._end()

    def result(self) -> pa.Array:
        """Return the values; blocks until they are there. Raises what made them impossible."""
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._pieces[0]

    def _keep(self, values: pa.Array, *, failed: bool) -> None:
        rows = len(values)
        if self._marked:
            marks = pa.repeat(pa.scalar(failed), rows)
            values = pa.StructArray.from_arrays([values, marks], names=["value", "failed"])
        self._pieces.append(values)
        self.left -= rows
        if not self.left:
            self._end()

    def _end(self) -> None:
        if len(self._pieces) > 1:
            self._pieces = [pa.concat_arrays(self._pieces)]
        self.arguments = None
        self._over.set()


def no_rows(value_type: pa.DataType, *, marked: bool) -> Asked:
    """Return what was asked for no rows, which is there at once."""
    asked = Asked(pa.record_batch({}), 0, marked=marked)
    asked.take(pa.nulls(0, value_type))
    return asked
