"""Loading a Function on a worker, and calling it: the one boundary around user code.

A worker imports this: the standard library, pyarrow and cloudpickle, nothing else. What user code raises or returns
leaves here as a `UserFaultError`, made of text; every other exception is this package's own fault.
"""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc

from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.faults import LoadError, UserCodeError, described, summary
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.functions.results import array_of, checked_batch
from lancegpu_sql.functions.shipped_module import extend_search_path, import_shipped, show_source

__all__ = ["LoadedFunction", "load"]


def load(
    payload: bytes, bound: Mapping[str, Any] | None = None, *, concurrency: int = 1, folder: Path | None = None
) -> LoadedFunction:
    """Load a Function version in this process.

    Parameters
    ----------
    payload
        As `packaging.pack` made it.
    bound
        Values for the `__init__` of a class.
    concurrency
        Calls at a time, for a Function that is called once per row.
    folder
        A private one, for the modules that travel with it; a temporary one by default.

    Returns
    -------
    LoadedFunction
        Initialised and ready.

    Raises
    ------
    LoadError
        It was packed by another minor version of Python, or could not be imported, unpickled or initialised.
    """
    packed = Payload.from_bytes(payload)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if packed.python_version != here:
        raise LoadError(
            f"{packed.name} was registered under Python {packed.python_version} and this worker runs {here}: its code "
            f"cannot run here. Register it again under Python {here}, or give the worker {packed.python_version}."
        )
    extend_search_path(packed.search_path)
    if packed.code:
        _import_code(packed.code, folder)
    for path, source in packed.sources.items():
        show_source(path, source)
    target = _target(packed)
    call = _initialised(packed, target, bound or {}) if packed.is_class else target
    return LoadedFunction(packed, call, concurrency)


def _import_code(code: bytes, folder: Path | None) -> None:
    # Few Functions need it, and each worker's start would pay for it.
    import tempfile

    from lancegpu_sql.functions.local_modules import import_from, unpack

    import_from(unpack(code, folder or Path(tempfile.mkdtemp(prefix="lancegpu-code-"))))


def _target(packed: Payload) -> Any:
    try:
        if packed.module is None:
            return cloudpickle.loads(packed.pickled)
        found: Any = import_shipped(packed.module)
        for part in packed.module.qualname.split("."):
            found = getattr(found, part)
    except BaseException as error:
        raise _load_error(packed, "imported" if packed.module else "unpickled", error) from None
    return found.target if isinstance(found, Function) else found


def _initialised(packed: Payload, target: Any, bound: Mapping[str, Any]) -> Any:
    try:
        return target(**bound)
    except BaseException as error:
        raise _load_error(packed, "initialised", error) from None


def _load_error(packed: Payload, action: str, error: BaseException) -> LoadError:
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        hint = (
            f" The worker has no module {error.name!r}: install it in the worker's environment, or, where it is a file of "
            "yours that has moved, register the Function again from its present folder."
        )
    return LoadError(f"{packed.name} could not be {action} ({summary(error)}).{hint}", **described(error))


