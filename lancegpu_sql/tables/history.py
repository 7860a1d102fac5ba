"""What made the versions of a table: the operations that Lance notes with each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.errors import InvalidData, NotFound, VersionNotFound
from lancegpu_sql.tables.engine import lance, lance_errors
from lancegpu_sql.tables.fragments import Fragment, fragment_from

_LOOKED_AT_VERSIONS = 64
# What adds rows, deletes rows or moves them, and never takes back what was deleted: Lance's operations by name.
_GOES_ON = frozenset(
    {
        "Append",
        "Delete",
        "Update",
        "Merge",
        "Rewrite",
        "DataReplacement",
        "CreateIndex",
        "Project",
        "UpdateConfig",
        "ReserveFragments",
    }
)


@dataclass(frozen=True)
class Rewrite:
    """Fragments whose live rows a compaction wrote anew, as its version, and those that have the same rows in their place."""

    version: int
    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


class History:
    """The operations that made a version and those before it, read when they are asked for.

    Parameters
    ----------
    table
        Its name, for messages.
    version
        The one that is looked back from.
    dataset
        The open dataset, at that version.
    """

    def __init__(self, table: str, version: int, dataset: Any) -> None:
        self._table = table
        self._version = version
        self._dataset = dataset
        self._rewrites: dict[int, tuple[Rewrite, ...]] = {}

    def only_went_on(self, since: int) -> bool:
        """Tell whether no version after `since`, an older one, took back what was deleted; False where that is not known."""
        if not 0 <= self._version - since <= _LOOKED_AT_VERSIONS:
            return False
        try:
            with lance_errors(self._table):
                made_by = map(self._dataset.read_transaction, range(since + 1, self._version + 1))
                return all(one is not None and type(one.operation).__name__ in _GOES_ON for one in made_by)
        except (VersionNotFound, InvalidData):
            return False

    def rewrites_since(self, version: int) -> Iterator[Rewrite]:
        """Yield what compactions did after a version, newest first; none where there are too many versions to look at.

        What a version did that was removed since is not known, and left out.
        """
        if self._version - version <= _LOOKED_AT_VERSIONS:
            for number in range(self._version, version, -1):
                yield from self._rewrites_of(number)

    def _rewrites_of(self, version: int) -> tuple[Rewrite, ...]:
        if version not in self._rewrites:
            try:
                with lance_errors(self._table):
                    made_by = self._dataset.read_transaction(version)
            except (NotFound, InvalidData):
                made_by = None
            compacted = made_by is not None and isinstance(made_by.operation, lance.LanceOperation.Rewrite)
            self._rewrites[version] = tuple(
                Rewrite(
                    version, tuple(map(fragment_from, one.old_fragments)), tuple(map(fragment_from, one.new_fragments))
                )
                for one in (made_by.operation.groups if compacted else ())
            )
        return self._rewrites[version]
