"""What a query needs of whoever keeps the Functions: which there are, and a run of them for each reading of a result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import pyarrow as pa

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.tables.snapshot import Snapshot

OnError = Literal["raise", "null"]


class Values(Protocol):
    """The values of rows that were handed to a Function; `lancegpu_sql.apply.calls.Pending` is one."""

    @property
    def done(self) -> bool:
        """Whether they are there, or will never be."""

    def result(self) -> pa.Array:
        """Return one value a row, in order; blocks until they are there."""

    def failed(self) -> pa.Array:
        """Return which rows failed, whose value is null where ``on_error="null"`` was asked for."""


class FunctionCalls(Protocol):
    """One Function, fed with rows; `lancegpu_sql.apply.calls.Calls` is one."""

    def submit(self, arguments: pa.RecordBatch) -> Values:
        """Ask for the values of some rows; any thread may."""

    def close(self) -> None:
        """End the work at once."""


class QueryRun(Protocol):
    """One reading of a result, from the first call of a Function to the end. It is a job from its first worker on."""

    @property
    def cancelled(self) -> threading.Event:
        """Set when the reading should end."""

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> FunctionCalls:
        """Return a way to compute a Function."""

    def spent(self) -> Mapping[str, Spent]:
        """Return what workers did so far, by folded name of the Function."""

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it: for what it waits, and how to go on."""

    def finished(self, error: BaseException | None) -> None:
        """Say that the reading is over, and why where it did not come to its end. Returns when that is known to all."""


class FunctionSource(Protocol):
    """The Functions that queries may call."""

    @property
    def memo_bytes(self) -> int:
        """How much memory the values of one Function may take, so that equal arguments are computed once."""

    def known(self) -> Mapping[str, FunctionVersion]:
        """Return the latest version of each, by folded name."""

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """Return the computed columns of a table, which may be read instead of calling their Function."""

    def place(self, version: FunctionVersion) -> Place:
        """Return where a Function runs."""

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> QueryRun:
        """Begin a reading.

        Parameters
        ----------
        text
            The query, for those who look at the job.
        stop
            Called, from any thread, when the job was cancelled.
        rest
            Called now and then, from any thread: workers that nobody asks for rows are given back.
        """
