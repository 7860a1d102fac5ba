"""A merge, as a user puts it together: which rows are replaced, inserted and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancegpu_sql.tables.changes import Change, MergeRules


class MergeInsert:
    """What a merge does with rows that match on the key, that are new, and that the data lacks; as in LanceDB."""

    def __init__(self, merge: Callable[[Any, MergeRules], Change], on: tuple[str, ...]) -> None:
        self._merge = merge
        self._rules = MergeRules(on)

    def when_matched_update_all(self, *, where: str | None = None) -> MergeInsert:
        """Replace rows that match; with `where` (Lance's SQL over ``source`` and ``target``) only some."""
        return self._with(update_matched=where or True)

    def when_not_matched_insert_all(self) -> MergeInsert:
        """Insert rows that match none."""
        return self._with(insert_new=True)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeInsert:
        """Delete rows that the data lacks; with a condition only some."""
        return self._with(delete_missing=condition or True)

    def execute(self, data: Any) -> Change:
        """Do it.

        Raises
        ------
        InvalidData, InvalidQuery, ComputedColumnWrite
        """
        return self._merge(data, self._rules)

    def _with(self, **rules: Any) -> MergeInsert:
        merged = MergeInsert(self._merge, self._rules.on)
        merged._rules = MergeRules(**{**vars(self._rules), **rules})
        return merged
