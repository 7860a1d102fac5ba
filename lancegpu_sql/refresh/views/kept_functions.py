"""Functions whose results are looked up before they are called, and kept once they were."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lancegpu_sql.apply.digest import Lanes, row_digests
from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.functions import FunctionCalls, FunctionSource, OnError, QueryRun, Values
from lancegpu_sql.query.proved import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.refresh.views.results import FunctionResults, ResultStore
from lancegpu_sql.tables.snapshot import Snapshot

_NO_KEY = bytes(16)
"""Results are kept for each Function version by itself: nothing else than the arguments tells them apart."""


class KeptFunctions:
    """A source of Functions that calls another one for inputs that it has never seen; a `FunctionSource`.

    Attributes
    ----------
    made, reused
        By Function: of how many inputs results were computed, equal ones counted once as far as memory reached; and for
        how many rows results were there.

    Parameters
    ----------
    source
        Computes what is not kept.
    store
        Where results are kept, those of deterministic Functions.
    """

    def __init__(self, source: FunctionSource, store: ResultStore) -> None:
        self._source = source
        self._store = store
        self._open: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._known = source.known()
        self.made: Counter[str] = Counter()
        self.reused: Counter[str] = Counter()

    @property
    def memo_bytes(self) -> int:
        """How much memory the values of one Function may take."""
        return self._source.memo_bytes

    def known(self) -> Mapping[str, FunctionVersion]:
        """Return the latest version of each when the refresh began, by folded name."""
        return self._known

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """Return the computed columns that may be read instead of calling their Function."""
        return self._source.stored(snapshot)

    def place(self, version: FunctionVersion) -> Place:
        """Return where a Function runs."""
        return self._source.place(version)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> QueryRun:
        """Begin a reading."""
        return _KeptRun(self, self._source.open_run(text, stop, rest))

    def flush(self) -> None:
        """Write what was computed."""
        with self._lock:
            kept = list(self._open.values())
        for one in kept:
            one.flush()

    def calls(self, run: QueryRun, version: FunctionVersion, on_error: OnError, memo: Memo | None) -> FunctionCalls:
        """Return a way to compute a Function."""
        calls = run.calls(version, on_error=on_error, memo=memo)
        kept = self._kept(version) if version.deterministic and self._store.keeps else None
        counted = memo if memo is not None else _NoMemo()
        return _KeptCalls(self, version, calls, kept, counted)

    def count(self, version: FunctionVersion, made: int, reused: int) -> None:
        """Count results."""
        with self._lock:
            self.made[version.name] += made
            self.reused[version.name] += reused

    def _kept(self, version: FunctionVersion) -> _Kept:
        with self._lock:
            found = self._open.get(version.digest)
            if found is None:
                found = _Kept(self._store.of(version.digest, parse_type(version.output_type)))
                self._open[version.digest] = found
            return found


class _NoMemo:
    """Counts rows as if each were computed."""

    rows = 0
    computed_rows = 0


class _Kept:
    """The results of one Function, for several threads."""

    def __init__(self, results: FunctionResults) -> None:
        self._results = results
        self._lock = threading.Lock()

    def find(self, keys: Lanes) -> tuple[np.ndarray, pa.Array]:
        with self._lock:
            return self._results.find(keys)

    def add(self, keys: Lanes, values: pa.Array) -> None:
        with self._lock:
            self._results.add(keys, values)

    def flush(self) -> None:
        with self._lock:
            self._results.flush()


class _KeptRun:
    """One reading, whose calls look results up first."""

    def __init__(self, functions: KeptFunctions, run: QueryRun) -> None:
        self._functions = functions
        self._run = run

    @property
    def cancelled(self) -> threading.Event:
        """Set when the reading should end."""
        return self._run.cancelled

    def calls(self, version: FunctionVersion, *, on_error: OnError, memo: Memo | None) -> FunctionCalls:
        """Return a way to compute a Function."""
        return self._functions.calls(self._run, version, on_error, memo)

    def spent(self) -> Mapping[str, Spent]:
        """Return what workers did so far."""
        return self._run.spent()

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it."""
        return self._run.interrupted()

    def finished(self, error: BaseException | None) -> None:
        """Keep what was computed, however the reading ended."""
        try:
            self._functions.flush()
        finally:
            self._run.finished(error)


