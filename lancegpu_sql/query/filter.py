"""Which rows of a table satisfy a condition, in DuckDB's meaning of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.query.engine import connect, duckdb_errors
from lancegpu_sql.query.readable import check_distinct, readable_field, to_readable
from lancegpu_sql.sql.names import fold, quote
from lancegpu_sql.sql.predicate import columns_of
from lancegpu_sql.tables.naming import ROW_ADDRESS, ROW_ID
from lancegpu_sql.tables.snapshot import Snapshot

_ROWS = "lancegpu_rows"
_PLACE = re.compile(r"^LINE (\d+): ", re.MULTILINE)


class RowFilter:
    """A condition over one version of a table, to be asked fragment by fragment.

    DuckDB alone decides: nothing is pushed down to Lance, whose meaning of a condition differs in places. Only the
    columns that the condition names are read.

    Parameters
    ----------
    snapshot
        The version of the table.
    predicate
        One expression in DuckDB's SQL over its visible columns and ``_rowid``, without subqueries.

    Raises
    ------
    InvalidQuery
        It is no such expression, or names a column that the table lacks, or one of two that are apart by case only.
    """

    def __init__(self, snapshot: Snapshot, predicate: str) -> None:
        self._snapshot = snapshot
        self._predicate = predicate
        visible = snapshot.schema.names
        wanted = columns_of(predicate, [*visible, ROW_ID])
        if wanted is None:
            wanted = (*visible, ROW_ID) if ROW_ID in fold(predicate) else tuple(visible)
        self._columns = [name for name in wanted if name != ROW_ID]
        self._with_row_id = ROW_ID in wanted
        stored = [snapshot.schema.field(name) for name in self._columns]
        check_distinct(snapshot.name, stored)
        of_rows = [ROW_ID, ROW_ADDRESS] if self._with_row_id else [ROW_ADDRESS]
        self._schema = pa.schema(
            [*map(readable_field, stored), *(pa.field(name, pa.uint64(), nullable=False) for name in of_rows)]
        )
        self._failure: LanceGpuError | None = None
        self._engine = connect()
        try:
            self._query = self._checked(predicate)
        except BaseException:
            self._engine.close()
            raise

    def addresses(self, fragment_id: int) -> npt.NDArray[np.uint64]:
        """The row addresses of a fragment's live rows for which the condition is true, not null, ascending.

        Returns
        -------
        numpy array of uint64
            In memory: these addresses, and some batches of the columns that are read.
        """
        found = [np.empty(0, dtype=np.uint64)]
        with self._condition_errors():
            cursor = self._engine.cursor()
            try:
                cursor.register(_ROWS, pa.RecordBatchReader.from_batches(self._schema, self._rows(fragment_id)))
                for batch in cursor.sql(self._query).to_arrow_reader(1_000_000):
                    found.append(batch.column(0).to_numpy())  # noqa: PERF401  # a stream, not a list
            except duckdb.Error:
                if self._failure is not None:
                    raise self._failure from None
                raise
            finally:
                cursor.close()
        addresses: npt.NDArray[np.uint64] = np.concatenate(found)
        addresses.sort()
        return addresses

    def close(self) -> None:
        """End the engine."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, fragment_id: int) -> Iterator[Any]:
        try:
            scan = self._snapshot.scan(
                self._columns, fragment_ids=[fragment_id], row_id=self._with_row_id, row_address=True
            )
            for batch in scan:
                yield to_readable(batch, self._schema)
        except LanceGpuError as exc:
            self._failure = exc  # DuckDB would pass on its words only
            raise

    def _checked(self, predicate: str) -> str:
        """The whole query, once DuckDB has read it and found every name."""
        source = f"{_ROWS} AS {quote(self._snapshot.name)}"
        query = f"SELECT {ROW_ADDRESS} FROM {source} WHERE (\n{predicate}\n)"  # noqa: S608  # the caller's own
        with self._condition_errors():
            empty = self._engine.cursor()
            if empty.get_table_names(query) != {_ROWS}:  # it leaves out what is registered already
                raise InvalidQuery(f"The condition {predicate.strip()!r} must not read other tables.")
            empty.register(_ROWS, self._schema.empty_table())
            empty.sql(query)
            empty.close()
        return query

    @contextmanager
    def _condition_errors(self) -> Iterator[None]:
        """Raise DuckDB's errors as ours, with the condition that it refused and the place in it."""
        try:
            with duckdb_errors():
                yield
        except InvalidQuery as exc:
            if not isinstance(exc.__cause__, duckdb.Error):
                raise
            said = _as_written(exc.message, self._predicate)
            if "Referenced column" in said:
                said += (
                    f"\nThe columns of {self._snapshot.name!r}: {', '.join(self._snapshot.schema.names)}, and {ROW_ID}"
                )
            raise InvalidQuery(
                f"DuckDB refuses the condition {self._predicate.strip()!r}. {said}", condition=self._predicate
            ) from exc.__cause__


def _as_written(message: str, predicate: str) -> str:
    """What DuckDB says of the query, in the lines of the predicate, which begins on the query's second."""
    place = _PLACE.search(message)
    if place is None:
        return message.rstrip()
    line = int(place[1]) - 1
    if line > predicate.count("\n") + 1:
        return "It is not complete."
    written = f"LINE {line}: "
    head, tail = message[: place.start()], message[place.end() :]
    shorter = len(place[0]) - len(written)
    return f"{head}{written}{' ' * shorter}{tail}".rstrip()
