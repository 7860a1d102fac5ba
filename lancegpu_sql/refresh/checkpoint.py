"""Results kept on disk from the moment they are computed until they are published.

A checkpoint part is an Arrow IPC file of rows `(address, row_id, digest, values…)`, in the order of the table. A part is
written under a temporary name and renamed when it is whole, so that a process that is killed leaves whole parts only. A
machine that loses its power may leave a damaged one: it is not synced to the disk, for what it holds can be computed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from lancegpu_sql.apply.digest import DIGEST_TYPE
from lancegpu_sql.catalog.private import make_folder, write_file
from lancegpu_sql.errors import StorageError
from lancegpu_sql.refresh.shared_folders import with_all_below

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
            make_folder(path.parent)
            write_file(self._temporary)
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
    for path in sorted(one for one in with_all_below(folder) if one.suffix == _SUFFIX):
        fields = path.stem.split("-")
        if len(fields) >= 4 and all(field.isdigit() for field in fields[-3:]):
            rows, least, greatest = (int(field) for field in fields[-3:])
            parts.append(Part(path, rows, least, greatest))
    return parts


def remove_parts(folder: Path) -> None:
    """Remove all parts under `folder`; what another process removed meanwhile is no fault."""
    shutil.rmtree(folder, ignore_errors=True)


def _refused(path: Path, exc: OSError) -> StorageError:
    return StorageError(
        f"could not keep computed rows in {path.parent}: {exc.strerror or exc}. "
        "Make room there and run the refresh again: finished parts are kept",
        path=str(path),
    )
