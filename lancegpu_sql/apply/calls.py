"""A Function fed with rows by whoever has some, as a query does: `apply` turned inside out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

from lancegpu_sql.apply.asked import Asked, no_rows
from lancegpu_sql.apply.batches import Computed, InputBatch, RowFailure
from lancegpu_sql.apply.key_table import Numbers
from lancegpu_sql.apply.memo import Found, Memo
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.run import apply
from lancegpu_sql.apply.watch import ApplyWatch
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.workers.need import WorkerNeed
from lancegpu_sql.workers.pool import WorkerPool

OnError = Literal["raise", "null"]

_LOOK_SECONDS = 0.1
"""How often a cancellation is looked for while nobody brings rows."""


@dataclass(frozen=True)
class Pending:
    """The values of rows that were submitted."""

    _found: Found
    _marked: bool

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._found.done

    def result(self) -> pa.Array:
        """Return the Function's values, one a row in order; blocks until they are there.

        Raises
        ------
        RowFailed, WrongResult, CallTimeout, LoadFailed, LoadTimeout, WorkerLost, Cancelled
            As of `apply`.
        """
        values = self._found.gather()
        return values.field(0) if self._marked else values

    def failed(self) -> pa.Array:
        """Return which rows failed, their values being null; blocks until that is known."""
        values = self._found.gather()
        return values.field(1) if self._marked else pa.repeat(pa.scalar(False), len(values))

    def so_far(self) -> tuple[Numbers, pa.Array] | None:
        """Return which rows have values by now, whatever becomes of the others, and these; None where none have."""
        found = self._found.so_far()
        if found is None or not self._marked:
            return found
        rows, values = found
        good = ~values.field(1).to_numpy(zero_copy_only=False)
        return rows[good], values.field(0).filter(pa.array(good))


class Calls:
    """One Function, applied to whatever rows are submitted; several threads may submit at once.

    A worker is asked for with the first rows, and given back by `close`. Rows are sent as soon as they come, many at a
    time where many wait. After a failure every submitted row fails with it.

    Parameters
    ----------
    need, pool, options, watch, cancelled
        As of `apply`. Rows that wait to be sent are bounded by `options.outstanding_bytes`.
    value_type
        The Function's.
    memo
        Where values are shared between equal arguments; None computes each row for itself.
    on_error
        Whether a row that fails ends the work or has a null for its value: the error policies of `apply`.
    told
        With nulls: told of each row that fails, by the arguments of it alone, before its value is given back.
    """

    def __init__(
        self,
        need: WorkerNeed,
        pool: WorkerPool,
        options: ApplyOptions,
        *,
        value_type: pa.DataType,
        watch: ApplyWatch,
        cancelled: threading.Event,
        memo: Memo | None,
        on_error: OnError = "raise",
        told: Callable[[pa.RecordBatch, RowFailure], None] | None = None,
    ) -> None:
        self._told = told
        self._need = need
        self._pool = pool
        policy: Literal["skip", "fail"] = "skip" if on_error == "null" else "fail"
        self._options = replace(
            options, error_policy=policy, max_part_rows=None
        )  # values are kept row by row, if at all
        self._value_type = value_type
        self._watch = watch
        self._memo = memo
        self._marked = on_error == "null"
        self._stop = _Either(cancelled)
        self._changed = threading.Condition()
        self._open: deque[Asked] = deque()
        self._unsent: deque[Asked] = deque()
        self._unsent_bytes = 0
        self._rows = 0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def submit(self, arguments: pa.RecordBatch) -> Pending:
        """Ask for the values of some rows; returns before they are there.

        Blocks only while too many rows wait to be sent.

        Parameters
        ----------
        arguments
            The Function's parameters as columns, in order, of exactly their types.

        Raises
        ------
        RowFailed, WrongResult, CallTimeout, LoadFailed, LoadTimeout, WorkerLost, Cancelled
            The work has ended already, by this.
        """
        if not arguments.num_rows:
            return Pending(Found((no_rows(self._value_type, marked=self._marked),)), self._marked)
        if self._memo is None:
            asked = self._ask(arguments)
            return Pending(Found((asked,)), self._marked)
        return Pending(self._memo.find(arguments, self._ask), self._marked)

    def close(self) -> None:
        """End the work and give the worker back. May be called from any thread, any number of times."""
        self._stop.set()
        with self._changed:
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _ask(self, arguments: pa.RecordBatch) -> Asked:
        with self._changed:
            while self._unsent_bytes > self._options.outstanding_bytes and not self._over:
                self._changed.wait(_LOOK_SECONDS)
            if self._over:
                raise self._error or self._stopped()
            asked = Asked(arguments, self._rows, marked=self._marked)
            self._rows += asked.rows
            self._open.append(asked)
            self._unsent.append(asked)
            self._unsent_bytes += _bytes(asked)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="apply-calls", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return asked

    @property
    def _over(self) -> bool:
        return self._error is not None or self._stop.is_set()

    def _stopped(self) -> Cancelled:
        return Cancelled(f"{self._need.load.function} was stopped")

    # The thread that applies.

    def _run(self) -> None:
        error: BaseException = self._stopped()
        try:
            for computed in apply(
                self._inputs(), self._need, self._pool, self._options, watch=self._watch, cancelled=self._stop
            ):
                self._hand_out(computed)
        except BaseException as exc:
            error = exc
        with self._changed:
            self._error = error
            left = tuple(self._open)
            self._open.clear()
            self._unsent.clear()
            self._changed.notify_all()
        for asked in left:
            asked.fail(error)
        if self._memo is not None:
            self._memo.settle()

    def _hand_out(self, computed: Computed) -> None:
        failed = {failure.index: failure for failure in computed.failed}
        if self._memo is not None:
            self._memo.took(len(computed.values), computed.seconds)
        at = 0
        with self._changed:
            while at < len(computed.values):
                asked = self._open[0]
                if at in failed:
                    self._tell(asked, failed[at])
                    asked.take_failed(self._value_type)
                    at += 1
                else:
                    until = min([at + asked.left, len(computed.values), *(one for one in failed if one > at)])
                    asked.take(computed.values.slice(at, until - at))
                    at = until
                self._drop_done()

    def _tell(self, asked: Asked, failure: RowFailure) -> None:
        """Tell of the next row of some that it failed."""
        if self._told is not None and asked.arguments is not None:
            self._told(asked.arguments.slice(asked.rows - asked.left, 1), failure)

    def _drop_done(self) -> None:
        while self._open and self._open[0].done:
            self._open.popleft()

    # The rows, pulled by `apply`.

    def _inputs(self) -> Iterator[InputBatch]:
        """Yield what is submitted, as long as something may come."""
        begun, all_sent = False, True
        while not self._stop.is_set():
            batch = self._next_batch(wait=all_sent)
            if batch is not None:
                begun, all_sent = True, False
                yield batch
            elif begun:  # before that no worker is needed
                all_sent = True
                yield _nothing_yet()

    def _next_batch(self, *, wait: bool) -> InputBatch | None:
        """Return rows that have not been sent, or None where there are none, at once or after a moment."""
        with self._changed:
            if wait and not self._unsent:
                self._changed.wait(_LOOK_SECONDS)
            if not self._unsent:
                return None
            asked = self._unsent.popleft()
            arguments = asked.arguments
            assert arguments is not None  # it is not done
            self._unsent_bytes -= _bytes(asked)
            self._changed.notify_all()
        return _batch(arguments, asked.first_row)


class _Either(threading.Event):
    """Set when it is, or when another one is."""

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def _batch(arguments: pa.RecordBatch, first_row: int) -> InputBatch:
    rows = pa.array(np.arange(first_row, first_row + arguments.num_rows, dtype=np.uint64))
    return InputBatch(arguments, rows, pa.record_batch([rows], names=["row"]), of_table=False)


@cache
def _nothing_yet() -> InputBatch:
    """Not made at import: the first array that pyarrow makes of Python's values brings pandas, where that is installed."""
    return _batch(pa.record_batch({}), 0)


def _bytes(asked: Asked) -> int:
    return 0 if asked.arguments is None else int(asked.arguments.nbytes)
