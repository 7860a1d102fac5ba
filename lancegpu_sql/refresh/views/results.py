"""Results of Functions kept on disk by the digests of their arguments, so that a view's refresh computes only new inputs.

A folder per Function version, in it files that never change: Arrow, the keys in order beside the values. The time at which
a file was last of use is its time of change; where all together are too large, those of use longest ago go first. Processes
may write and remove at once: who finds a file gone computes its values again.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancegpu_sql.apply.digest import DIGEST_TYPE, Lanes, from_array, to_array
from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.errors import StorageError
from lancegpu_sql.refresh.shared_folders import entries

FOLDER = "results"

_SUFFIX = ".arrow"
_UNFINISHED_SUFFIX = ".part"
_FLUSH_BYTES = 16 << 20
_FILES_OF_THE_LIMIT = 16
"""A file holds at most one part of so many of what the store may take, so that removing one removes little."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Results:
    """One file: keys in the order of their first halves, and their values."""

    path: Path
    keys: Lanes
    values: pa.Array
    size_bytes: int


class ResultStore:
    """The results of all Functions of one database.

    Parameters
    ----------
    folder
        The database's private one.
    limit_bytes
        What the files may take together; 0 keeps none.
    looks_only
        Nothing is kept, and a look is no use.
    """

    def __init__(self, folder: Path, limit_bytes: int, *, looks_only: bool = False) -> None:
        self._folder = folder / FOLDER
        self._limit_bytes = limit_bytes
        self.looks_only = looks_only

    def of(self, group: str, value_type: pa.DataType) -> FunctionResults:
        """Return those of one Function version: of `group`, its digest and, where a call says so, what its class is made with."""
        return FunctionResults(self, self._folder / group, value_type)

    @property
    def file_bytes(self) -> int:
        """How large one file may be."""
        return min(_FLUSH_BYTES, self._limit_bytes // _FILES_OF_THE_LIMIT)

    @property
    def keeps(self) -> bool:
        """Whether it keeps anything."""
        return self._limit_bytes > 0

    def size_bytes(self) -> int:
        """Return what the files take."""
        return sum(size for _, size, _ in self._files())

    def clear(self) -> None:
        """Remove all."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def trim(self) -> None:
        """Remove what was of use longest ago, until the rest is small enough."""
        files = sorted(self._files())
        size = sum(size for _, size, _ in files)
        for _, taken, path in files:
            if size <= self._limit_bytes:
                return
            path.unlink(missing_ok=True)
            size -= taken

    def unfinished(self) -> list[Path]:
        """Return the files that are being written, or were when whoever wrote them ended."""
        return list(self._all(_UNFINISHED_SUFFIX))

    def of_others(self, digests: Collection[str]) -> list[Path]:
        """Return the folders of Function versions other than these."""
        folders = (path for path in entries(self._folder) if path.is_dir())
        return [path for path in folders if path.name.partition("-")[0] not in digests]

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        """When each was of use, its size and where it is."""
        for path in self._all(_SUFFIX):
            with suppress(FileNotFoundError):
                found = path.stat()
                yield found.st_mtime_ns, found.st_size, path

    def _all(self, suffix: str) -> Iterator[Path]:
        return (path for group in entries(self._folder) for path in entries(group) if path.suffix == suffix)


class FunctionResults:
    """The results of one Function version; for one thread at a time."""

    def __init__(self, store: ResultStore, folder: Path, value_type: pa.DataType) -> None:
        self._store = store
        self._folder = folder
        self._type = value_type
        whole = [path for path in entries(folder) if path.suffix == _SUFFIX]
        self._files = [found for path in whole if (found := _read(path, value_type))]
        self._used: set[Path] = set()
        self._new_keys: list[Lanes] = []
        self._new_values: list[pa.Array] = []

    def find(self, keys: Lanes) -> tuple[npt.NDArray[np.bool_], pa.Array]:
        """Return which keys are known, and the values of these in their order."""
        file_of = np.full(len(keys), -1, dtype=np.int64)
        place = np.zeros(len(keys), dtype=np.int64)
        for number, file in enumerate(self._files):
            left = np.flatnonzero(file_of < 0)
            if not len(left):
                break
            at = np.minimum(np.searchsorted(file.keys[:, 0], keys[left, 0]), len(file.keys) - 1)
            same = (file.keys[at, 0] == keys[left, 0]) & (file.keys[at, 1] == keys[left, 1])
            file_of[left[same]], place[left[same]] = number, at[same]
            if same.any():
                self._touch(file)
        known = file_of >= 0
        return known, self._gathered(file_of[known], place[known])

    def add(self, keys: Lanes, values: pa.Array) -> None:
        """Keep results; they are found once they are written."""
        if not len(keys) or not self._store.keeps or self._store.looks_only:
            return
        self._new_keys.append(keys)
        self._new_values.append(values)
        if sum(len(one) * 16 for one in self._new_keys) + sum(one.nbytes for one in self._new_values) >= max(
            self._store.file_bytes, 1
        ):
            self.flush()

    def flush(self) -> None:
        """Write what was added.

        Raises
        ------
        StorageError
            The disk refuses.
        """
        if not self._new_keys:
            return
        keys, values = np.concatenate(self._new_keys), pa.concat_arrays(self._new_values)
        self._new_keys, self._new_values = [], []
        merged = self._to_merge(values.nbytes + 16 * len(keys))
        keys = np.concatenate([keys, *(file.keys for file in merged)])
        values = pa.concat_arrays([values, *(file.values for file in merged)])
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        keys = keys[order]
        first = np.concatenate([[True], (keys[1:] != keys[:-1]).any(axis=1)])
        written = self._write(keys[first], values.take(pa.array(order[first])))
        for file in merged:
            file.path.unlink(missing_ok=True)
        self._files = [file for file in self._files if file not in merged] + [written]
        self._store.trim()

    def _to_merge(self, size_bytes: int) -> list[_Results]:
        """The files, smallest first, that are no larger than what is written with them: so there are never many."""
        found: list[_Results] = []
        for file in sorted(self._files, key=lambda file: file.size_bytes):
            if file.size_bytes > 2 * size_bytes or size_bytes + file.size_bytes > self._store.file_bytes:
                break
            found.append(file)
            size_bytes += file.size_bytes
        return found

    def _write(self, keys: Lanes, values: pa.Array) -> _Results:
        table = pa.table({"key": to_array(keys), "value": values})
        path = self._folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
        beside = path.with_suffix(_UNFINISHED_SUFFIX)
        try:
            make_folder(self._folder.parent)
            make_folder(self._folder)
            with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            beside.rename(path)
        except OSError as exc:
            beside.unlink(missing_ok=True)
            raise StorageError(f"results cannot be kept in {self._folder}: {exc}", path=str(self._folder)) from exc
        found = _read(path, self._type)
        return found or _Results(path, keys, values, 0)

    def _touch(self, file: _Results) -> None:
        """Note that a file is of use."""
        if file.path not in self._used and not self._store.looks_only:
            self._used.add(file.path)
            with suppress(OSError):
                os.utime(file.path)

    def _gathered(self, file_of: Numbers, place: Numbers) -> pa.Array:
        if not len(file_of):
            return pa.nulls(0, self._type)
        order = np.argsort(file_of, kind="stable")
        used, starts = np.unique(file_of[order], return_index=True)
        pieces = [
            self._files[number].values.take(pa.array(place[rows]))
            for number, rows in zip(used.tolist(), np.split(order, starts[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(pieces).take(pa.array(back))


def _read(path: Path, value_type: pa.DataType) -> _Results | None:
    """A file's results, of which only what is needed is read; None where it is gone or not to be read."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        keys, values = table.column("key"), table.column("value")
    except (OSError, pa.ArrowException, KeyError):
        return None
    if keys.type != DIGEST_TYPE or values.type != value_type or not table.num_rows:
        return None
    lanes, _ = from_array(keys.combine_chunks())
    return _Results(path, lanes, values.combine_chunks(), table.nbytes)
