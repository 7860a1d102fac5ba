"""The rows of a stage: batches of its input, to which the values of calls are added, many in flight, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql.query.arguments import FunctionTypes, as_booleans
from lancegpu_sql.query.functions import Values
from lancegpu_sql.sql.stages import Stage

INPUT_ROWS = 2_048
"""Of one batch of a stage's input: as many as DuckDB has at a time, so that the first do not wait for more."""

_FIRST_ROWS = 4  # DuckDB reads several batches ahead of whoever reads it
_FIRST_ROWS_OF_ALL = 256  # these wait for nobody, but how large a value is shows in the first ones
_SLOW_SECONDS = 0.25  # whoever waits for first rows, or needs no more, notices
_QUICK_SECONDS = 0.02  # nobody does, and the way to the worker takes as long as the Function
_QUICK_GROWTH = 4
_MOST_ROWS_AT_ONCE = 32_768
_MOST_IN_FLIGHT = 8
_MOST_BYTES_AT_ONCE = 4 * 1024 * 1024
"""As much as one call carries: values that come in one piece need not be put together."""


@dataclass(frozen=True)
class StageCall:
    """A call of a stage, ready to be made.

    Attributes
    ----------
    arguments, mask
        Columns of the input; a call without a mask is made for every row.
    types
        Of the Function.
    submit
        Asks for the values of some rows.
    """

    arguments: tuple[str, ...]
    mask: str | None
    types: FunctionTypes
    submit: Callable[[pa.RecordBatch], Values]


def output_schema(stage: Stage, source: pa.Schema, types: Mapping[str, FunctionTypes]) -> pa.Schema:
    """The columns of a stage: those that are handed on, and one for each call."""
    carried = [source.field(name) for name in stage.carried]
    return pa.schema([*carried, *(pa.field(call.result, types[call.function].readable_output) for call in stage.calls)])


