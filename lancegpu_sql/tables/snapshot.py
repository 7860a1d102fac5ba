"""A table at one version: what the manifest says, and its rows as record batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.catalog.models import ComputedColumn
from lancegpu_sql.errors import ColumnNotFound, InvalidData, InvalidQuery, NotFound, VersionNotFound
from lancegpu_sql.tables import column_file, declaring, publishing
from lancegpu_sql.tables.column_file import ColumnFile
from lancegpu_sql.tables.columns import declared_in
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.files import TableFiles, files_at
from lancegpu_sql.tables.fragments import Fragment, fragment_from, leaves_by_field
from lancegpu_sql.tables.history import History
from lancegpu_sql.tables.naming import ROW_ID, is_blob, is_hidden
from lancegpu_sql.tables.object_access import ObjectAccess
from lancegpu_sql.tables.publishing import Publication
from lancegpu_sql.tables.windows import Windows

_BATCH_BYTES = 8 << 20
_VERSIONS_END = 2**64  # what Lance counts them in


class Snapshot:
    """One version of a table. Opening one reads the manifest; the fragments are parsed when asked for.

    Parameters
    ----------
    name
        The table's name, for messages.
    uri
        Where the Lance dataset lies.
    dataset
        The open dataset, at the version that this snapshot pins.
    shown
        The columns that users see of it; all but hidden ones if left out.
    access
        How its object store is reached; None in a local folder.
    """

    def __init__(
        self,
        name: str,
        uri: str,
        dataset: Any,
        shown: Collection[str] | None = None,
        access: ObjectAccess | None = None,
    ) -> None:
        self._access = access
        self.name = name
        self.uri = uri
        self._dataset = dataset
        self._shown = shown

    @classmethod
    def open(cls, name: str, uri: str, version: int | None = None, access: ObjectAccess | None = None) -> Snapshot:
        """Return a table's latest version, or the one asked for.

        Raises
        ------
        TableNotFound, VersionNotFound
        """
        try:
            if version is not None and not 0 <= version < _VERSIONS_END:
                raise VersionNotFound(f"No version has the number {version}.")
            with lance_errors(name):
                dataset = lance.dataset(uri, version=version) if access is None else access.open(uri, version)
                return cls(name, uri, dataset, access=access)
        except VersionNotFound as exc:
            if version is None:
                raise
            raise VersionNotFound(
                f"Table {name!r} has no version {version}, or it has been cleaned up; list_versions() gives those it has.",
                table=name,
                version=version,
            ) from exc.__cause__

    def __repr__(self) -> str:
        return f"Snapshot({self.name!r}, version={self.version})"

    def latest(self) -> Snapshot:
        """Return the table's latest version, read anew."""
        return Snapshot.open(self.name, self.uri, access=self._access)

    def checkout(self, version: int) -> Snapshot:
        """Return another version of the table."""
        return Snapshot.open(self.name, self.uri, version, self._access)

    def at(self, dataset: Any) -> Snapshot:
        """Return the snapshot that an open dataset of this table is."""
        return Snapshot(self.name, self.uri, dataset, access=self._access)

    def showing(self, columns: Collection[str]) -> Snapshot:
        """Return the same version, of which users see no other columns than these."""
        return Snapshot(self.name, self.uri, self._dataset, columns, self._access)

    @property
    def dataset(self) -> Any:
        """The LanceDataset, a ``pyarrow.dataset.Dataset``: for a query engine to scan."""
        return self._dataset

    @property
    def storage_options(self) -> dict[str, str] | None:
        """How its object store is reached, secrets among it; None in a local folder."""
        return None if self._access is None else self._access.options or None

    @cached_property
    def files(self) -> TableFiles:
        """The table's files, for what Lance does not do by itself."""
        with lance_errors(self.name):
            return files_at(self.uri, self.storage_options)

    @cached_property
    def history(self) -> History:
        """What made this version and those before it."""
        return History(self.name, self.version, self._dataset)

    @property
    def version(self) -> int:
        """The version that this snapshot pins."""
        return int(self._dataset.version)

    @cached_property
    def full_schema(self) -> pa.Schema:
        """All columns, the hidden ones too."""
        schema: pa.Schema = self._dataset.schema
        return schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that users see."""
        visible = [field for field in self.full_schema if not is_hidden(field.name)]
        if self._shown is not None:
            visible = [field for field in visible if field.name in self._shown]
        return pa.schema(visible, self.full_schema.metadata)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether ``_rowid`` outlives updates and compaction. It does not in tables that LanceDB made."""
        return bool(self._dataset.has_stable_row_ids)

    @property
    def storage_version(self) -> str:
        """The version of Lance's file format in which the table's data is written, e.g. ``2.2``."""
        return str(self._dataset.data_storage_version)

    @property
    def has_first_format(self) -> bool:
        """Whether its data is in Lance's first file format, which cannot take computed columns."""
        return self.storage_version in ("0.1", "legacy")

    @cached_property
    def computed(self) -> tuple[ComputedColumn, ...]:
        """The declared computed columns, in the schema's order."""
        return declared_in(self.full_schema)

    @cached_property
    def leaves(self) -> dict[int, tuple[int, ...]]:
        """For each field id, the ids under which its data may stand in files: itself and what is nested in it."""
        return leaves_by_field(self._dataset.lance_schema.fields())

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments, in the order of the table's rows."""
        return tuple(fragment_from(one.metadata) for one in self._dataset.get_fragments())

    def fragment(self, fragment_id: int) -> Fragment:
        """Return one fragment."""
        try:
            return self._fragments_by_id[fragment_id]
        except KeyError:
            raise NotFound(f"Table {self.name!r} has no fragment {fragment_id} at version {self.version}.") from None

    @cached_property
    def _fragments_by_id(self) -> dict[int, Fragment]:
        return {fragment.id: fragment for fragment in self.fragments}

    @cached_property
    def _field_ids(self) -> dict[str, int]:
        return {field.name(): field.id() for field in self._dataset.lance_schema.fields()}

    def field_id(self, name: str) -> int:
        """Return a column's Lance field id, which outlives renames. Once it is dropped, another may get the id."""
        try:
            return self._field_ids[name]
        except KeyError:
            known = ", ".join(self.schema.names)
            raise ColumnNotFound(
                f"Table {self.name!r} has no column {name!r}; its columns are {known}.", table=self.name, column=name
            ) from None

    def field_name(self, field_id: int) -> str:
        """Return the present name of the column with this Lance field id."""
        for name, known in self._field_ids.items():
            if known == field_id:
                return name
        raise ColumnNotFound(f"Table {self.name!r} has no column with field id {field_id} any more.", table=self.name)

    def count_rows(self, where: str | None = None) -> int:
        """Return the number of live rows, from the manifest alone unless a condition (Lance's SQL) is given."""
        with lance_errors(self.name, InvalidQuery):
            return int(self._dataset.count_rows(filter=where))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        fragment_ids: Iterable[int] | None = None,
        row_id: bool = False,
        row_address: bool = False,
        batch_rows: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows in the table's order.

        Parameters
        ----------
        columns
            Which; hidden ones by name only. None means all that users see.
        fragment_ids
            Only the rows of these fragments.
        row_id, row_address
            Add ``_rowid`` and ``_rowaddr`` (uint64) at the end. An address is the fragment id times 2**32, plus the
            physical row.
        batch_rows
            The most rows of one batch, which has about 8 MB at most. Blob columns come as their bytes.

        Memory: a few windows of 64 MB, whatever the table's size, or one row where a row is larger.
        """
        fragments = self.fragments if fragment_ids is None else [self.fragment(one) for one in fragment_ids]
        yield from self._windowed(
            Windows([(fragment.id, fragment.live_rows) for fragment in fragments]),
            columns=self._known(columns),
            with_row_id=row_id,
            with_row_address=row_address,
            batch_size=batch_rows,
        )

    def take(self, ids: npt.NDArray[np.uint64], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows by their ids, with ``_rowid`` at the end; those that are gone are left out. For some thousands at a time."""
        names = [*self._known(columns), ROW_ID]
        with lance_errors(self.name):
            if any(is_blob(self.full_schema.field(name)) for name in names[:-1]):
                # Blobs are handed out by a scan only.
                condition = f"{ROW_ID} IN ({', '.join(map(str, ids.tolist()))})"
                options = {"columns": names, "filter": condition, "blob_handling": "all_binary"}
                yield from self._dataset.scanner(**options).to_batches()
            else:
                yield from self._dataset._take_rows(ids.tolist(), names).to_batches()  # noqa: SLF001  # the only way

    def read_physical(
        self, fragment_id: int, columns: Sequence[str], *, batch_rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a fragment as they lie in its files, deleted ones too, without row columns."""
        names = self._known(columns)
        fragment = self.fragment(fragment_id)
        deleted = fragment.live_rows < fragment.physical_rows
        # Lance hands out deleted rows only beside the row ids.
        for batch in self._windowed(
            Windows([(fragment.id, fragment.physical_rows)]),
            columns=names,
            with_row_id=deleted,
            include_deleted_rows=deleted,
            batch_size=batch_rows,
        ):
            yield batch.select(names)

    def _windowed(self, windows: Windows, **options: Any) -> Iterator[pa.RecordBatch]:
        """Scan one window after the other, so that memory stays bounded however wide the rows are."""
        with lance_errors(self.name):
            while (window := windows.next()) is not None:
                size_bytes = 0
                for batch in self._dataset.scanner(
                    fragments=[self._lance_fragment(one) for one in window.fragment_ids],
                    offset=window.offset,
                    limit=window.rows,
                    batch_size_bytes=_BATCH_BYTES,
                    blob_handling="all_binary",
                    **options,
                ).to_batches():
                    size_bytes += batch.nbytes
                    yield batch
                windows.learn(window.rows, size_bytes)

    def to_reader(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.RecordBatchReader:
        """Return the live rows as a stream: the columns that users see, or those named, ``_rowid`` among them.

        `where` is a condition in Lance's SQL.
        """
        names = self._known(columns)
        with lance_errors(self.name, InvalidData if where is None else InvalidQuery):
            reader: pa.RecordBatchReader = self._dataset.scanner(
                columns=names, filter=where, blob_handling="all_binary"
            ).to_reader()
            return reader

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Return the live rows, or those for which a condition (Lance's SQL) is true, as one Arrow table."""
        with lance_errors(self.name, InvalidData if where is None else InvalidQuery):
            return self.to_reader(columns, where).read_all()

    def head(self, rows: int = 5, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows."""
        with lance_errors(self.name):
            table: pa.Table = self._dataset.scanner(
                columns=self._known(columns), limit=rows, blob_handling="all_binary"
            ).to_table()
            return table

    def write_column_file(self, fragment_id: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> ColumnFile:
        """Write whole columns for one fragment, to be published later; see ColumnFileWriter."""
        return column_file.write(self, self.fragment(fragment_id), schema, batches)

    def publish(self, files: Sequence[ColumnFile], *, job_id: str, guard: Callable[[Fragment], bool]) -> Publication:
        """Make column files part of the table's latest version; see `publishing.publish`."""
        return publishing.publish(self, files, job_id=job_id, guard=guard)

    def declare(self, columns: Sequence[tuple[pa.Field, ComputedColumn]], proof: str) -> Snapshot:
        """Add computed columns of one binding, empty; see `declaring.declare`."""
        return declaring.declare(self, columns, proof)

    def repoint(self, columns: Sequence[ComputedColumn]) -> Snapshot:
        """Replace the declarations of existing computed columns; see `declaring.repoint`."""
        return declaring.repoint(self, columns)

    def _known(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        for name in columns:
            if name != ROW_ID:
                self.field_id(name)
        return list(columns)

    def _lance_fragment(self, fragment_id: int) -> Any:
        return self._dataset.get_fragment(self.fragment(fragment_id).id)
