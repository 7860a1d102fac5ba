"""Functions for queries without workers: computed in the thread that asks, by the code that a worker would run.

``InProcessFunctions`` stands for what a database hands to a query session. It counts what was computed, so that tests
can say how often a Function was called.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lancegpu_sql.apply.memo import Memo
from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.errors import RowFailed
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import as_function, define
from lancegpu_sql.functions.faults import UserCodeError
from lancegpu_sql.functions.loading import LoadedFunction, load
from lancegpu_sql.query.bound import bound_values, name_called
from lancegpu_sql.query.explained import Place
from lancegpu_sql.query.proof import Stored
from lancegpu_sql.query.tally import Spent
from lancegpu_sql.sql.call_reader import with_values
from lancegpu_sql.sql.names import fold
from lancegpu_sql.tables.snapshot import Snapshot


@dataclass
class InProcessFunctions:
    """A source of Functions for a `QuerySession`.

    Attributes
    ----------
    rows, batches
        How many rows, and batches, each Function computed.
    runs
        Every reading of a result that began.
    called
        Set with the first row that is computed.
    memos
        Where values were kept, unless they are forgotten by now.
    """

    memo_bytes: int = 64 * 1024 * 1024
    rows: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)
    runs: list[InProcessRun] = field(default_factory=list)
    called: threading.Event = field(default_factory=threading.Event)
    memos: list[weakref.ref[Memo]] = field(default_factory=list)
    _known: dict[str, FunctionVersion] = field(default_factory=dict)
    _payloads: dict[str, bytes] = field(default_factory=dict)
    _loaded: dict[str, LoadedFunction] = field(default_factory=dict)

    def add(self, function: Function | Callable[..., Any], name: str | None = None, **options: Any) -> FunctionVersion:
        """Register a Function."""
        definition = define(as_function(function, name, **options))
        version = definition.version.model_copy(update={"version": 1})
        self._known[fold(version.name)] = version
        self._payloads[version.digest] = definition.payload
        return version

    def drop(self, name: str) -> None:
        """Forget a Function."""
        del self._known[fold(name)]

    def known(self) -> Mapping[str, FunctionVersion]:
        """The Functions by folded name."""
        return self._known

    def stored(self, snapshot: Snapshot) -> Sequence[Stored]:
        """No computed column is read instead of a call."""
        return ()

    def place(self, version: FunctionVersion) -> Place:
        """Where a Function runs."""
        name = with_values(version.name, bound_values(version))
        return Place(name, version.version, version.placement.gpu_class)

    def open_run(self, text: str, stop: Callable[[], None], rest: Callable[[], None]) -> InProcessRun:
        """Begin a reading."""
        run = InProcessRun(self, text, stop, rest)
        self.runs.append(run)
        return run

    def compute(self, version: FunctionVersion, arguments: pa.RecordBatch) -> pa.Array:
        """Call a Function with a batch."""
        self.rows[version.name] += arguments.num_rows
        self.batches[version.name] += 1
        self.called.set()
        return self.loaded(version).call(arguments)

    def loaded(self, version: FunctionVersion) -> LoadedFunction:
        """A Function, made with what a query gives its class."""
        name = f"{version.digest} {name_called(version)}"
        if name not in self._loaded:
            self._loaded[name] = load(self._payloads[version.digest], bound_values(version))
        return self._loaded[name]


class InProcessRun:
    """One reading of a result.

    Attributes
    ----------
    closed
        The names of the Functions that were given back.
    ended
        Set once the reading is over; `error` then says why, where it was not read to its end.
    """

    def __init__(
        self, source: InProcessFunctions, text: str, stop: Callable[[], None], rest: Callable[[], None]
    ) -> None:
        self.cancelled = threading.Event()
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.text = text
        self.stop = stop
        self.rest = rest
        self.opened: list[str] = []
        self.closed: list[str] = []
        self._source = source

    def calls(self, version: FunctionVersion, *, on_error: str, memo: Memo | None) -> InProcessCalls:
        """Return a way to compute a Function."""
        self.opened.append(version.name)
        self._source.memos += [] if memo is None else [weakref.ref(memo)]
        return InProcessCalls(self, self._source, version, marked=on_error == "null", memo=memo)

    def spent(self) -> Mapping[str, Spent]:
        """What was computed for all readings."""
        return {fold(name): Spent(self._source.batches[name], rows) for name, rows in self._source.rows.items()}

    def interrupted(self) -> str:
        """Return what to tell whoever interrupts it."""
        return "Cancelled."

    def finished(self, error: BaseException | None) -> None:
        """Note the end."""
        self.error = error
        self.ended.set()


class InProcessCalls:
    """One Function, computed where it is asked for."""

    def __init__(
        self,
        run: InProcessRun,
        source: InProcessFunctions,
        version: FunctionVersion,
        *,
        marked: bool,
        memo: Memo | None,
    ) -> None:
        self._run = run
        self._source = source
        self._version = version
        self._marked = marked
        self._memo = memo

    def submit(self, arguments: pa.RecordBatch) -> ValuesNow:
        """Compute rows at once; an error is raised by their `result`."""
        try:
            return ValuesNow(self._found(arguments), self._marked)
        except RowFailed as exc:
            return ValuesNow(exc, self._marked)

    def close(self) -> None:
        """Note that it was given back."""
        self._run.closed.append(self._version.name)

    def _found(self, arguments: pa.RecordBatch) -> pa.Array:
        if self._memo is None or not arguments.num_rows:
            return self._computed(arguments).values
        return self._memo.find(arguments, self._computed).gather()

    def _computed(self, arguments: pa.RecordBatch) -> _Settled:
        if not self._marked:
            return _Settled(self._called(arguments))
        values, failed = [], []
        for row in range(arguments.num_rows):
            try:
                values.append(self._called(arguments.slice(row, 1)))
                failed.append(False)
            except RowFailed:
                values.append(pa.nulls(1, self._source_type()))
                failed.append(True)
        both = [pa.concat_arrays(values) if values else pa.nulls(0, self._source_type()), pa.array(failed, pa.bool_())]
        return _Settled(pa.StructArray.from_arrays(both, ["value", "failed"]))

    def _called(self, arguments: pa.RecordBatch) -> pa.Array:
        try:
            return self._source.compute(self._version, arguments)
        except UserCodeError as exc:
            row = exc.row_index or 0
            (given,) = arguments.slice(row, 1).to_pylist()
            raise RowFailed(
                f"{self._version.name} raised {exc}\non a row with {given}",
                function=self._version.name,
                arguments=given,
            ) from None

    def _source_type(self) -> pa.DataType:
        return self._source.loaded(self._version).output_field.type


@dataclass(frozen=True)
class ValuesNow:
    """Values that are there, or the error in their place."""

    found: pa.Array | RowFailed
    marked: bool
    done: bool = True

    def result(self) -> pa.Array:
        """One value a row."""
        if isinstance(self.found, RowFailed):
            raise self.found
        return self.found.field(0) if self.marked else self.found

    def failed(self) -> pa.Array:
        """Which rows failed."""
        self.result()
        return self.found.field(1) if self.marked else pa.repeat(pa.scalar(False), len(self.found))


@dataclass(frozen=True)
class _Settled:
    values: pa.Array
    done: bool = True

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def result(self) -> pa.Array:
        return self.values

    def so_far(self) -> pa.Array:
        return self.values
