"""Functions for calls of queries whose beginning and end nobody tells: those on a connection that somebody else made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.query.aside import Aside
from lancegpu_sql.query.functions import FunctionCalls, FunctionSource, QueryRun
from lancegpu_sql.query.memos import Memos

IDLE_SECONDS = 0.5
"""After so long without a call workers are given back: DuckDB may do that much else between two of them."""

_TEXT = "(a query on a DuckDB connection)"


class Gathered:
    """Computes Functions for DuckDB's threads: rows that several of them bring at a time go to workers together.

    A run, and with it the job, begins with a first call, and ends when there was none for a moment. Values are kept beyond
    it, until `forget`, so that equal arguments are computed once.

    Parameters
    ----------
    source
        Where they are computed.
    """

    def __init__(self, source: FunctionSource) -> None:
        self._source = source
        self._memos = Memos(source.memo_bytes)
        self._changed = threading.Condition()
        self._round: _Round | None = None
        self._closed = False

    def compute(self, version: FunctionVersion, arguments: pa.RecordBatch) -> pa.Array:
        """Return a Function's values; any thread may ask.

        Raises
        ------
        LanceGpuError
            How the Function failed, or `Cancelled`.
        KeyboardInterrupt
            With words on how to go on.
        """
        current, calls = self._enter(version)
        try:
            return current.wait(lambda: calls.submit(arguments).result())
        except BaseException as exc:
            error = current.told(exc) or exc
            self._drop(current)
            current.end(error)
            raise error from None
        finally:
            self._leave(current)

    def cancel(self) -> None:
        """End the calls that are under way; those who wait for them raise `Cancelled`."""
        with self._changed:
            if self._round is not None:
                self._round.stop()

    def forget(self) -> None:
        """Forget the values that are kept."""
        self._memos = Memos(self._source.memo_bytes)

    def close(self) -> None:
        """End calls, give workers back, refuse further calls."""
        with self._changed:
            self._closed = True
            current, self._round = self._round, None
            self._changed.notify_all()
        if current is not None:
            current.stop()
            current.end(Cancelled("The connection was detached"))

    def _enter(self, version: FunctionVersion) -> tuple[_Round, FunctionCalls]:
        with self._changed:
            if self._closed:
                raise Cancelled("The connection was detached")
            if self._round is None or self._round.stopped:
                self._round = _Round(self._source, self._memos)
                threading.Thread(target=self._keep, args=(self._round,), name="lancegpu attached", daemon=True).start()
            calls = self._round.calls(version)
            self._round.busy += 1
            return self._round, calls

    def _leave(self, current: _Round) -> None:
        with self._changed:
            current.busy -= 1
            current.called += 1
            self._changed.notify_all()

    def _drop(self, current: _Round) -> None:
        with self._changed:
            if self._round is current:
                self._round = None
            self._changed.notify_all()

    def _keep(self, current: _Round) -> None:
        """End a round once nothing was asked of it for a while."""
        with self._changed:
            seen = -1
            while self._round is current and (current.busy or seen != current.called):
                seen = current.called
                self._changed.wait_for(lambda: self._round is not current, IDLE_SECONDS)
            if self._round is not current:
                return
            self._round = None
        current.end(current.told(None))


class _Round:
    """Calls that follow each other closely: as far as one can tell, those of one query."""

    def __init__(self, source: FunctionSource, memos: Memos) -> None:
        self.busy = 0
        self.called = 0
        self.stopped = False
        self._calls: dict[str, FunctionCalls] = {}
        self._memos = memos
        self._lent: list[Memo] = []
        self._run: QueryRun = source.open_run(_TEXT, self.stop, lambda: None)  # it ends where nobody asks for rows
        self._ended = False
        self._lock = threading.Lock()
        self._aside: Aside | None = None

    def calls(self, version: FunctionVersion) -> FunctionCalls:
        """Return the way to compute a Function."""
        if version.digest not in self._calls:
            memo = self._memos.lend(version, "raise")
            self._lent += [] if memo is None else [memo]
            self._calls[version.digest] = self._run.calls(version, on_error="raise", memo=memo)
        return self._calls[version.digest]

    def wait(self, work: Callable[[], Any]) -> Any:
        """Wait for values, so that Ctrl-C is heard where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        if self._aside is None:
            self._aside = Aside("lancegpu attached")
        return self._aside.call(work)

    def told(self, error: BaseException | None) -> BaseException | None:
        """Return the error to raise for one."""
        if isinstance(error, KeyboardInterrupt):
            return KeyboardInterrupt(self._run.interrupted())
        return Cancelled("The query was cancelled") if self.stopped else error

    def stop(self) -> None:
        """Let everything end, which whoever waits for values will see; may be called from any thread."""
        self.stopped = True
        self._run.cancelled.set()

    def end(self, error: BaseException | None) -> None:
        """Give workers back."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        if error is not None:
            self._run.cancelled.set()
        for calls in list(self._calls.values()):
            calls.close()
        self._memos.take_back(self._lent)
        if self._aside is not None:
            self._aside.close()
        self._run.finished(error)
