"""What keeps a table in shape: compaction, clean-up, and going back to an earlier version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lancegpu_sql.tables.engine import lance_errors, until_committed
from lancegpu_sql.tables.snapshot import Snapshot


@dataclass(frozen=True)
class VersionRecord:
    """One version that can still be opened."""

    version: int
    committed_at: datetime


@dataclass(frozen=True)
class Upkeep:
    """What `optimize` did."""

    snapshot: Snapshot
    fragments_removed: int
    fragments_added: int
    versions_removed: int
    bytes_removed: int


def versions(snapshot: Snapshot) -> list[VersionRecord]:
    """Return the versions that can still be opened, oldest first; times are UTC."""
    with lance_errors(snapshot.name):
        found = snapshot.latest().dataset.versions()
    # Lance gives local time without a zone.
    return [VersionRecord(int(one["version"]), one["timestamp"].astimezone(UTC)) for one in found]


def restore(snapshot: Snapshot, version: int) -> Snapshot:
    """Make an earlier version the latest again, by a new commit; the versions in between stay.

    Raises
    ------
    VersionNotFound
    """

    def attempt() -> Snapshot:
        earlier = snapshot.checkout(version)
        with lance_errors(snapshot.name):
            earlier.dataset.restore()
        return snapshot.latest()

    return until_committed(attempt)


def optimize(
    snapshot: Snapshot,
    *,
    cleanup_older_than_seconds: float | None = 7 * 24 * 3600.0,
    rows_per_fragment: int = 1024 * 1024,
) -> Upkeep:
    """Merge small fragments, drop deleted rows from files, bring indexes up to date, and remove old versions.

    Column files being written by a refresh are safe: clean-up leaves files that no version names alone for a week.

    Parameters
    ----------
    cleanup_older_than_seconds
        Versions older than this go; the latest and tagged ones stay. None keeps all.
    rows_per_fragment
        Fragments below this size are merged.
    """

    def attempt() -> Any:
        latest = snapshot.latest()
        with lance_errors(latest.name):
            metrics = latest.dataset.optimize.compact_files(target_rows_per_fragment=rows_per_fragment)
            latest.dataset.optimize.optimize_indices()
        return metrics

    metrics = until_committed(attempt)
    latest = snapshot.latest()
    versions_removed = bytes_removed = 0
    if cleanup_older_than_seconds is not None:
        with lance_errors(latest.name):
            stats = latest.dataset.cleanup_old_versions(
                older_than=timedelta(seconds=cleanup_older_than_seconds), error_if_tagged_old_versions=False
            )
        versions_removed, bytes_removed = int(stats.old_versions), int(stats.bytes_removed)
    return Upkeep(latest, int(metrics.fragments_removed), int(metrics.fragments_added), versions_removed, bytes_removed)
