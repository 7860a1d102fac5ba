"""What is known of a table, and of those who need something of it, when its upkeep is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.tables import Fragment
from lancegpu_sql.tables.upkeep import Removed, VersionRecord


@dataclass(frozen=True)
class Refreshing:
    """A refresh of a column that is under way.

    Attributes
    ----------
    who
        As people are told of it.
    fragments
        Those that it may be computing, by their numbers.
    computes_again
        Whether it would compute rows once more if these were compacted under it. Mostly it finds them in its checkpoints.
    """

    who: str
    fragments: frozenset[int]
    computes_again: bool


@dataclass(frozen=True)
class Checkpoints:
    """What one job keeps of what it computed for one column, until it is published.

    Attributes
    ----------
    folder
        Where.
    job_id
        Whose.
    job_state
        How that job stands; None where it is forgotten.
    forced
        Only the same job can use them.
    touched_at
        When the last of them was written.
    size_bytes
        What they take.
    lock
        The name of the column's lock.
    in_use
        Whether a refresh of the column is under way, which may be taking them over.
    """

    folder: Path
    job_id: str
    job_state: JobState | None
    forced: bool
    touched_at: datetime
    size_bytes: int
    lock: str
    in_use: bool = False


@dataclass(frozen=True)
class TableFacts:
    """What is known of one table.

    Attributes
    ----------
    table
        Its name.
    version
        The latest.
    fragments
        As the latest version has them, in the order of the rows.
    stable_row_ids
        Whether rows keep their ids when they are moved.
    versions
        All there are, oldest first.
    held
        Versions that somebody holds on to, with all who do: a tag, a branch, a view that was made of it.
    used_from
        The least version at which a query or a write of this host may be: Lance may need that and all later ones.
    users_known
        Whether all who use versions on this host are known.
    busy_since
        Since when somebody may read, whatever was the latest version at that time or later, with who that is.
    writing_since
        Since when a job may be writing files of this table that no version has yet, with which job that is.
    refreshing
        The refreshes of its columns that are under way.
    checkpoints
        Of its computed columns.
    left_over
        The files that no version has and that are a week old: of writes that failed.
    under_way
        All files that no version has, where somebody wants to know.
    """

    table: str
    version: int
    fragments: tuple[Fragment, ...]
    stable_row_ids: bool
    versions: tuple[VersionRecord, ...]
    held: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    used_from: int | None = None
    users_known: bool = True
    busy_since: tuple[tuple[datetime, str], ...] = ()
    writing_since: tuple[tuple[datetime, str], ...] = ()
    refreshing: tuple[Refreshing, ...] = ()
    checkpoints: tuple[Checkpoints, ...] = ()
    left_over: Removed = field(default_factory=Removed)
    under_way: Removed = field(default_factory=Removed)
