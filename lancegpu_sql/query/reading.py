"""One reading of a query that calls Functions: from the first row asked for to the last, or to whatever ends it before."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import Cancelled, LanceGpuError
from lancegpu_sql.query.aside import Aside
from lancegpu_sql.query.bound import name_called
from lancegpu_sql.query.engine import error_for
from lancegpu_sql.query.functions import FunctionSource, OnError, Values
from lancegpu_sql.query.in_place import CaughtByTry, InPlace, Way
from lancegpu_sql.query.memos import CallKey, Memos, call_key
from lancegpu_sql.query.opened import OpenFunction
from lancegpu_sql.query.tally import Spent, Tally

Result = TypeVar("Result")
Bind = Callable[["FunctionReading"], Any]

# A Function computes for as many rows as fill it before the first are handed out.
_STREAMING_BUFFER = "1B"
_INTERRUPT_SECONDS = 0.05
"""An interruption that comes between two steps of DuckDB is lost on it, and so is repeated."""


class FunctionReading:
    """DuckDB works in a thread of its own; whoever reads waits here and can be interrupted.

    Parameters
    ----------
    text
        The query, for those who look at its job.
    open_cursor
        Returns a connection on which everything is that the session made.
    known
        The Functions by folded name.
    source
        Where they are computed.
    memos
        Of the result.
    bind
        Makes the relation that is read, in DuckDB's thread, when something is first done with it.
    """

    computes = True

    def __init__(
        self,
        text: str,
        open_cursor: Callable[[], duckdb.DuckDBPyConnection],
        known: Mapping[str, FunctionVersion],
        source: FunctionSource,
        memos: Memos,
        bind: Bind,
    ) -> None:
        self._open_cursor = open_cursor
        self._memos = memos
        self._open: dict[CallKey, OpenFunction] = {}
        self._lent: dict[CallKey, Memo | None] = {}
        self._cursors: list[duckdb.DuckDBPyConnection] = []
        self._streams: list[pa.RecordBatchReader] = []
        self._failure: BaseException | None = None
        self._doubtful: BaseException | None = None
        self._closed = False
        self.runs_as_written = True  # DuckDB shows the line that it runs, which is of no use where nobody wrote it
        self._lock = threading.Lock()
        self.tally = Tally()
        self.functions = InPlace(open_cursor(), known, self._evaluate, self.fail, self._doubt)
        self._run = source.open_run(text, self.cancel, self.rest)
        self._aside = Aside("lancegpu query")
        self._bind: Bind | None = bind
        self._relation: Any = None

    @property
    def cancelled(self) -> threading.Event:
        """Set when the reading should end."""
        return self._run.cancelled

    def call(self, work: Callable[[Any], Result]) -> Result:
        """Do something with the relation that is read.

        Raises
        ------
        LanceGpuError
            What a Function raised comes out as itself.
        """
        result = self._do(lambda: work(self._bound()))
        return self.keep(result) if isinstance(result, pa.RecordBatchReader) else result

    def _bound(self) -> Any:
        """The relation; stages begin when it is made, so that this must be what can be cancelled, too."""
        if self._bind is not None:
            self._relation = self._bind(self)
            self._bind = None
        return self._relation

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A further connection for this reading, which is closed with it."""
        cursor = self._open_cursor()
        cursor.execute(f"SET streaming_buffer_size = '{_STREAMING_BUFFER}'")
        with self._lock:
            self._cursors.append(cursor)
        return cursor

    def keep(self, stream: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Close a stream of DuckDB's with the reading, before the connection that it comes from."""
        self._streams.append(stream)
        return stream

    def spent(self) -> Mapping[str, Spent]:
        """What workers did so far, by folded name of the Function."""
        return self._run.spent()

    def submit(self, version: FunctionVersion, on_error: OnError, arguments: pa.RecordBatch) -> Values:
        """Ask a Function for the values of some rows; the first of them ask for a worker."""
        self.tally.asked(name_called(version), arguments.num_rows, arguments.nbytes)
        key = call_key(version, on_error)
        with self._lock:
            if self._failure is not None or self._closed:
                raise self._failure or Cancelled("The query was closed")
            opened = self._open.get(key)
            if opened is None:
                if key not in self._lent:
                    self._lent[key] = self._memos.lend(version, on_error)
                opened = self._open[key] = OpenFunction(
                    self._run.calls(version, on_error=on_error, memo=self._lent[key])
                )
            opened.asked_at = math.inf  # it does not rest before what is asked now is there
        values = opened.calls.submit(arguments)
        with self._lock:
            opened.asked = [*(each for each in opened.asked if not each.done), values]
            opened.asked_at = time.monotonic()
        return values

    def release(self, version: FunctionVersion, on_error: OnError) -> None:
        """Give the workers of a Function back before the reading ends; one that needs it after all asks anew."""
        with self._lock:
            opened = self._open.pop(call_key(version, on_error), None)
        if opened is not None:
            opened.calls.close()

    def rest(self) -> None:
        """Give workers back while nobody asks for rows: whoever reads has closed the reader, or is busy otherwise."""
        now, unread_seconds = time.monotonic(), self._aside.idle_seconds()
        with self._lock:
            resting = [key for key, opened in self._open.items() if opened.rests(now, unread_seconds)]
            given_back = [self._open.pop(key) for key in resting]
        for opened in given_back:
            opened.calls.close()

    def cancel(self) -> None:
        """End the reading from another thread: it raises `Cancelled`."""
        self.fail(Cancelled("The query was cancelled"))

    def end(self, timeout_seconds: float) -> None:
        """Cancel it, and wait up to a time for DuckDB to leave it."""
        self.cancel()
        self._aside.idle(timeout_seconds)

    def fail(self, error: BaseException) -> None:
        """Note the first thing that went wrong, and let everything end."""
        with self._lock:
            if self._failure is not None or self._closed:
                return
            self._failure = error
        self._interrupt()

    def _doubt(self, error: BaseException) -> None:
        """Note what went wrong for constants, which is nothing if no row needs them."""
        self._doubtful = error

    def close(self) -> None:
        """End the work, give workers back, and remove what was made for it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        complete = self._failure is None and self._aside.idle(0)
        if not complete:
            self._run.cancelled.set()
        for opened in list(self._open.values()):
            opened.calls.close()
        while not self._aside.idle(_INTERRUPT_SECONDS):
            self._interrupt()
        try:
            self._aside.call(self._leave)
        finally:
            self._aside.close()
            self._memos.take_back(filter(None, self._lent.values()))
            # DuckDB's functions and the job know this reading, and it knows them: what it leaves to the collector must be small.
            self._lent.clear()
            del self._memos
            self._run.finished(self._failure)

    def _leave(self) -> None:
        self._relation = None
        for stream in reversed(self._streams):  # a later one reads those before it
            stream.close()  # until then DuckDB's threads may be at work for it
        for cursor in self._cursors:
            cursor.close()
        self.functions.close()

    def _interrupt(self) -> None:
        self._run.cancelled.set()
        for cursor in list(self._cursors):
            with suppress(duckdb.Error):
                cursor.interrupt()

    def _interrupt_again(self) -> None:
        if self._failure is not None:
            self._interrupt()

    def _do(self, work: Callable[[], Result]) -> Result:
        if self._failure is not None:
            raise self._failure
        try:
            result = self._aside.call(work, self._interrupt_again)
        except (duckdb.Error, OSError, LanceGpuError, RuntimeError) as exc:
            if self._doubtful is not None and str(self._doubtful) in str(exc):
                self.fail(self._doubtful)
            if self._failure is not None:
                raise self._failure from None
            raise self._told(exc) from exc
        except BaseException as exc:
            # Ctrl-C while waiting. The last line that Python prints of an error is its text: there the advice is found.
            told = KeyboardInterrupt(self._run.interrupted()) if isinstance(exc, KeyboardInterrupt) else exc
            self.fail(told)
            raise told from None
        if self._failure is not None:  # a TRY caught what is none of its rows' fault
            raise self._failure
        return result

    def _told(self, error: Exception) -> Exception:
        if isinstance(error, duckdb.Error | OSError):
            told = error_for(error)
            as_written = self.runs_as_written and not self.functions.names_inner
            said = told.message if as_written else told.message.partition("\n\nLINE ")[0]
            return type(told)(self.functions.as_written(said), **told.facts)
        return error

    def _evaluate(self, way: Way, arguments: pa.RecordBatch) -> pa.Array:
        """Compute a Function for rows that DuckDB brings, in one of its threads."""
        pending = self.submit(way.version, "null" if way.in_try else "raise", arguments)
        values = pending.result()
        if way.in_try and not way.alone_in_try and _any(pending.failed()):
            raise CaughtByTry
        return values


def _any(marks: pa.Array) -> bool:
    return bool(marks.true_count)
