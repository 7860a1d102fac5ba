"""Column files become part of the table: whole columns of many fragments in one commit, or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancegpu_sql.errors import CommitConflict, StorageError, VersionNotFound
from lancegpu_sql.tables import column_file
from lancegpu_sql.tables.column_file import ColumnFile, ColumnIdentity
from lancegpu_sql.tables.engine import lance, lance_errors, pauses
from lancegpu_sql.tables.files import is_local
from lancegpu_sql.tables.fragments import TOMBSTONE, Fragment
from lancegpu_sql.tables.reading import writes
from lancegpu_sql.tables.row_offsets import all_offsets

if TYPE_CHECKING:
    from lancegpu_sql.tables.snapshot import Snapshot

JOB_PROPERTY = "lancegpu:job"
PUBLICATION_PROPERTY = "lancegpu:publication"

_TRIES_AFTER_STORAGE_ERRORS = 3


@dataclass(frozen=True)
class Publication:
    """What came of publishing: the version that shows it, and which fragments took their file or lost it."""

    version: int
    published: tuple[int, ...]
    lost: tuple[int, ...]


def fits(
    file: ColumnFile,
    fragment: Fragment | None,
    columns: Collection[ColumnIdentity],
    guard: Callable[[Fragment], bool],
) -> bool:
    """Tell whether a column file may become part of the fragment that has its number now.

    Field and fragment numbers alone prove nothing: after an overwrite they may belong to other columns and rows.
    Data files do: their names are unique for ever and they stay with their fragment, so a fragment that still has one
    of the files it had has the same rows in the same order.
    """
    return (
        fragment is not None
        and fragment.physical_rows == file.rows
        and any(one.path in file.fragment_files for one in fragment.files)
        and all(column in columns for column in file.columns)
        and guard(fragment)
    )


def commit(latest: Snapshot, operation: Any, properties: dict[str, str]) -> Snapshot:
    """Commit an operation that was made for this very version, and return the version that it became."""
    transaction = lance.Transaction(read_version=latest.version, operation=operation, transaction_properties=properties)
    with lance_errors(latest.name):
        # A dataset in an object store brings its connections along.
        place = latest.uri if is_local(latest.uri) else latest.dataset
        return latest.at(lance.LanceDataset.commit(place, transaction))


Commit = Callable[["Snapshot", Any, dict[str, str]], "Snapshot"]


@writes
def publish(
    snapshot: Snapshot,
    files: Sequence[ColumnFile],
    *,
    job_id: str,
    guard: Callable[[Fragment], bool],
    commit: Commit = commit,
) -> Publication:
    """Make column files part of the latest version.

    Each file must still suit its fragment there: the same rows in the same order, the same columns, and `guard` saying
    yes. What does not is lost, and its rows must be looked at again. Lance rejects the commit if, since the version
    that was looked at, the table was overwritten or restored, or one of the fragments was compacted or had rows updated
    or deleted; then everything is looked at again. As long as other writers keep being first, it keeps trying.

    Parameters
    ----------
    files
        At most one per fragment, all of the same columns.
    job_id
        Noted in the commit.
    guard
        Says of a fragment of the latest version whether the values still belong there.
    commit
        Commits; to be replaced where replies are lost on purpose.

    Raises
    ------
    StorageError
        The commit could not be written. The files stay; publish again.
    """
    if len({file.fragment_id for file in files}) < len(files):
        raise ValueError("two column files for one fragment")
    latest, done, gone = _published(snapshot.latest(), files, job_id, guard, commit)
    return Publication(
        latest.version, tuple(file.fragment_id for file in done), tuple(file.fragment_id for file in gone)
    )


def _published(
    latest: Snapshot, files: Sequence[ColumnFile], job_id: str, guard: Callable[[Fragment], bool], commit: Commit
) -> tuple[Snapshot, list[ColumnFile], list[ColumnFile]]:
    """Return the version that shows what could be published, the files published, and the files lost."""
    first_version = latest.version
    publication_id = uuid.uuid4().hex
    properties = {JOB_PROPERTY: job_id, PUBLICATION_PROPERTY: publication_id}
    storage_errors = 0
    for pause_seconds in pauses():
        fitting, lost = _sort_out(latest, files, guard)
        if not fitting:
            return latest, [], lost
        operation = _operation(latest, fitting)
        committed: Snapshot | None = None
        try:
            committed = commit(latest, operation, properties)
        except CommitConflict:
            pass
        except StorageError:
            storage_errors += 1
            if storage_errors == _TRIES_AFTER_STORAGE_ERRORS:
                raise
        # The commit may have been made and only its reply lost: never commit twice.
        committed = committed or _found(latest.latest(), first_version, publication_id)
        if committed is None:
            time.sleep(pause_seconds)
            latest = latest.latest()
        elif not column_file.missing(committed, fitting):
            return committed, fitting, lost
        else:
            return _withdrawn(committed), [], lost + fitting
    raise AssertionError("pauses() has no end")


def _sort_out(
    latest: Snapshot, files: Iterable[ColumnFile], guard: Callable[[Fragment], bool]
) -> tuple[list[ColumnFile], list[ColumnFile]]:
    fragments = {fragment.id: fragment for fragment in latest.fragments}
    columns = [column_file.column_identity(latest, name) for name in latest.full_schema.names]
    fitting: list[ColumnFile] = []
    lost: list[ColumnFile] = []
    for file in files:
        suits = fits(file, fragments.get(file.fragment_id), columns, guard)
        (fitting if suits else lost).append(file)
    gone = column_file.missing(latest, fitting)
    lost += [file for file in fitting if file.path in gone]
    return [file for file in fitting if file.path not in gone], lost


def _operation(latest: Snapshot, files: Sequence[ColumnFile]) -> Any:
    """Return the Lance operation that gives the files to their fragments, whichever of the columns they held.

    Lance's DataReplacement would bear with concurrent deletes, where this is tried again; but it takes only fragments
    that hold all of the fields or none, and warns on the user's terminal, at each commit, that it is not stable yet.
    """
    updated = []
    for file in files:
        metadata = latest.dataset.get_fragment(file.fragment_id).metadata
        for old in metadata.files:
            old.fields = [TOMBSTONE if leaf in file.field_ids else leaf for leaf in old.fields]
        kept = [old for old in metadata.files if any(leaf != TOMBSTONE for leaf in old.fields)]
        metadata.files = [*kept, _lance_data_file(file)]
        updated.append(metadata)
    # Without the offsets Lance would leave the rows' `_row_last_updated_at_version` as it was.
    offsets = {file.fragment_id: all_offsets(file.rows) for file in files} if latest.has_stable_row_ids else None
    return lance.LanceOperation.Update(
        updated_fragments=updated,
        fields_modified=sorted({leaf for file in files for leaf in file.field_ids}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )


def _lance_data_file(file: ColumnFile) -> Any:
    major, minor = file.file_version
    return lance.fragment.DataFile(
        file.path, list(file.field_ids), list(file.column_indices), major, minor, file.size_bytes
    )


def _withdrawn(committed: Snapshot) -> Snapshot:
    """Return the table without the version just committed, whose files are not in its folder.

    The table was dropped and made anew between our look and our commit. Lance compares version numbers, and the new
    table had reached the old one's.
    """
    with lance_errors(committed.name):
        committed.checkout(committed.version - 1).dataset.restore()
    return committed.latest()


def _found(latest: Snapshot, since: int, publication_id: str) -> Snapshot | None:
    """Return the version that this publication made after `since`, if there is one."""
    for version in range(latest.version, since, -1):
        try:
            with lance_errors(latest.name):
                transaction = latest.dataset.read_transaction(version)
        except VersionNotFound:  # cleaned up meanwhile, and all before it
            return None
        if transaction is not None and transaction.transaction_properties.get(PUBLICATION_PROPERTY) == publication_id:
            return latest.checkout(version)
    return None
