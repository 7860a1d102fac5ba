"""One version of a table as DuckDB scans it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from lancegpu_sql.query.readable import is_blob, readable_field, to_readable
from lancegpu_sql.tables.snapshot import Snapshot

# What Lance says to a condition that it cannot carry out.
_REFUSALS = (ValueError, NotImplementedError, pa.ArrowException, OSError)


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
    rows it drops. The rest (on structs, dictionaries, large strings, unsigned numbers, blobs, floats) is carried out
    here by Arrow, batch by batch, for whose meaning of a condition DuckDB made it.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.name = snapshot.name
        self._dataset = snapshot.dataset
        visible = snapshot.schema
        self._stored = {field.name: field for field in visible}
        self._schema = pa.schema([readable_field(field) for field in visible])
        # Lance orders NaNs by their sign, and has no meaning of its own for types that it hands out in another form.
        self._understood = pa.schema(
            [field for field in self._schema if not _nested(field.type) and field.type == self._stored[field.name].type]
        )

    @property
    def schema(self) -> pa.Schema:
        """The visible columns, under types that DuckDB reads."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Scan:  # noqa: A002
        """The rows that satisfy a condition, in the table's order. DuckDB calls this, each time it scans."""
        names = self._schema.names if columns is None else list(columns)
        if filter is None:
            return Scan(self._reader(names))
        if _binds(filter, self._understood):
            try:
                return Scan(self._reader(names, filter))
            except _REFUSALS:
                pass  # also a table with one column of a type that no condition can travel beside
        needed = names + [name for name in self._mentioned(filter) if name not in names]
        filtered = pa.dataset.Scanner.from_batches(self._reader(needed), columns=names, filter=filter)
        return Scan(filtered.to_reader())

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


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_floating(kind) or isinstance(kind, pa.BaseExtensionType))


def _binds(condition: Any, schema: pa.Schema) -> bool:
    """Whether a condition reads no column but these."""
    try:
        pa.dataset.Scanner.from_batches(iter(()), schema=schema, filter=condition)
    except (pa.ArrowException, KeyError):
        return False
    return True
