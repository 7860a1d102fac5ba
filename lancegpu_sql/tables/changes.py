"""Writes by users: rows in, rows out, rows changed. Each works on the table's latest version and returns the new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancegpu_sql.errors import CommitConflict, InvalidData, InvalidQuery
from lancegpu_sql.tables.engine import lance_errors
from lancegpu_sql.tables.fitting import fit_rows, refuse_computed
from lancegpu_sql.tables.reading import writes
from lancegpu_sql.tables.snapshot import Snapshot
from lancegpu_sql.tables.views import refuse_view


@dataclass(frozen=True)
class Change:
    """What a write did: the version that shows it, and how many rows."""

    snapshot: Snapshot
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


@writes
def add(snapshot: Snapshot, reader: pa.RecordBatchReader) -> Snapshot:
    """Append rows.

    Columns may come in any order and may be missing where they are nullable; types may differ where nothing is lost.
    A computed column may be present as long as it is null throughout.

    Raises
    ------
    InvalidData, ComputedColumnWrite, ViewWrite
    """
    latest = snapshot.latest()
    refuse_view(latest)
    stream = fit_rows(latest, reader)
    with stream.own_failures(), lance_errors(latest.name):
        latest.dataset.insert(stream.reader)
    return latest.latest()


@writes
def update(snapshot: Snapshot, values: Mapping[str, str], where: str | None = None) -> Change:
    """Set columns to SQL expressions (Lance's) in the rows that `where` matches, or in all.

    Raises
    ------
    InvalidQuery, ComputedColumnWrite, ViewWrite
    """
    latest = snapshot.latest()
    refuse_view(latest)
    refuse_computed(latest, values)
    with lance_errors(latest.name, InvalidQuery):
        result = latest.dataset.update(dict(values), where=where)
    return Change(latest.latest(), rows_updated=int(result["num_rows_updated"]))


@writes
def delete(snapshot: Snapshot, where: str) -> Change:
    """Delete the rows that a condition (Lance's SQL) matches.

    Raises
    ------
    InvalidQuery
    """
    latest = snapshot.latest()
    refuse_view(latest)
    with lance_errors(latest.name, InvalidQuery):
        result = latest.dataset.delete(where)
    return Change(latest.latest(), rows_deleted=int(result["num_deleted_rows"]))


@dataclass(frozen=True)
class MergeRules:
    """What a merge does with rows that match on the key, that are new, and that the source lacks.

    A string is a condition (Lance's SQL; ``source.x`` and ``target.x`` in the first), True means always.
    """

    on: tuple[str, ...]
    update_matched: bool | str = False
    insert_new: bool = False
    delete_missing: bool | str = False


@writes
def merge_insert(snapshot: Snapshot, reader: pa.RecordBatchReader, rules: MergeRules) -> Change:
    """Merge rows into the table by a key.

    Updated rows keep the columns that the source lacks. Computed columns follow at the next refresh.

    Raises
    ------
    InvalidData
        The columns do not suit, two source rows match one row, or the rules do nothing.
    InvalidQuery
        A condition is wrong.
    ComputedColumnWrite, ViewWrite
    """
    latest = snapshot.latest()
    refuse_view(latest)
    if not (rules.update_matched or rules.insert_new or rules.delete_missing):
        raise InvalidData("This merge does nothing: say what to do with matched, new or missing rows.")
    for name in rules.on:
        latest.field_id(name)
    stream = fit_rows(latest, reader)
    invalid = (
        InvalidData
        if isinstance(rules.update_matched, bool) and isinstance(rules.delete_missing, bool)
        else InvalidQuery
    )
    with stream.own_failures(), lance_errors(latest.name, invalid):
        counts = _merge_builder(latest, rules).execute(stream.reader)
    return Change(
        latest.latest(),
        rows_inserted=int(counts["num_inserted_rows"]),
        rows_updated=int(counts["num_updated_rows"]),
        rows_deleted=int(counts["num_deleted_rows"]),
    )


def _merge_builder(latest: Snapshot, rules: MergeRules) -> Any:
    builder = latest.dataset.merge_insert(list(rules.on))
    if rules.update_matched:
        builder = builder.when_matched_update_all(None if rules.update_matched is True else rules.update_matched)
    if rules.insert_new:
        builder = builder.when_not_matched_insert_all()
    if rules.delete_missing:
        builder = builder.when_not_matched_by_source_delete(
            None if rules.delete_missing is True else rules.delete_missing
        )
    return builder


def check_unchanged(snapshot: Snapshot) -> None:
    """Raise CommitConflict where the table has moved on since this version."""
    if snapshot.latest().version != snapshot.version:
        raise was_changed(snapshot)


def was_changed(snapshot: Snapshot) -> CommitConflict:
    """Return the error for a table that moved on while a copy of it was made."""
    return CommitConflict(
        f"Table {snapshot.name!r} was changed while it was being rewritten; nothing was replaced. Try again.",
        table=snapshot.name,
    )
