"""What a query gives: a reading of it in the form that is asked for."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb
import pyarrow as pa

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.query.aside import Aside
from lancegpu_sql.query.engine import cause_of, duckdb_errors, error_for
from lancegpu_sql.query.private_names import holds_private
from lancegpu_sql.sql.names import quote
from lancegpu_sql.tables.frames import library_of_frames

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_INTERRUPT_SECONDS = 0.05

Result = TypeVar("Result")


class Reading(Protocol):
    """A query that is being run. `computes` says whether Functions do, which takes its time."""

    computes: bool

    def call(self, work: Callable[[Any], Result]) -> Result:
        """Do something with the relation that it is, and raise our errors instead of DuckDB's."""

    def cancel(self) -> None:
        """End it from another thread."""


Opened = Callable[[], AbstractContextManager[Reading]]


class PlainReading:
    """A query without Functions.

    While DuckDB works it does not hear Ctrl-C, so that it works in a thread of its own for who reads in the main one.
    """

    computes = False

    def __init__(self, cursor: duckdb.DuckDBPyConnection, bind: Callable[[], Any]) -> None:
        self._cursor = cursor
        self._bind = bind
        self._aside: Aside | None = None

    @cached_property
    def relation(self) -> Any:
        """What DuckDB has bound; a statement that does something has run."""
        return self._bind()

    def call(self, work: Callable[[Any], Result]) -> Result:
        """Do something with the relation."""
        with duckdb_errors():
            try:
                return self._do(lambda: work(self.relation))
            except OSError as exc:  # Arrow's word for whatever DuckDB raised in mid-stream
                raise error_for(exc) from cause_of(exc)

    def cancel(self) -> None:
        """Interrupt what DuckDB does."""
        self._cursor.interrupt()

    def close(self) -> None:
        """End its thread."""
        if self._aside is not None:
            self._aside.close()

    def _do(self, work: Callable[[], Result]) -> Result:
        if threading.current_thread() is not threading.main_thread():
            return work()
        if self._aside is None:
            self._aside = Aside("lancegpu query")
        try:
            return self._aside.call(work)
        except KeyboardInterrupt:
            while not self._aside.idle(_INTERRUPT_SECONDS):
                self._cursor.interrupt()  # one that comes between two steps of DuckDB is lost on it
            raise


class QueryResult:
    """The rows of a query.

    A query that only reads is run by each method that hands out rows, every time over the versions its tables had when
    it was asked, so that a large result is never kept unless the caller keeps it: ``table = result.to_arrow()`` once is
    cheaper than reading many times. A statement that does something was run once, and its result is kept.

    What Functions computed for one reading is kept for the next within a bound, the setting `query_memo_bytes` for each
    Function; beyond it, and for Functions that are not deterministic, values are computed again.

    Attributes
    ----------
    columns : list of str
        The names of the columns.
    types : list of str
        Their types, as DuckDB writes them.
    """

    def __init__(self, opened: Opened, columns: list[str], types: list[str]) -> None:
        self._opened = opened
        self._readings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.columns = columns
        self.types = types

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        return f"QueryResult({shown})"

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        table: pa.Table = self._read(lambda relation: relation.to_arrow_table())
        return table.rename_columns(self._written(table.column_names))

    def to_reader(self, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """The rows as a stream, of which only a few batches are in memory at a time.

        The query runs while it is read, and ends when the reader is dropped. Workers are given back a third of a second after
        whoever reads has closed it, or has paused; at once by `cancel`.

        Parameters
        ----------
        batch_rows
            The most rows of one batch.
        """
        batches = self._batches(batch_rows)
        schema = next(batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame.

        Raises
        ------
        InvalidInput
            pandas is not installed.
        """
        library_of_frames("pandas")
        frame: pd.DataFrame = self._read(lambda relation: relation.df())
        frame.columns = self._written(frame.columns)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame.

        Raises
        ------
        InvalidInput
            polars is not installed.
        """
        library = library_of_frames("polars")
        frame: pl.DataFrame = library.from_arrow(self.to_arrow())
        return frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        rows: list[tuple[Any, ...]] = self._read(lambda relation: relation.fetchall())
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None where there is none; no other is computed. Every call begins anew."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The first rows as tuples of Python values; no others are computed. Every call begins anew.

        One part of a large result after the other comes from `to_reader`.

        Parameters
        ----------
        size
            How many at most.
        """
        if size < 0:
            raise InvalidInput(f"fetchmany() takes how many rows, 0 or more, not {size}.", size=size)
        rows: list[tuple[Any, ...]] = self._read(lambda relation: relation.limit(size).fetchall())
        return rows

    def df(self) -> pd.DataFrame:
        """`to_pandas`, by DuckDB's name for it."""
        return self.to_pandas()

    def pl(self) -> pl.DataFrame:
        """`to_polars`, by DuckDB's name for it."""
        return self.to_polars()

    def arrow(self, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """`to_reader`, by DuckDB's name for it; a table is `to_arrow`."""
        return self.to_reader(batch_rows)

    def show(self, max_rows: int = 40) -> None:
        """Print the first rows as a table; no more of them are read than DuckDB needs to show that there are more.

        Of a query that calls Functions no more rows are computed than are shown.
        """
        with self._reading() as reading:
            if not reading.computes:
                reading.call(lambda relation: relation.show(max_rows=max_rows))
                return
            reading.call(lambda relation: self._show_first(relation, max_rows))
            print(f"(at most {max_rows} rows are computed to be shown)")  # noqa: T201  # as DuckDB does

    def cancel(self) -> None:
        """End every reading of it that is under way, in whichever thread; that one raises an error."""
        with self._lock:
            readings = list(self._readings)
        for reading in readings:
            reading.cancel()

    def _read(self, work: Callable[[Any], Result]) -> Result:
        with self._reading() as reading:
            return reading.call(work)

    @contextmanager
    def _reading(self) -> Iterator[Reading]:
        with duckdb_errors(), self._opened() as reading:
            with self._lock:
                self._readings.add(reading)
            try:
                yield reading
            finally:
                with self._lock:
                    self._readings.discard(reading)

    def _batches(self, batch_rows: int) -> Iterator[Any]:
        """First the schema, then the batches."""
        with self._reading() as reading:
            reader = reading.call(lambda relation: relation.to_arrow_reader(batch_rows))
            names = self._written(reader.schema.names)
            yield pa.schema([field.with_name(name) for field, name in zip(reader.schema, names, strict=True)])
            while (batch := reading.call(lambda _relation: next(reader, None))) is not None:
                yield batch.rename_columns(names)

    def _show_first(self, relation: Any, rows: int) -> None:
        shown = relation.limit(rows)
        if any(map(holds_private, shown.columns)):
            names = self._written(shown.columns)
            shown = shown.project(", ".join(f"#{at} AS {quote(name)}" for at, name in enumerate(names, 1)))
        shown.show(max_rows=rows)

    def _written(self, names: Iterable[str]) -> list[str]:
        """Names of columns as they are called here: a call that DuckDB makes by itself is one of a private name there."""
        return [written if holds_private(name) else name for name, written in zip(names, self.columns, strict=True)]
