"""Equal arguments, computed once: where each distinct row of arguments has its value, within a bound of memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lancegpu_sql.apply.digest import row_digests
from lancegpu_sql.apply.key_table import KeyTable, Numbers

_NO_KEY = bytes(16)
"""A memo is of one Function version: nothing else than the arguments tells its values apart."""

_ENOUGH_ROWS = 16_384
_ENOUGH_BYTES = 1024 * 1024
"""Of one array: to copy larger ones again costs more than to look into several."""

_LOOK_UP_SECONDS = 1.5e-7
"""To look for one row, and to keep it, takes about as long."""

_MAY_REPEAT = 0.01
"""Of the rows to come, as large a share may well repeat, whatever was found so far."""

_QUICK_PART = 8
"""What a quick Function is given to show that its rows repeat: the limit by this."""

_MOST_REST = 8


class Values(Protocol):
    """Values that are computed, or will be."""

    @property
    def done(self) -> bool:
        """Whether `result` returns at once."""

    @property
    def nbytes(self) -> int | None:
        """Their size; None before they are there, and where they never will be."""

    def result(self) -> pa.Array:
        """Return them; blocks until they are there."""

    def so_far(self) -> pa.Array | None:
        """Return those of the first rows that are there by now; None where none are."""


@dataclass(frozen=True)
class Found:
    """Where a batch's values come from.

    Attributes
    ----------
    sources
        All that its values come from.
    source, place
        Of each row: which of `sources`, and where in it. None where the only source has just these rows.
    """

    sources: tuple[Values, ...]
    source: Numbers | None = None
    place: Numbers | None = None

    @property
    def done(self) -> bool:
        """Whether `gather` returns at once."""
        return all(values.done for values in self.sources)

    def so_far(self) -> tuple[Numbers, pa.Array] | None:
        """Return which rows have values by now, and these; None where none have."""
        found = [values.so_far() for values in self.sources]
        rows, pieces = [], []
        for number, values in enumerate(found):
            if values is None:
                continue
            if self.source is None or self.place is None:
                return np.arange(len(values)), values
            these = np.flatnonzero((self.source == number) & (self.place < len(values)))
            rows.append(these)
            pieces.append(values.take(pa.array(self.place[these])))
        return (np.concatenate(rows), pa.concat_arrays(pieces)) if rows else None

    def gather(self) -> pa.Array:
        """Return one value a row; blocks until all are there."""
        if self.source is None or self.place is None:
            return self.sources[0].result()
        if len(self.sources) == 1:
            return self.sources[0].result().take(pa.array(self.place))
        order = np.argsort(self.source, kind="stable")
        bounds = np.searchsorted(self.source[order], np.arange(1, len(self.sources)))
        pieces = [
            values.result().take(pa.array(self.place[rows]))
            for values, rows in zip(self.sources, np.split(order, bounds), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(pieces).take(pa.array(back))


class Memo:
    """The values of one Function version by the digests of their arguments.

    Two rows are the same where the 128-bit digests of their arguments are, by which stored values are proven too. When
    it is full it begins anew: a value may then be computed again. Where the Function is so quick that computing rows again
    costs less than looking for them, a part of the memory has to show that rows repeat; where they do not, it rests for as
    many rows as filled that, the next time for twice as many. Safe for use by several threads.

    Parameters
    ----------
    limit_bytes
        What digests and values may take; values that are still asked for by someone come on top.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._generation = _Generation()
        self._resting_rows = 0
        self._in_vain = 0  # how often in a row it was full and had saved too little
        self._row_seconds: float | None = None
        self.rows = 0
        self.computed_rows = 0

    def find(self, arguments: pa.RecordBatch, compute: Callable[[pa.RecordBatch], Values]) -> Found:
        """Find a batch's values, and ask once for each that nobody has asked for.

        Parameters
        ----------
        arguments
            The Function's parameters as columns, of one row at least.
        compute
            Asks for values, and returns before they are there. Its calls come one after another.
        """
        with self._lock:
            if self._rests(arguments.num_rows):
                return Found((compute(arguments),))
        keys = row_digests(arguments, _NO_KEY)
        with self._lock:
            generation = self._generation
            before = generation.keys.entries
            numbers, new = generation.keys.number(keys)
            generation.rows += len(keys)
            self.rows += len(keys)
            self.computed_rows += len(new)
            if len(new):
                try:
                    own = compute(arguments if len(new) == len(keys) else arguments.take(pa.array(new)))
                except BaseException:
                    generation.keys.keep(before)
                    raise
                generation.add(own, len(new))
                if len(new) == len(keys):
                    return Found((own,))
            return generation.found(numbers)

    def took(self, rows: int, seconds: float) -> None:
        """Learn how long the Function takes."""
        if rows:
            self._row_seconds = seconds / rows

    def _rests(self, rows: int) -> bool:
        """Whether that many rows are computed without a look; what is full begins anew."""
        generation = self._generation
        if not self._resting_rows and generation.full(self._limit_bytes // _QUICK_PART):
            if not self._pays(generation):
                self._in_vain += 1
                self._resting_rows = generation.rows * min(2 ** (self._in_vain - 1), _MOST_REST)
                self._generation = _Generation()
            elif generation.full(self._limit_bytes):
                self._in_vain = 0
                self._generation = _Generation()
        if not self._resting_rows:
            return False
        self._resting_rows = max(0, self._resting_rows - rows)
        self.rows += rows
        self.computed_rows += rows
        return True

    def _pays(self, generation: _Generation) -> bool:
        if self._row_seconds is None:
            return True
        repeated = max(generation.rows - generation.keys.entries, _MAY_REPEAT * generation.rows)
        return repeated * self._row_seconds >= generation.rows * _LOOK_UP_SECONDS

    def settle(self) -> None:
        """Forget what was asked for and will not come."""
        with self._lock:
            self._generation.drop_pending()


class _Generation:
    """What a memo holds from one beginning to the next.

    Values stand in the order of their numbers: first those that are there, small arrays joined to larger ones so that
    they stay few, then those that are still computed. `rows` were looked for.
    """

    def __init__(self) -> None:
        self.keys = KeyTable()
        self.rows = 0
        self._settled: list[Values] = []
        self._pending: list[Values] = []
        self._rows: list[int] = []  # of all of them
        self._value_bytes = 0

    def full(self, limit_bytes: int) -> bool:
        """Whether it takes more than its bound; values count from when they are there."""
        self._settle()
        return self.keys.entries > 0 and self.keys.nbytes + self._value_bytes > limit_bytes

    def add(self, values: Values, rows: int) -> None:
        """Keep what was asked for the last `rows` numbers."""
        self._pending.append(values)
        self._rows.append(rows)

    def found(self, numbers: Numbers) -> Found:
        """Return where the values of these numbers stand."""
        ends = np.cumsum(self._rows)
        source = np.searchsorted(ends, numbers, side="right")
        used, source_of_row = np.unique(source, return_inverse=True)
        place = numbers - (ends[source] - np.asarray(self._rows)[source])
        every = self._settled + self._pending
        return Found(tuple(every[at] for at in used), source_of_row, place)

    def drop_pending(self) -> None:
        """Keep what is there."""
        self._settle()
        self._pending.clear()
        del self._rows[len(self._settled) :]
        self.keys.keep(sum(self._rows))

    def _settle(self) -> None:
        while self._pending and (size := self._pending[0].nbytes) is not None:
            self._value_bytes += size
            self._settled.append(self._pending.pop(0))
            last = len(self._settled) - 1
            while last and self._rows[last - 1] < 2 * self._rows[last] and self._is_small(last):
                joined = pa.concat_arrays([values.result() for values in self._settled[-2:]])
                self._settled[-2:] = [_Known(joined)]
                self._rows[last - 1 : last + 1] = [len(joined)]
                last -= 1

    def _is_small(self, at: int) -> bool:
        return self._rows[at] < _ENOUGH_ROWS and (self._settled[at].nbytes or 0) < _ENOUGH_BYTES


@dataclass(frozen=True)
class _Known:
    values: pa.Array
    done: bool = True

    @property
    def nbytes(self) -> int:
        size: int = self.values.nbytes
        return size

    def so_far(self) -> pa.Array:
        return self.result()

    def result(self) -> pa.Array:
        return self.values