class _KeptCalls:
    """One Function, fed with rows."""

    def __init__(
        self,
        functions: KeptFunctions,
        version: FunctionVersion,
        calls: FunctionCalls,
        kept: _Kept | None,
        memo: Memo | _NoMemo,
    ) -> None:
        self._functions = functions
        self._version = version
        self._calls = calls
        self._kept = kept
        self._memo = memo
        self._counted = memo.computed_rows
        self._lock = threading.Lock()

    def submit(self, arguments: pa.RecordBatch) -> Values:
        """Ask for the values of some rows; what is not kept is computed."""
        if self._kept is None or not arguments.num_rows:
            values = self._calls.submit(arguments)
            self._count(arguments.num_rows, 0)
            return values
        keys = row_digests(arguments, _NO_KEY)
        known, found = self._kept.find(keys)
        missing = np.flatnonzero(~known)
        if not len(missing):
            self._count(0, len(keys))
            return _Gathered(known, found, None, lambda _values, _failed: None)
        asked = self._calls.submit(arguments if len(missing) == len(keys) else arguments.take(pa.array(missing)))
        self._count(len(missing), len(keys) - len(missing))
        kept = self._kept

        def keep(values: pa.Array, failed: pa.Array) -> None:
            good = ~failed.to_numpy(zero_copy_only=False)
            kept.add(keys[missing][good], values if good.all() else values.filter(pa.array(good)))

        return _Gathered(known, found, asked, keep)

    def close(self) -> None:
        """End the work at once."""
        self._calls.close()

    def _count(self, asked: int, found: int) -> None:
        """Count what was asked for; equal arguments that the memo knows are reused."""
        with self._lock:
            made = asked
            if not isinstance(self._memo, _NoMemo):
                made, self._counted = self._memo.computed_rows - self._counted, self._memo.computed_rows
        self._functions.count(self._version, made, asked - made + found)


class _Gathered:
    """Values, some of which were known and some asked for."""

    def __init__(
        self,
        known: np.ndarray,
        found: pa.Array,
        asked: Values | None,
        keep: Callable[[pa.Array, pa.Array], None],
    ) -> None:
        self._known = known
        self._found = found
        self._asked = asked
        self._keep = keep
        self._lock = threading.Lock()
        self._gathered: tuple[pa.Array, pa.Array] | None = None

    @property
    def done(self) -> bool:
        """Whether they are there."""
        return self._asked is None or self._asked.done

    def result(self) -> pa.Array:
        """Return one value a row."""
        return self._all()[0]

    def failed(self) -> pa.Array:
        """Return which rows failed."""
        return self._all()[1]

    def _all(self) -> tuple[pa.Array, pa.Array]:
        with self._lock:
            if self._gathered is None:
                self._gathered = self._gather()
            return self._gathered

    def _gather(self) -> tuple[pa.Array, pa.Array]:
        nothing = pa.array(np.zeros(len(self._known), dtype=bool))
        if self._asked is None:
            return self._found, nothing
        values, failed = self._asked.result(), self._asked.failed()
        self._keep(values, failed)
        if not self._known.any():
            return values, failed
        number = np.empty(len(self._known), dtype=np.int64)
        number[self._known] = np.arange(len(self._found))
        number[~self._known] = len(self._found) + np.arange(len(values))
        all_failed = pa.concat_arrays([pa.array(np.zeros(len(self._found), dtype=bool)), failed])
        places = pa.array(number)
        return pa.concat_arrays([self._found, values]).take(places), all_failed.take(places)
