"""Results kept on disk from the moment they are computed until they are published.

A checkpoint part is an Arrow IPC file of rows `(address, row_id, digest, values…)`, in the order of the table. A part is
written under a temporary name and renamed when it is whole, so that whatever stands under its own name is whole. Parts of
an interrupted refresh are found again by row id and digest: wherever the row has moved to meanwhile, a value whose digest
is that of the row's present inputs is the value.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from lancegpu_sql.errors import StorageError
from lancegpu_sql.refresh.digest import DIGEST_TYPE, Lanes, from_array, same

# Names that no column of a user's can have (see `tables`).
ADDRESS = "_lancegpu_address"
ROW_ID = "_lancegpu_row_id"
DIGEST = "_lancegpu_digest"

KEY_FIELDS = (
    pa.field(ADDRESS, pa.uint64(), nullable=False),
    pa.field(ROW_ID, pa.uint64(), nullable=False),
    pa.field(DIGEST, DIGEST_TYPE, nullable=False),
)
"""What identifies a computed row: where it stands, which row it is, what it was computed from."""

_SUFFIX = ".arrow"
_INDEXED_PARTS = 4  # keys of this many parts are held at once: at most 24 bytes × max_part_rows each


def part_schema(value_fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema of a part whose values are `value_fields`."""
    return pa.schema([*KEY_FIELDS, *value_fields])


@dataclass(frozen=True)
class Part:
    """One finished checkpoint file and the range of row ids in it."""

    path: Path
    rows: int
    least_row_id: int
    greatest_row_id: int


class PartWriter:
    """Writes one part; nothing counts before `finish`."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._temporary = path.with_suffix(".partial")
        self._rows = 0
        self._least = 2**64 - 1
        self._greatest = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = pa.OSFile(str(self._temporary), "wb")
            self._writer = pa.ipc.new_file(self._file, schema)
        except OSError as exc:
            raise _refused(path, exc) from exc

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; raises `StorageError` where the disk is full."""
        if batch.num_rows == 0:
            return
        row_ids = batch.column(ROW_ID).to_numpy()
        self._least = min(self._least, int(row_ids.min()))
        self._greatest = max(self._greatest, int(row_ids.max()))
        self._rows += batch.num_rows
        try:
            self._writer.write_batch(batch)
        except OSError as exc:
            self.abandon()
            raise _refused(self._path, exc) from exc

    @property
    def abandoned(self) -> bool:
        """Whether the part is given up: by `abandon`, or because the disk refused it."""
        return bool(self._file.closed)

    def finish(self) -> Part:
        """Close the file, give it its name, and return what it holds."""
        try:
            self._writer.close()
            self._file.close()
            final = self._path.with_name(f"{self._path.name}-{self._rows}-{self._least}-{self._greatest}{_SUFFIX}")
            self._temporary.replace(final)
        except OSError as exc:
            self.abandon()
            raise _refused(self._path, exc) from exc
        return Part(final, self._rows, self._least, self._greatest)

    def abandon(self) -> None:
        """Close and forget what was written."""
        try:
            self._file.close()
        finally:
            self._temporary.unlink(missing_ok=True)


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """Read a part batch by batch, in order."""
    try:
        with pa.OSFile(str(part.path), "rb") as file:
            reader = pa.ipc.open_file(file)
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)
    except OSError as exc:
        raise _refused(part.path, exc) from exc


def find_parts(folder: Path) -> list[Part]:
    """Return the finished parts under `folder`, its subfolders included, oldest first."""
    parts = []
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        fields = path.stem.split("-")
        if len(fields) >= 4 and all(field.isdigit() for field in fields[-3:]):
            rows, least, greatest = (int(field) for field in fields[-3:])
            parts.append(Part(path, rows, least, greatest))
    return parts


def remove_parts(folder: Path) -> None:
    """Remove all parts under `folder`; what another process removed meanwhile is no fault."""
    shutil.rmtree(folder, ignore_errors=True)


