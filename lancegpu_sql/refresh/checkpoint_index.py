"""Finds again what an interrupted refresh had computed, by row id and digest.

Wherever a row has moved to meanwhile, a value whose digest is that of the row's present inputs is the value. Memory does
not grow with the table: the keys of a few parts are held, and values are read in runs of bounded size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from lancegpu_sql.apply.digest import Lanes, from_array, is_failed, same
from lancegpu_sql.refresh.checkpoint import DIGEST, KEY_FIELDS, ROW_ID, Part

_INDEXED_PARTS = 4  # keys of this many parts are held at once: at most 32 bytes × max_part_rows each
_RUN_BYTES = 32 << 20

_Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Found:
    """Rows that checkpoints hold: `rows` is a mask over those asked for; their values are read by `values`."""

    rows: npt.NDArray[np.bool_]
    _parts: tuple[_IndexedPart, ...]
    _part_of: _Places
    _place_in_part: _Places

    def values(self) -> Iterator[tuple[_Places, pa.RecordBatch]]:
        """Yield places among the rows asked for, ascending, and the values there, about 32 MB at a time."""
        places = np.flatnonzero(self.rows)
        step = max(1, int(_RUN_BYTES / max((part.row_bytes for part in self._parts), default=1.0)))
        for start in range(0, len(places), step):
            run = places[start : start + step]
            yield run, self._read(run)

    def _read(self, run: _Places) -> pa.RecordBatch:
        pieces, wheres = [], []
        for at in np.unique(self._part_of[run]):
            mine = np.flatnonzero(self._part_of[run] == at)
            pieces.append(self._parts[at].read(self._place_in_part[run[mine]]))
            wheres.append(mine)
        return _in_order(pieces, wheres)


class CheckpointIndex:
    """The parts of earlier, interrupted refreshes of one column.

    Parameters
    ----------
    parts
        Finished parts. One of another schema is passed over; one that cannot be read is `damaged`.
    schema
        Of the parts that are wanted.
    """

    def __init__(self, parts: Sequence[Part], schema: pa.Schema) -> None:
        self._value_names = schema.names[len(KEY_FIELDS) :]
        self._parts: list[Part] = []
        self._loaded: OrderedDict[Path, _IndexedPart] = OrderedDict()
        self.damaged: list[Path] = []
        for part in parts:
            found = _schema_of(part)
            if found is None:
                self.damaged.append(part.path)
            elif part.rows and found.equals(schema):
                self._parts.append(part)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def find(self, row_ids: npt.NDArray[np.uint64], digests: Lanes) -> Found:
        """Find the rows whose values are known."""
        rows = np.zeros(len(row_ids), dtype=bool)
        part_of, place_in_part = np.zeros(len(row_ids), dtype=np.intp), np.zeros(len(row_ids), dtype=np.intp)
        used: list[_IndexedPart] = []
        least, greatest = (int(row_ids.min()), int(row_ids.max())) if len(row_ids) else (1, 0)
        for part in list(self._parts):
            if part.greatest_row_id < least or part.least_row_id > greatest:
                continue
            keys = self._keys(part)
            if keys is None:
                continue
            wanted = np.flatnonzero(~rows)
            hits, places = keys.lookup(row_ids[wanted], digests[wanted])
            rows[wanted[hits]] = True
            part_of[wanted[hits]], place_in_part[wanted[hits]] = len(used), places
            used.append(keys)
        return Found(rows, tuple(used), part_of, place_in_part)

    def _keys(self, part: Part) -> _IndexedPart | None:
        keys = self._loaded.pop(part.path, None)
        if keys is None:
            try:
                keys = _IndexedPart(part, self._value_names)
            except (pa.ArrowException, OSError, ValueError):
                self._parts.remove(part)
                self.damaged.append(part.path)
                return None
        self._loaded[part.path] = keys
        if len(self._loaded) > _INDEXED_PARTS:
            self._loaded.popitem(last=False)
        return keys


class _IndexedPart:
    """The row ids of one part, sorted, and where their digests and values stand in the file."""

    def __init__(self, part: Part, value_names: Sequence[str]) -> None:
        self._path = str(part.path)
        self._value_names = list(value_names)
        ids, digests, size_bytes = [], [], 0
        # Mapped, and only the keys copied: the values of a part may be larger than memory.
        with pa.memory_map(self._path, "rb") as file:
            reader = pa.ipc.open_file(file)
            for at in range(reader.num_record_batches):
                batch = reader.get_batch(at)
                batch.validate()
                ids.append(batch.column(ROW_ID).to_numpy().copy())
                digests.append(from_array(batch.column(DIGEST))[0].copy())
                size_bytes += batch.nbytes
        row_ids = np.concatenate(ids)
        if len(row_ids) != part.rows:
            raise ValueError(f"{part.path} holds {len(row_ids)} rows, not the {part.rows} of its name")
        self.row_bytes = size_bytes / part.rows
        self._order = np.argsort(row_ids, kind="stable")
        self._row_ids = row_ids[self._order]
        self._digests = np.concatenate(digests)[self._order]
        self._starts = np.cumsum([0, *(len(chunk) for chunk in ids)])

    def lookup(self, row_ids: npt.NDArray[np.uint64], digests: Lanes) -> tuple[_Places, _Places]:
        """Return which of the rows this part holds, and at which places of the file."""
        at = np.searchsorted(self._row_ids, row_ids)
        at[at == len(self._row_ids)] = 0
        stored = self._digests[at]
        # A row that failed has no value here: it is tried again.
        hits = np.flatnonzero((self._row_ids[at] == row_ids) & same(stored, digests) & ~is_failed(stored))
        return hits, self._order[at[hits]]

    def read(self, places: _Places) -> pa.RecordBatch:
        """Read the values at these places of the file, in the order asked for."""
        with pa.memory_map(self._path, "rb") as file:
            reader = pa.ipc.open_file(file)
            chunk_of = np.searchsorted(self._starts, places, side="right") - 1
            pieces, wheres = [], []
            for chunk in np.unique(chunk_of):
                mine = np.flatnonzero(chunk_of == chunk)
                rows = pa.array(places[mine] - self._starts[chunk])
                pieces.append(reader.get_batch(int(chunk)).select(self._value_names).take(rows))
                wheres.append(mine)
            return _in_order(pieces, wheres)


def _in_order(pieces: Sequence[pa.RecordBatch], wheres: Sequence[_Places]) -> pa.RecordBatch:
    """Join pieces whose rows belong at the given places."""
    return pa.concat_batches(pieces).take(pa.array(np.argsort(np.concatenate(wheres))))


def _schema_of(part: Part) -> pa.Schema | None:
    try:
        with pa.memory_map(str(part.path), "rb") as file:
            schema: pa.Schema = pa.ipc.open_file(file).schema
            return schema
    except (pa.ArrowException, OSError):
        return None
