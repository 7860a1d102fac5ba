"""Whole columns of one fragment, written beside the table: nothing shows until they are published."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from lancegpu_sql.errors import InvalidData
from lancegpu_sql.tables.columns import identity_of
from lancegpu_sql.tables.engine import lance, lance_errors, lance_file
from lancegpu_sql.tables.fragments import Fragment

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

# Ours can be told from Lance's own data files, which are named in binary digits.
FILE_PREFIX = "lancegpu-"

# One huge batch keeps Lance's encoder on one core; pieces of this size are encoded side by side. Measured on 2 cores:
# 1,000,000 rows of int64 and 16 bytes 63 ms whole, 17 ms in pieces; 307 MB of vectors 0.72 s whole, 0.13 s in pieces.
_PIECE_BYTES = 2 << 20


class ColumnIdentity(NamedTuple):
    """What must be the same of a column for its values to belong there."""

    field_id: int
    type: pa.DataType
    identity: str | None


@dataclass(frozen=True)
class ColumnFile:
    """A finished file of whole columns for one fragment, and what must still hold when it is published.

    `columns` says which columns by top-level field id, Arrow type and identity, `field_ids` are the leaf fields that
    the file holds, `fragment_files` the data files that the fragment had when this one was written.
    """

    fragment_id: int
    path: str
    rows: int
    size_bytes: int
    columns: tuple[ColumnIdentity, ...]
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
    file_version: tuple[int, int]
    fragment_files: frozenset[str]


class ColumnFileWriter:
    """Writes one ColumnFile from batches as they come; a context manager that aborts unless it was finished.

    The file holds exactly the fragment's `physical_rows` rows, deleted ones included, in physical order. Count, names
    and types are checked here because Lance checks none of them: a wrong file would commit and make the table
    unreadable. A crash leaves at most one file that no version names, ``data/lancegpu-*.lance``; Lance's clean-up
    removes such files when they are a week old.

    Parameters
    ----------
    snapshot, fragment
        For which fragment of which version.
    schema
        The columns: names and types as in the table's schema; nullability and metadata are not looked at.

    Raises
    ------
    InvalidData, ColumnNotFound
    """

    def __init__(self, snapshot: Snapshot, fragment: Fragment, schema: pa.Schema) -> None:
        self._snapshot = snapshot
        self._fragment = fragment
        # Lance writes what it is told: the table's own nullable fields, not what a batch claims about nulls.
        self._schema = pa.schema([pa.field(field.name, _table_type(snapshot, field)) for field in schema])
        self._name = f"{FILE_PREFIX}{uuid.uuid4().hex}.lance"
        self._path = data_path(self._name)
        self._rows = 0
        self._file: Any = None
        with lance_errors(snapshot.name):
            self._file = lance_file.LanceFileWriter(
                f"{snapshot.uri}/{self._path}",
                self._schema,
                version=snapshot.storage_version,
                storage_options=snapshot.storage_options,
            )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises
        ------
        InvalidData
            The columns differ from the schema, or these are more rows than the fragment has. The writer is aborted.
        """
        if self._file is None:
            raise ValueError("this column file is finished or aborted")
        if batch.schema.names != self._schema.names or batch.schema.types != self._schema.types:
            self._refuse(f"got columns {_described(batch.schema)} where {_described(self._schema)} were announced")
        self._rows += batch.num_rows
        if self._rows > self._fragment.physical_rows:
            self._refuse(f"got at least {self._rows} rows where the fragment has {self._fragment.physical_rows}")
        with lance_errors(self._snapshot.name):
            for piece in _pieces(batch):
                self._file.write_batch(piece.cast(self._schema) if piece.schema != self._schema else piece)

    def finish(self) -> ColumnFile:
        """Close the file and return it, ready to be published.

        Raises
        ------
        InvalidData
            Rows are missing. The file is removed.
        """
        if self._file is None:
            raise ValueError("this column file is finished or aborted")
        if self._rows != self._fragment.physical_rows:
            self._refuse(f"got {self._rows} rows where the fragment has {self._fragment.physical_rows}")
        snapshot = self._snapshot
        with lance_errors(snapshot.name):
            self._file.close()
            described = lance.fragment.DataFile.create(snapshot.dataset, self._name)
        self._file = None
        return ColumnFile(
            fragment_id=self._fragment.id,
            path=self._name,
            rows=self._rows,
            size_bytes=int(described.file_size_bytes),
            columns=tuple(column_identity(snapshot, name) for name in self._schema.names),
            field_ids=tuple(described.fields),
            column_indices=tuple(described.column_indices),
            file_version=(described.file_major_version, described.file_minor_version),
            fragment_files=frozenset(file.path for file in self._fragment.files),
        )

    def abort(self) -> None:
        """Drop what was written. Does nothing to a finished file."""
        if self._file is None:
            return
        # The frames of an error hold Lance's writer, whose unfinished file would take room as long as anyone holds the error.
        self._file._writer = None  # noqa: SLF001
        self._file = None
        self._snapshot.files.remove([self._path])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _refuse(self, what: str) -> None:
        self.abort()
        raise InvalidData(
            f"Table {self._snapshot.name!r}, fragment {self._fragment.id}: {what}.", table=self._snapshot.name
        )


def write(snapshot: Snapshot, fragment: Fragment, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ColumnFile:
    """Write a column file from all its batches."""
    with ColumnFileWriter(snapshot, fragment, schema) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def discard(snapshot: Snapshot, files: Iterable[ColumnFile]) -> None:
    """Remove finished files that will not be published. One that a version names must never come here."""
    snapshot.files.remove(data_path(file.path) for file in files)


def column_identity(snapshot: Snapshot, name: str) -> ColumnIdentity:
    """Return what tells a column from others that had, or will have, its name or field id."""
    field = snapshot.full_schema.field(name)
    return ColumnIdentity(snapshot.field_id(name), field.type, identity_of(field))


def data_path(name: str) -> str:
    """Return where below the table its data file of this name lies."""
    return f"data/{name}"


def missing(snapshot: Snapshot, files: Iterable[ColumnFile]) -> set[str]:
    """Return the names of those files that lie in the table's folder no more."""
    with lance_errors(snapshot.name):
        gone = snapshot.files.missing(data_path(file.path) for file in files)
    return {path.removeprefix("data/") for path in gone}


def _table_type(snapshot: Snapshot, field: pa.Field) -> pa.DataType:
    snapshot.field_id(field.name)
    present = snapshot.full_schema.field(field.name).type
    if present != field.type:
        raise InvalidData(
            f"Table {snapshot.name!r}: column {field.name!r} is of type {present}, not {field.type}.",
            table=snapshot.name,
            column=field.name,
        )
    return present


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= 2 * _PIECE_BYTES:
        yield batch
        return
    rows = max(1, batch.num_rows * _PIECE_BYTES // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