class CheckpointIndex:
    """Finds the values of rows that an interrupted refresh had computed.

    Holds the keys of a few parts at a time, so that its memory does not grow with the table.
    """

    def __init__(self, parts: Sequence[Part], schema: pa.Schema) -> None:
        self._schema = schema
        self._parts = [part for part in parts if part.rows and _has_schema(part, schema)]
        self._loaded: OrderedDict[Path, _PartKeys] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def find(
        self, row_ids: npt.NDArray[np.uint64], digests: Lanes
    ) -> tuple[npt.NDArray[np.bool_], pa.RecordBatch | None]:
        """Return which of the rows are known, and their values in the same order (None where none is)."""
        found = np.zeros(len(row_ids), dtype=bool)
        places: list[npt.NDArray[np.intp]] = []
        batches: list[pa.RecordBatch] = []
        if not self._parts or not len(row_ids):
            return found, None
        least, greatest = int(row_ids.min()), int(row_ids.max())
        for part in self._parts:
            if part.greatest_row_id < least or part.least_row_id > greatest:
                continue
            wanted = np.flatnonzero(~found)
            hits, values = self._keys(part).lookup(row_ids[wanted], digests[wanted])
            if values is not None:
                found[wanted[hits]] = True
                places.append(wanted[hits])
                batches.append(values)
        if not batches:
            return found, None
        order = np.argsort(np.concatenate(places))
        table = pa.Table.from_batches(batches).combine_chunks().take(pa.array(order))
        return found, table.combine_chunks().to_batches()[0]

    def _keys(self, part: Part) -> _PartKeys:
        keys = self._loaded.pop(part.path, None) or _PartKeys(part, self._schema)
        self._loaded[part.path] = keys
        if len(self._loaded) > _INDEXED_PARTS:
            self._loaded.popitem(last=False)
        return keys


class _PartKeys:
    """The row ids of one part, sorted, and where their digests and values stand in the file."""

    def __init__(self, part: Part, schema: pa.Schema) -> None:
        self._part = part
        self._value_names = schema.names[len(KEY_FIELDS) :]
        ids, digests = [], []
        for batch in read_part(part):
            ids.append(batch.column(ROW_ID).to_numpy())
            digests.append(from_array(batch.column(DIGEST))[0])
        unsorted = np.concatenate(ids)
        self._order = np.argsort(unsorted, kind="stable")
        self._row_ids = unsorted[self._order]
        self._digests = np.concatenate(digests)[self._order]
        self._starts = np.cumsum([0, *(len(chunk) for chunk in ids)])

    def lookup(
        self, row_ids: npt.NDArray[np.uint64], digests: Lanes
    ) -> tuple[npt.NDArray[np.intp], pa.RecordBatch | None]:
        at = np.searchsorted(self._row_ids, row_ids)
        at[at == len(self._row_ids)] = 0
        hit = (self._row_ids[at] == row_ids) & same(self._digests[at], digests)
        hits = np.flatnonzero(hit)
        return (hits, self._read(self._order[at[hits]])) if len(hits) else (hits, None)

    def _read(self, positions: npt.NDArray[np.intp]) -> pa.RecordBatch:
        """Read the values at these positions of the file, in the order asked for."""
        with pa.memory_map(str(self._part.path), "rb") as file:
            reader = pa.ipc.open_file(file)
            chunk_of = np.searchsorted(self._starts, positions, side="right") - 1
            pieces, places = [], []
            for chunk in np.unique(chunk_of):
                mine = np.flatnonzero(chunk_of == chunk)
                rows = pa.array(positions[mine] - self._starts[chunk])
                pieces.append(reader.get_batch(int(chunk)).select(self._value_names).take(rows))
                places.append(mine)
            table = pa.Table.from_batches(pieces).take(pa.array(np.argsort(np.concatenate(places))))
            return table.combine_chunks().to_batches()[0]


def _has_schema(part: Part, schema: pa.Schema) -> bool:
    with pa.memory_map(str(part.path), "rb") as file:
        found: pa.Schema = pa.ipc.open_file(file).schema
        return bool(found.equals(schema))


def _refused(path: Path, exc: OSError) -> StorageError:
    return StorageError(
        f"could not keep computed rows in {path.parent}: {exc.strerror or exc}. "
        "Make room there and run the refresh again: finished parts are kept",
        path=str(path),
    )
