"""What a query gives: a reading of it in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from lancegpu_sql.query.engine import duckdb_errors, error_for

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Opened = Callable[[], AbstractContextManager[duckdb.DuckDBPyRelation]]


class QueryResult:
    """The rows of a query.

    A query that only reads is run by each method that hands out rows, every time over the versions its tables had when
    it was asked, so that a large result is never kept unless the caller keeps it: ``table = result.to_arrow()`` once is
    cheaper than reading many times. A statement that does something was run once, and its result is kept.

    Attributes
    ----------
    columns : list of str
        The names of the columns.
    types : list of str
        Their types, as DuckDB writes them.
    """

    def __init__(self, opened: Opened, columns: list[str], types: list[str]) -> None:
        self._opened = opened
        self.columns = columns
        self.types = types

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        return f"QueryResult({shown})"

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        with self._relation() as relation:
            return relation.to_arrow_table()

    def to_reader(self, batch_rows: int = 65_536) -> pa.RecordBatchReader:
        """The rows as a stream, of which only a few batches are in memory at a time.

        The query runs while it is read; closing or dropping the reader ends it.

        Parameters
        ----------
        batch_rows
            The most rows of one batch.
        """
        batches = self._batches(batch_rows)
        schema = next(batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame."""
        with self._relation() as relation:
            frame: pd.DataFrame = relation.df()
            return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        with self._relation() as relation:
            return relation.fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None where there is none."""
        with self._relation() as relation:
            return next(iter(relation.limit(1).fetchall()), None)

    def show(self, max_rows: int = 40) -> None:
        """Print the first rows as a table; no more of them are read than DuckDB needs to show that there are more."""
        with self._relation() as relation:
            relation.show(max_rows=max_rows)

    @contextmanager
    def _relation(self) -> Iterator[duckdb.DuckDBPyRelation]:
        with duckdb_errors(), self._opened() as relation:
            yield relation

    def _batches(self, batch_rows: int) -> Iterator[Any]:
        """First the schema, then the batches."""
        with self._relation() as relation:
            reader = relation.to_arrow_reader(batch_rows)
            yield reader.schema
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except OSError as exc:  # Arrow's word for whatever DuckDB raised in mid-stream
                    raise error_for(exc) from exc
                yield batch
