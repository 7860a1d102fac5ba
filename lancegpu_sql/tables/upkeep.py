"""What keeps a table in shape: small fragments made one, versions removed, and going back to an earlier version.

What is to be done is decided elsewhere; each function here is one step, and one commit at most.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lancegpu_sql.errors import CommitConflict
from lancegpu_sql.tables.column_file import data_path
from lancegpu_sql.tables.engine import lance_errors, lance_optimize, until_committed
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS, Fragment, fragment_from
from lancegpu_sql.tables.reading import Reading, writes
from lancegpu_sql.tables.snapshot import Snapshot

FRAGMENT_BYTES = 1 << 30
"""As large as compaction lets a file become, so that rows of images do not make one of a terabyte."""


@dataclass(frozen=True)
class VersionRecord:
    """One version that can still be opened."""

    version: int
    committed_at: datetime


@dataclass(frozen=True)
class Compacted:
    """What one compaction did.

    Attributes
    ----------
    snapshot
        The version that shows it; the latest one where there was nothing to do.
    removed, added
        Fragments that are not in it any more, and those that have their rows now.
    """

    snapshot: Snapshot
    removed: tuple[Fragment, ...] = ()
    added: tuple[Fragment, ...] = ()


@dataclass(frozen=True)
class Removed:
    """What went: versions, files that only these had or that no version has, and their size."""

    versions: int = 0
    files: int = 0
    size_bytes: int = 0


def versions(snapshot: Snapshot) -> list[VersionRecord]:
    """Return the versions that can still be opened, oldest first; times are UTC."""
    with lance_errors(snapshot.name):
        found = snapshot.latest().dataset.versions()
    # Lance gives local time without a zone.
    return [VersionRecord(int(one["version"]), one["timestamp"].astimezone(UTC)) for one in found]


def named_versions(snapshot: Snapshot) -> dict[int, str]:
    """Return the versions to which a tag or a branch holds on, with what people are told of it."""
    with lance_errors(snapshot.name):
        tags, branches = snapshot.dataset.tags.list(), snapshot.dataset.branches.list()
    found = {int(tag["version"]): f"tag {name!r}" for name, tag in sorted(tags.items()) if not tag["branch"]}
    begun = {int(branch["parent_version"]): f"branch {name!r}" for name, branch in sorted(branches.items())}
    return begun | found


@writes
def restore(snapshot: Snapshot, version: int) -> Snapshot:
    """Make an earlier version the latest again, by a new commit; the versions in between stay.

    Raises
    ------
    VersionNotFound
    """

    def attempt() -> Snapshot:
        earlier = snapshot.checkout(version)
        held = Reading(earlier)  # its files are about to be those of the latest version
        try:
            with lance_errors(snapshot.name):
                earlier.dataset.restore()
        finally:
            held.close()
        return snapshot.latest()

    return until_committed(attempt)


@writes
def compact(snapshot: Snapshot, fragment_ids: Collection[int] | None = None) -> Compacted:
    """Make fragments that lie side by side fewer, without their deleted rows; rows keep their ids and their order.

    Parameters
    ----------
    fragment_ids
        Leave all others as they are. None: whichever are worth it to Lance. One that is gone is no fault.

    Raises
    ------
    CommitConflict
        Others wrote to the same fragments, each time it was tried.
    """

    def attempt() -> Compacted:
        latest = snapshot.latest()
        dataset = latest.dataset
        others = [] if fragment_ids is None else [one.id for one in latest.fragments if one.id not in fragment_ids]
        options = {
            "target_rows_per_fragment": FRAGMENT_ROWS,
            "max_bytes_per_file": FRAGMENT_BYTES,
            "excluded_fragment_ids": others,
        }
        with lance_errors(latest.name):
            done = [task.execute(dataset) for task in lance_optimize.Compaction.plan(dataset, options).tasks]
        if not done:
            return Compacted(latest)
        files = {file.path for task in done for one in task.new_fragments for file in fragment_from(one).files}
        try:
            with lance_errors(latest.name):
                # Lance lets the dataset become the version that it makes.
                lance_optimize.Compaction.commit(dataset, done)
        except CommitConflict:
            latest.files.remove(map(data_path, files))
            raise
        shown = latest.at(dataset)
        removed = tuple(fragment_from(one) for task in done for one in task.original_fragments)
        # Their numbers are given with the commit; the names of their files are theirs from the beginning.
        added = tuple(one for one in shown.fragments if any(file.path in files for file in one.files))
        return Compacted(shown, removed, added)

    return until_committed(attempt)


@writes
def update_indexes(snapshot: Snapshot) -> None:
    """Bring a table's indexes up to date with its rows."""

    def attempt() -> None:
        latest = snapshot.latest()
        with lance_errors(latest.name):
            latest.dataset.optimize.optimize_indices()

    until_committed(attempt)


def remove_versions(
    snapshot: Snapshot, numbers: Sequence[int], *, unfinished_files: bool = False, dry_run: bool = False
) -> Removed:
    """Remove versions, and the files that no other one has; the latest, and what a tag or a branch names, stay.

    Files that no version ever had, left by writes that failed, go with them once they are a week old.

    Parameters
    ----------
    numbers
        The versions. None of them: only such files.
    unfinished_files
        Remove those files whatever their age. What somebody is about to commit is among them.
    dry_run
        Only tell what would go.
    """
    latest = snapshot.latest()
    # Lance refuses an empty list, and never removes the latest version.
    chosen = list(numbers) or [latest.version]
    options = {"versions": chosen, "delete_unverified": unfinished_files, "error_if_tagged_old_versions": False}
    with lance_errors(latest.name):
        if dry_run:
            stats = latest.dataset.explain_cleanup_old_versions(**options).stats
        else:
            stats = latest.dataset.cleanup_old_versions(**options)
    files = stats.data_files_removed + stats.transaction_files_removed + stats.index_files_removed
    return Removed(
        int(stats.old_versions),
        int(files + stats.deletion_files_removed + stats.old_versions),
        int(stats.bytes_removed),
    )
