"""One version of a table as DuckDB scans it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from lancegpu_sql.query.looked_up import ids_meant
from lancegpu_sql.query.readable import readable_field, to_readable
from lancegpu_sql.tables.naming import ROW_ID, is_blob
from lancegpu_sql.tables.reading import Reading
from lancegpu_sql.tables.snapshot import Snapshot

# What Lance says to a condition that it cannot carry out.
_REFUSALS = (ValueError, NotImplementedError, pa.ArrowException, OSError)

# What Lance is told of a condition doubles with each AND or OR in it: beyond these brackets Arrow checks the rows.
_MOST_BRACKETS = 20


@dataclass(frozen=True)
class Scan:
    """One scan under way, in the shape in which DuckDB takes it."""

    reader: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows, once."""
        return self.reader


class TableRelation(pa.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A table's visible columns at one version; it can be scanned many times, also at once.

    DuckDB asks an object of this class for the columns that a query reads and hands over conditions, which it does not
    check again. Lance carries out those that it understands, with its indexes and without reading other columns of the
    rows it drops. The rest (on structs, dictionaries, large strings, unsigned numbers, blobs) is carried out here by
    Arrow, batch by batch, for whose meaning of a condition DuckDB made it.

    Parameters
    ----------
    snapshot
        The version.
    row_columns
        What Lance knows of rows beside their columns, such as ``_rowid``: uint64, shown behind these.
    """

    def __init__(self, snapshot: Snapshot, row_columns: Sequence[str] = ()) -> None:
        self.name = snapshot.name
        self.snapshot = snapshot
        self.row_columns = tuple(row_columns)
        self._dataset = snapshot.dataset
        self._reading = Reading(snapshot)
        visible = [*snapshot.schema, *(pa.field(name, pa.uint64(), nullable=False) for name in row_columns)]
        self._stored = {field.name: field for field in visible}
        self._schema = pa.schema([readable_field(field) for field in visible])
        self._plain = _fields_where(_is_plain, self._stored)
        self._plain_or_float = _fields_where(lambda kind: _is_plain(kind) or pa.types.is_floating(kind), self._stored)

    @property
    def schema(self) -> pa.Schema:
        """The visible columns, under types that DuckDB reads."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Scan:  # noqa: A002
        """The rows that satisfy a condition, in the table's order. DuckDB calls this, each time it scans."""
        names = self._schema.names if columns is None else list(columns)
        if filter is None:
            return Scan(self._reader(names))
        if _binds(filter, self._plain):
            rows = self._filtered_by_lance(names, filter)
            if rows is not None:
                return Scan(rows)
        needed = names + [name for name in self._mentioned(filter) if name not in names]
        looked_up = self._looked_up(filter)
        if looked_up is not None:
            rows = self._reader(needed, looked_up)
            return Scan(pa.dataset.Scanner.from_batches(rows, columns=names, filter=filter).to_reader())
        # Lance takes a NaN with its sign bit set for the least of numbers, so that it finds rows too many, and Arrow has
        # the last word; under a negation they would be too few.
        superset = _binds(filter, self._plain_or_float) and "invert" not in str(filter)
        rows = (self._filtered_by_lance(needed, filter) if superset else None) or self._reader(needed)
        return Scan(pa.dataset.Scanner.from_batches(rows, columns=names, filter=filter).to_reader())

    def _looked_up(self, condition: Any) -> str | None:
        """What Lance finds few rows by without reading others, in its SQL; None where a condition is about more than row ids."""
        if ROW_ID not in self.row_columns:
            return None
        alone = _binds(condition, pa.schema([self._schema.field(ROW_ID)]))
        ids = ids_meant(
            condition, self._schema.names, self._dataset.scanner(columns=[ROW_ID]).to_reader if alone else None
        )
        if ids is None:
            return None
        return f"{ROW_ID} IN ({', '.join(map(str, ids))})" if ids else "false"

    def _filtered_by_lance(self, names: Sequence[str], condition: Any) -> pa.RecordBatchReader | None:
        """The rows that satisfy a condition in Lance's meaning of it; None where Lance refuses it, or it would take long.

        It also refuses any condition on a table with a column of some types, such as durations.
        """
        if str(condition).count("(") > _MOST_BRACKETS:
            return None
        try:
            return self._reader(names, condition)
        except _REFUSALS:
            return None

    def _reader(self, names: Sequence[str], condition: Any = None) -> pa.RecordBatchReader:
        fields = [self._stored[name] for name in names]
        blobs = {"blob_handling": "all_binary"} if any(map(is_blob, fields)) else {}
        reader: pa.RecordBatchReader = self._dataset.scanner(columns=list(names), filter=condition, **blobs).to_reader()
        schema = pa.schema([self._schema.field(name) for name in names])
        if reader.schema.types == schema.types:
            return reader
        return pa.RecordBatchReader.from_batches(schema, (to_readable(batch, schema) for batch in reader))

    def _mentioned(self, condition: Any) -> list[str]:
        """The columns without which a condition has no meaning."""
        text = str(condition)
        candidates = [field for field in self._schema if field.name in text]
        return [
            field.name
            for field in candidates
            if not _binds(condition, pa.schema([other for other in candidates if other is not field]))
        ]


def _fields_where(suits: Callable[[pa.DataType], bool], stored: dict[str, pa.Field]) -> pa.Schema:
    """The columns of suitable types that DuckDB reads as they are stored."""
    return pa.schema(
        [field for field in stored.values() if suits(field.type) and readable_field(field).type == field.type]
    )


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Lance, where it accepts a condition on this type at all, means by it what DuckDB means."""
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind) or isinstance(kind, pa.BaseExtensionType))


def _binds(condition: Any, schema: pa.Schema) -> bool:
    """Whether a condition reads no column but these."""
    try:
        pa.dataset.Scanner.from_batches(iter(()), schema=schema, filter=condition)
    except (pa.ArrowException, KeyError):
        return False
    return True
