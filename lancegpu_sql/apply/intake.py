"""The input of an `apply`: pulled a batch at a time, by one thread at a time, and cut into pieces for calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lancegpu_sql.apply.batches import Cutter, InputBatch
from lancegpu_sql.apply.hand import Hand


class Intake:
    """What was read and has no call yet. Its caller has the lock.

    Attributes
    ----------
    pulling
        Whether some thread reads just now.
    exhausted
        Whether the input is over.
    reader
        The worker whose slot reads.
    """

    def __init__(self, inputs: Iterator[InputBatch]) -> None:
        self._inputs = inputs
        self._cutter = Cutter()
        self._more_comes = True
        self.pulling = False
        self.exhausted = False
        self.reader: Hand | None = None

    @property
    def rows(self) -> int:
        """How many rows wait for a call."""
        return self._cutter.rows

    @property
    def over(self) -> bool:
        """Whether every row has a call."""
        return self.exhausted and not self._cutter.rows

    def row_bytes(self) -> float:
        """Return the bytes of one row's arguments, on average over those to be cut next."""
        return self._cutter.row_bytes()

    def cut(self, rows: int, max_bytes: int) -> InputBatch | None:
        """Cut off at most `rows` rows, or return None where more should be read first."""
        return self._cutter.cut(rows, max_bytes, more_comes=self._more_comes)

    def pull(self, changed: threading.Condition) -> BaseException | None:
        """Read one batch, with the lock let go, for reading may take long; return what went wrong."""
        batch: InputBatch | None = None
        error: BaseException | None = None
        self.pulling = True
        changed.release()
        try:
            batch = next(self._inputs, None)
        except BaseException as exc:
            error = exc
        changed.acquire()
        self.pulling = False
        changed.notify_all()
        if error is not None:
            return error
        if batch is None:
            self.exhausted, self._more_comes = True, False
        else:
            self._more_comes = batch.rows > 0
            self._cutter.add(batch)
        return None