def fixed_bytes(kind: pa.DataType) -> float | None:
    """What a value of a type takes, where that is the same for all of them."""
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_bytes(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        each = fixed_bytes(kind.value_type)
        return None if each is None else each * int(kind.list_size)
    if pa.types.is_dictionary(kind):
        return None
    try:
        bits: int = kind.bit_width
    except ValueError:
        return None
    return bits / 8


class StageRows:
    """Asks for about as many rows ahead as were taken already, beginning with a few; for more where they come at once.

    So the first rows come soon even from a Function that takes a second for each, a reader that stops early has computed
    little more than it took, and later calls are large and many in flight. At most `pending_bytes` of input and of results,
    as large as the last ones were, and one batch, are under way. Where all rows are wanted, many are asked for at once,
    as soon as it is known how large their values are: that of some types is known before.
    """

    def __init__(
        self,
        carried: Sequence[str],
        source: pa.RecordBatchReader,
        calls: Sequence[StageCall],
        schema: pa.Schema,
        *,
        pending_bytes: int,
        reads_all: bool = False,
        read: Callable[[int, int], None] = lambda _rows, _bytes: None,
    ) -> None:
        self._carried = list(carried)
        self._source = source
        self._calls = calls
        self._schema = schema
        self._pending_bytes = pending_bytes
        self._read = read
        self._reads_all = reads_all
        self._chunk_rows = _FIRST_ROWS_OF_ALL if reads_all else _FIRST_ROWS
        self._in_flight = 1
        self._since_grown = 0
        self._result_row_bytes = 0.0
        row_bytes = [fixed_bytes(kind) for kind in schema.types[len(carried) :]]
        if reads_all and all(row_bytes):
            self._result_row_bytes = sum(filter(None, row_bytes))
            self._in_flight, self._chunk_rows = _MOST_IN_FLIGHT, min(INPUT_ROWS, self._most_rows())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        pending: deque[_Pending] = deque()
        waiting_bytes, taken_at = 0, 0.0
        for batch in self._chunks():
            pending.append(self._asked(batch))
            waiting_bytes += pending[-1].nbytes
            self._read(batch.num_rows, batch.nbytes)
            while pending and (len(pending) >= self._in_flight or waiting_bytes > self._pending_bytes):
                first = pending.popleft()
                waiting_bytes -= first.nbytes
                rows = self._rows(first)
                # What was asked for before it has taken its time as well.
                before, taken_at = max(first.asked_at, taken_at), time.monotonic()
                yield rows
                self._grow(time.monotonic() - before)
                self._chunk_rows = min(self._chunk_rows, self._most_rows(first.input_row_bytes))
        while pending:
            yield self._rows(pending.popleft())

    def _grow(self, seconds: float) -> None:
        """Ask for more from now on, after a batch that took so long to be computed and used."""
        self._since_grown += 1
        slow = seconds >= _SLOW_SECONDS
        if self._reads_all and self._in_flight == 1:
            self._in_flight, self._chunk_rows = _MOST_IN_FLIGHT, INPUT_ROWS
        elif seconds < _QUICK_SECONDS:
            self._in_flight = min(self._in_flight + 1, _MOST_IN_FLIGHT)
            self._chunk_rows = min(_QUICK_GROWTH * self._chunk_rows, _MOST_ROWS_AT_ONCE)
        elif (slow or self._chunk_rows >= INPUT_ROWS) and self._in_flight < _MOST_IN_FLIGHT:
            self._in_flight += 1
        elif not slow or self._since_grown >= _MOST_IN_FLIGHT:
            self._chunk_rows = min(2 * self._chunk_rows, _MOST_ROWS_AT_ONCE)
            self._since_grown = 0

    def _most_rows(self, input_row_bytes: float = 0.0) -> int:
        """How many rows, as large as those that were taken last, may be asked for at once."""
        row_bytes = max(self._result_row_bytes, input_row_bytes, 1e-3)
        return max(1, int(min(self._pending_bytes / 4, _MOST_BYTES_AT_ONCE) / row_bytes))

    def _chunks(self) -> Iterator[pa.RecordBatch]:
        """The input in batches of as many rows as are to be asked for at once."""
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._source:
            rest = batch
            while rest.num_rows:
                piece = rest.slice(0, max(self._chunk_rows - rows, 0))
                rest = rest.slice(piece.num_rows)
                gathered.append(piece)
                rows += piece.num_rows
                if rows >= self._chunk_rows:
                    yield _joined(gathered)
                    gathered, rows = [], 0
        if gathered:
            yield _joined(gathered)

    def _asked(self, batch: pa.RecordBatch) -> _Pending:
        asked = [_ask(call, batch) for call in self._calls]
        nbytes = batch.nbytes + int(self._result_row_bytes * batch.num_rows)
        return _Pending(batch.select(self._carried), asked, nbytes, batch.nbytes, time.monotonic())

    def _rows(self, pending: _Pending) -> pa.RecordBatch:
        values = [
            call.types.readable_values(_spread(asked)) for call, asked in zip(self._calls, pending.asked, strict=True)
        ]
        if pending.carried.num_rows:
            self._result_row_bytes = sum(each.nbytes for each in values) / pending.carried.num_rows
        return pa.RecordBatch.from_arrays([*pending.carried.columns, *values], schema=self._schema)


@dataclass(frozen=True)
class _Asked:
    """Values on their way, and for which rows they are; None for all."""

    values: Values
    rows: pa.Array | None


@dataclass(frozen=True)
class _Pending:
    carried: pa.RecordBatch
    asked: list[_Asked]
    nbytes: int
    input_bytes: int
    asked_at: float

    @property
    def input_row_bytes(self) -> float:
        rows: int = self.carried.num_rows
        return self.input_bytes / max(rows, 1)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _ask(call: StageCall, batch: pa.RecordBatch) -> _Asked:
    rows = None
    if call.mask is not None:
        mask = pc.fill_null(as_booleans(batch.column(call.mask)), False)
        if mask.true_count < len(mask):
            rows = mask
            batch = batch.filter(mask)
    arguments = call.types.arguments([batch.column(name) for name in call.arguments])
    return _Asked(call.submit(arguments), rows)


def _spread(asked: _Asked) -> pa.Array:
    """One value a row, null for rows that were not asked for."""
    values = asked.values.result()
    if asked.rows is None:
        return values
    places = pc.subtract(pc.cumulative_sum(asked.rows.cast(pa.int64())), 1)
    return values.take(pc.if_else(asked.rows, places, None))