class LoadedFunction:
    """A Function ready to be called with record batches.

    Attributes
    ----------
    input_schema
        Columns of a batch it is called with, in order.
    output_field
        The type of its result, and whether that may be null.
    """

    def __init__(self, packed: Payload, target: Callable[..., Any], concurrency: int = 1) -> None:
        self.name = packed.name
        self.input_schema = packed.input_schema
        self.output_field = packed.output_field
        self._target = target
        self._is_instance = packed.is_class
        self._calling = packed.calling
        self._by_keyword = packed.by_keyword
        self._concurrency = concurrency if packed.calling == "row" else 1
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._closed = False

    def call(self, batch: pa.RecordBatch) -> pa.Array:
        """Call it with a batch.

        Parameters
        ----------
        batch
            A column for each parameter, in order, of the parameter's type.

        Returns
        -------
        pyarrow.Array
            Of the declared type, as long as the batch.

        Raises
        ------
        UserCodeError
            It raised; `row_index` says on which row, where it is called once per row.
        WrongResultError
            Its result has another type or length than declared.
        """
        if self._calling == "row":
            return self._call_rows(batch)
        args = [batch] if self._calling == "record_batch" else batch.columns
        positional, named = self._split(args)
        try:
            result = self._target(*positional, **named)
        except BaseException as error:
            raise UserCodeError(summary(error), **described(error)) from None
        return checked_batch(result, self.output_field, batch.num_rows)

    def _split(self, args: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        if not self._by_keyword:
            return args, {}
        first = len(args) - len(self._by_keyword)
        return args[:first], dict(zip(self._by_keyword, args[first:], strict=True))

    def _call_rows(self, batch: pa.RecordBatch) -> pa.Array:
        called = self._called_rows(batch)
        if called is None:
            return array_of(self._results(batch, range(batch.num_rows)), self.output_field)
        rows = [row for row, is_called in enumerate(called.to_pylist()) if is_called]
        values = self._results(batch.filter(called), rows)
        computed = array_of(values, self.output_field, rows)
        # Rows it was not called for get null: the position of each computed value, or none.
        positions = pc.if_else(called, pc.subtract(pc.cumulative_sum(called.cast(pa.int64())), 1), None)
        return computed.take(positions)

    def _called_rows(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Mark the rows without a null where the Function takes none; None if that is all of them."""
        called = None
        for field, column in zip(self.input_schema, batch.columns, strict=True):
            if not field.nullable and column.null_count:
                valid = column.is_valid()
                called = valid if called is None else pc.and_(called, valid)
        return called

    def _results(self, batch: pa.RecordBatch, rows: Sequence[int]) -> list[Any]:
        """Call it for each row of `batch`; `rows` are their indices in the batch it came from."""
        columns = [column.to_pylist() for column in batch.columns]
        if self._concurrency > 1 and batch.num_rows > 1:
            return self._results_at_once(list(zip(*columns, strict=True)), rows)
        results: list[Any] = []
        target, append = self._target, results.append
        try:
            if self._by_keyword:
                for args in zip(*columns, strict=True):
                    positional, named = self._split(args)
                    append(target(*positional, **named))
            elif len(columns) == 1:  # the usual case, without a tuple for each row
                for value in columns[0]:
                    append(target(value))
            else:
                for args in zip(*columns, strict=True):
                    append(target(*args))
        except BaseException as error:
            raise UserCodeError(summary(error), row_index=rows[len(results)], **described(error)) from None
        return results

    def _results_at_once(self, arguments: list[tuple[Any, ...]], rows: Sequence[int]) -> list[Any]:
        """Call it for several rows at a time; after a failure no further call begins."""
        results: list[Any] = [None] * len(arguments)
        failures: dict[int, UserCodeError] = {}
        indices = itertools.count()  # its next() is atomic
        context = contextvars.copy_context()

        def work() -> None:
            while not failures and (index := next(indices)) < len(arguments):
                positional, named = self._split(arguments[index])
                try:
                    results[index] = context.copy().run(self._target, *positional, **named)
                except BaseException as error:
                    failures[index] = UserCodeError(summary(error), row_index=rows[index], **described(error))

        threads = self._open_threads()
        for done in [threads.submit(work) for _ in range(min(self._concurrency, len(arguments)))]:
            done.result()
        if failures:
            raise failures[min(failures)] from None
        return results

    def _open_threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix=f"calls of {self.name}")
            return self._threads

    def close(self) -> None:
        """Call the `close()` of a class, once; a second time does nothing.

        Raises
        ------
        UserCodeError
            It raised; `kind` is `close`.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._threads is not None:
            self._threads.shutdown()
        close = getattr(self._target, "close", None) if self._is_instance else None
        if not callable(close):
            return
        try:
            close()
        except BaseException as error:
            raise UserCodeError(f"close(): {summary(error)}", kind="close", **described(error)) from None
