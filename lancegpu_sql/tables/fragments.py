"""What a version's manifest says about a fragment: its files and its rows, without reading either."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# What stands in a file's list of fields where a newer file took a field over.
TOMBSTONE = -2

FRAGMENT_ROWS = 1 << 20
"""As many rows as Lance puts into one fragment, and as compaction aims at."""


@dataclass(frozen=True, slots=True)
class DataFileRef:
    """One data file: its path below ``data/``, unique for ever, the leaf fields that are read from it, and its size."""

    path: str
    field_ids: tuple[int, ...]
    size_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of one version. Files never change; a fragment that keeps its files keeps its rows, in order.

    `deletions` names the set of rows deleted from it, None where none is. It grows, and `restore` brings old ones back.
    """

    id: int
    physical_rows: int
    live_rows: int
    files: tuple[DataFileRef, ...]
    deletions: str | None = None

    @property
    def size_bytes(self) -> int:
        """What its files take; 0 where an old writer did not note it."""
        return sum(file.size_bytes for file in self.files)


def fragment_from(metadata: Any) -> Fragment:
    """Return the fragment that Lance's metadata describes."""
    # The public `path` makes a class at every call: 200 files would cost more than the rest of a no-op refresh.
    found = [(file._path, file.fields, file.file_size_bytes or 0) for file in metadata.files]  # noqa: SLF001
    files = tuple(
        DataFileRef(path, tuple(leaf for leaf in ids if leaf != TOMBSTONE), size) for path, ids, size in found
    )
    deleted = metadata.deletion_file
    deletions = None if deleted is None else f"{deleted.read_version}-{deleted.id}"
    return Fragment(metadata.id, metadata.physical_rows, metadata.num_rows, files, deletions)


def leaves_by_field(lance_fields: Any) -> dict[int, tuple[int, ...]]:
    """Return, for each field at any depth, the ids of the leaves below it (a leaf's are itself)."""
    found: dict[int, tuple[int, ...]] = {}

    def walk(one: Any) -> tuple[int, ...]:
        children = one.children()
        # Lists count as leaves of their own in some file versions and not in others: a parent names itself too.
        below = tuple(leaf for child in children for leaf in walk(child))
        found[one.id()] = (one.id(), *below)
        return found[one.id()]

    for one in lance_fields:
        walk(one)
    return found
