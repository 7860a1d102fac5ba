"""Calls of one Function whose values are looked up first: results that are kept, and failures that are known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply import Pending
from lancegpu_sql.apply.digest import Lanes, row_digests
from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.functions.arrow_types import parse_type
from lancegpu_sql.query.functions import FunctionCalls, Values
from lancegpu_sql.query.picked import Numbers
from lancegpu_sql.refresh.views.failed_calls import NO_KEY, CallFailures, call_group
from lancegpu_sql.refresh.views.results import FunctionResults

Mask = npt.NDArray[np.bool_]


class Kept:
    """The results of one Function, for several threads."""

    def __init__(self, results: FunctionResults) -> None:
        self._results = results
        self._lock = threading.Lock()

    def find(self, keys: Lanes) -> tuple[Mask, pa.Array]:
        """Return which keys are known, and the values of these."""
        with self._lock:
            return self._results.find(keys)

    def add(self, keys: Lanes, values: pa.Array) -> None:
        """Keep results."""
        with self._lock:
            self._results.add(keys, values)

    def flush(self) -> None:
        """Write what was added."""
        with self._lock:
            self._results.flush()


class Counts(Protocol):
    """Told of what was asked.

    For how many inputs workers computed, for how many rows an equal input had been asked for, and for how many a result was
    kept from before.
    """

    def __call__(self, version: FunctionVersion, *, made: int, reused: int, found: int) -> None: ...


class KeptCalls:
    """One Function, fed with rows.

    Parameters
    ----------
    version, calls
        The Function, and what computes it.
    kept
        Its results; None where none are kept.
    failures
        Calls without a value; None where none may be.
    by_row
        Whether the last argument is the id of the source row, which the Function does not take.
    count
        Told of what is asked.
    memo
        Knows how many inputs were computed; None where each row is.
    """

    def __init__(
        self,
        version: FunctionVersion,
        calls: FunctionCalls,
        kept: Kept | None,
        failures: CallFailures | None,
        *,
        by_row: bool,
        count: Counts,
        memo: Memo | None,
    ) -> None:
        self._version = version
        self._calls = calls
        self._kept = kept
        self._failures = failures
        self._by_row = by_row
        self._told = count
        self._memo = memo
        self._counted = 0 if memo is None else memo.computed_rows
        self._asked: list[_Asked] = []
        self._lock = threading.Lock()

    def submit(self, arguments: pa.RecordBatch) -> Values:
        """Ask for the values of some rows; what is not kept, nor known to fail, is computed."""
        rows = np.zeros(arguments.num_rows, dtype=np.uint64)
        if self._by_row:
            rows = arguments.column(arguments.num_columns - 1).to_numpy()
            arguments = arguments.select(range(arguments.num_columns - 1))
        if (self._kept is None and self._failures is None) or not arguments.num_rows:
            values = self._calls.submit(arguments)
            self._count(arguments.num_rows, 0)
            return values
        keys = row_digests(arguments, NO_KEY)
        known, found = self._find(keys)
        blank = self._known_to_fail(keys, rows, known)
        missing = np.flatnonzero(~(known | blank))
        there = int(np.count_nonzero(known))
        if not len(missing):
            self._count(0, there)
            return _Gathered(known, found, blank)
        values = self._calls.submit(arguments if len(missing) == len(keys) else arguments.take(pa.array(missing)))
        self._count(len(missing), there)  # what the memo knew of them is told from then on
        asked = _Asked(values, keys[missing], self._kept, partial(self._failed, keys[missing], rows[missing]))
        with self._lock:
            self._asked = [*(one for one in self._asked if not one.settled), asked]
        return _Gathered(known, found, blank, asked)

    def keep_so_far(self) -> None:
        """Keep the results that are there, of rows whose others are not there yet, or never will be."""
        with self._lock:
            asked = self._asked
        for one in asked:
            one.keep_so_far()

    def close(self) -> None:
        """End the work at once."""
        self._calls.close()

    def _failed(self, keys: Lanes, rows: Numbers, failed: Mask) -> None:
        if self._failures is not None:
            self._failures.add(self._version, keys[failed], rows[failed])

    def _find(self, keys: Lanes) -> tuple[Mask, pa.Array]:
        if self._kept is None:
            return np.zeros(len(keys), dtype=bool), pa.nulls(0, parse_type(self._version.output_type))
        return self._kept.find(keys)

    def _known_to_fail(self, keys: Lanes, rows: Numbers, known: Mask) -> Mask:
        blank = np.zeros(len(keys), dtype=bool)
        if self._failures is not None:
            others = np.flatnonzero(~known)
            blank[others] = self._failures.known_among(call_group(self._version), keys[others], rows[others])
        return blank

    def _count(self, asked: int, found: int) -> None:
        """Count what was asked for; equal arguments that the memo knows are reused."""
        with self._lock:
            made = asked
            if self._memo is not None:
                made, self._counted = self._memo.computed_rows - self._counted, self._memo.computed_rows
        self._told(self._version, made=made, reused=asked - made, found=found)


class _Asked:
    """Values that are asked for: they are kept once they are there, each once."""

    def __init__(self, values: Values, keys: Lanes, kept: Kept | None, failed: Callable[[Mask], None]) -> None:
        self.values = values
        self.settled = False
        self._keys = keys
        self._kept = kept
        self._failed = failed
        self._lock = threading.Lock()
        self._is_kept = np.zeros(len(keys), dtype=bool)

    def settle(self) -> tuple[pa.Array, pa.Array]:
        """Return all, and which failed; blocks until that is known."""
        values, failed = self.values.result(), self.values.failed()
        bad = failed.to_numpy(zero_copy_only=False)
        self._keep(np.flatnonzero(~bad), values if not bad.any() else values.filter(pa.array(~bad)))
        self.settled = True
        if bad.any():
            self._failed(bad)
        return values, failed

    def keep_so_far(self) -> None:
        """Keep what is there."""
        found = self.values.so_far() if isinstance(self.values, Pending) and not self.settled else None
        if found is not None:
            self._keep(*found)

    def _keep(self, rows: npt.NDArray[np.int64], values: pa.Array) -> None:
        if self._kept is None:
            return
        with self._lock:
            new = ~self._is_kept[rows]
            self._is_kept[rows] = True
        self._kept.add(self._keys[rows[new]], values if new.all() else values.filter(pa.array(new)))


class _Gathered:
    """Values: some were known, some are null for they failed before, and some are asked for."""

    def __init__(self, known: Mask, found: pa.Array, blank: Mask, asked: _Asked | None = None) -> None:
        self._known = known
        self._found = found
        self._blank = blank
        self._asked = asked
        self._lock = threading.Lock()
        self._gathered: tuple[pa.Array, pa.Array] | None = None

    @property
    def done(self) -> bool:
        """Whether they are there."""
        return self._asked is None or self._asked.values.done

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
        values, failed = pa.nulls(0, self._found.type), pa.nulls(0, pa.bool_())
        if self._asked is not None:
            values, failed = self._asked.settle()
        if len(values) == len(self._known):
            return values, failed
        others = pa.array(self._blank)
        if len(self._found) == len(self._known):
            return self._found, others
        # The values that were found, behind them a null, and those that were asked for.
        place = np.full(len(self._known), len(self._found), dtype=np.int64)
        place[self._known] = np.arange(len(self._found))
        place[~(self._known | self._blank)] = len(self._found) + 1 + np.arange(len(values))
        marks = pa.concat_arrays([pa.repeat(pa.scalar(False), len(self._found)), pa.array([True]), failed])
        every = pa.concat_arrays([self._found, pa.nulls(1, self._found.type), values])
        return every.take(pa.array(place)), marks.take(pa.array(place))
