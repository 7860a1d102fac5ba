"""Looks at a table, and at all who may need something of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lancegpu_sql.catalog.models import OWNED, JobRecord, JobState, short_job_id
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import ColumnNotFound, JobNotFound
from lancegpu_sql.functions.registry import CREATE_FUNCTION
from lancegpu_sql.maintenance.facts import Checkpoints, Refreshing, TableFacts
from lancegpu_sql.maintenance.request import OPTIMIZE, REMOVE_LEFT_OVER
from lancegpu_sql.refresh.current import unproven
from lancegpu_sql.refresh.lock import lock_name
from lancegpu_sql.refresh.places import FORCED_SUFFIX
from lancegpu_sql.refresh.request import REFRESH_COLUMN
from lancegpu_sql.refresh.shared_folders import entries, with_all_below
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.refresh.views.model import SourceState, View
from lancegpu_sql.refresh.views.request import REFRESH_VIEW
from lancegpu_sql.refresh.views.rewritten import compactions_since
from lancegpu_sql.tables import Snapshot, TableStore, upkeep
from lancegpu_sql.tables.reading import is_known, least_used
from lancegpu_sql.tables.upkeep import Removed


class KnownViews:
    """The views of a database, as far as upkeep asks for them.

    Attributes
    ----------
    reads
        By name of a view the tables and views that it reads.
    """

    def __init__(self, views: Iterable[View]) -> None:
        self.reads: dict[str, tuple[str, ...]] = {}
        self._made_of: dict[str, list[tuple[View, SourceState]]] = {}
        for view in views:
            self.reads[view.name] = tuple(view.definition.reads)
            for source, noted in ({} if view.state is None else view.state.sources).items():
                self._made_of.setdefault(source, []).append((view, noted))

    def made_of(self, table: str) -> Sequence[tuple[View, SourceState]]:
        """Return the views that were made of a table, each with how it was then."""
        return self._made_of.get(table, ())


Views = Callable[[], KnownViews]
"""Reads what views there are."""

_NEEDS_NO_TABLE = frozenset({OPTIMIZE, REMOVE_LEFT_OVER, CREATE_FUNCTION})

# Hosts' clocks differ a little, and a job is known a moment before it opens a table.
_SLACK = timedelta(minutes=1)


def look_at_table(
    tables: TableStore,
    catalog: Catalog,
    folder: Path,
    views: Views,
    table: str,
    *,
    locked: Collection[str] | None = None,
    files: bool = True,
    all_files: bool = False,
) -> TableFacts:
    """Return what is known of a table.

    Parameters
    ----------
    folder
        The database's private one.
    views
        Reads what views there are.
    locked
        Those of the hidden columns of its computed columns that cannot be under refresh; None where that is not known.
    files
        Whether to look for files that no version has, which takes a look at each.
    all_files
        Whether to look for young ones, too.
    """
    # In this order: whoever opens a version later than its list was read opens one that is not on the list of the old.
    snapshot = tables.open(table)
    versions = tuple(one for one in upkeep.versions(snapshot) if one.version <= snapshot.version)
    jobs = running_jobs(catalog)
    known = views()
    reading = [(_since(job), _told(job)) for job in jobs if _reads(job, table, known)]
    writing = [(_since(job), _told(job)) for job in jobs if _writes(job, table, known)]
    return TableFacts(
        table=table,
        version=snapshot.version,
        fragments=snapshot.fragments,
        stable_row_ids=snapshot.has_stable_row_ids,
        versions=versions,
        held=_held(snapshot, known),
        used_from=least_used(snapshot),
        users_known=is_known(snapshot),
        busy_since=tuple(reading),
        writing_since=tuple(writing),
        refreshing=tuple(_refreshing(snapshot, catalog, jobs, locked)),
        checkpoints=tuple(_checkpoints(snapshot, catalog, folder, locked)),
        left_over=upkeep.remove_versions(snapshot, [], dry_run=True) if files else Removed(),
        under_way=upkeep.remove_versions(snapshot, [], unfinished_files=True, dry_run=True) if all_files else Removed(),
    )


def running_jobs(catalog: Catalog) -> list[JobRecord]:
    """Return the jobs at which a process works that may need tables as they are or were."""
    owned = [job for job in catalog.jobs(states=OWNED) if job.kind not in _NEEDS_NO_TABLE]
    return [job for job in owned if job.owner is None or job.owner.is_alive() is not False]


def checkpoints_in(folder: Path, catalog: Catalog, *, in_use: bool = False) -> list[Checkpoints]:
    """Return what stands in the folder of one column's checkpoints."""
    found = []
    for job_folder in (one for key in entries(folder) for one in entries(key)):
        job_id = job_folder.name.removesuffix(FORCED_SUFFIX)
        forced = job_folder.name.endswith(FORCED_SUFFIX)
        size_bytes, touched = sized(with_all_below(job_folder))
        state = _state(catalog, job_id)
        found.append(Checkpoints(job_folder, job_id, state, forced, touched, size_bytes, folder.name, in_use))
    return found


def sized(paths: Iterable[Path]) -> tuple[int, datetime]:
    """Return the bytes of files, and when the last of them changed."""
    size_bytes, touched = 0, 0.0
    for path in paths:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        touched = max(touched, status.st_mtime)
        size_bytes += 0 if path.is_dir() else status.st_size
    return size_bytes, datetime.fromtimestamp(touched, UTC)


def _held(snapshot: Snapshot, views: KnownViews) -> dict[int, tuple[str, ...]]:
    held: dict[int, list[str]] = {number: [who] for number, who in upkeep.named_versions(snapshot).items()}
    for view, noted in views.made_of(snapshot.name):
        held.setdefault(noted.version, []).append(f"view {view.name!r}, which was made of it")
        for number in _compactions(snapshot, view, noted):
            held.setdefault(number, []).append(f"view {view.name!r}, which has the same rows")
    return {number: tuple(who) for number, who in held.items()}


def _compactions(snapshot: Snapshot, view: View, noted: SourceState) -> tuple[int, ...]:
    """The versions without which nobody could tell any more that a view is still fresh."""
    try:
        return compactions_since(snapshot, view.definition.reads[snapshot.name], noted)
    except ColumnNotFound:
        return ()


def _reads(job: JobRecord, table: str, views: KnownViews) -> bool:
    if job.kind == REFRESH_COLUMN:
        return job.table == table
    if job.kind == REFRESH_VIEW:
        return table in _read_by(str(job.table), views.reads)
    return True


def _writes(job: JobRecord, table: str, views: KnownViews) -> bool:
    # With its cascade, the refresh of a view writes those that it reads.
    return job.kind in (REFRESH_COLUMN, REFRESH_VIEW) and _reads(job, table, views)


def _read_by(view: str, reads: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The view, and all that it reads, by itself or through others."""
    found, left = set[str](), [view]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += reads.get(one, ())
    return found


def _since(job: JobRecord) -> datetime:
    return (job.started_at or job.created_at) - _SLACK


def _told(job: JobRecord) -> str:
    what = job.kind.replace("_", " ")
    about = ".".join([str(job.table), *job.columns[:1]]) if job.table is not None else ""
    return f"job {short_job_id(job.id)} ({what}{' ' * bool(about)}{about})"


def _refreshing(
    snapshot: Snapshot, catalog: Catalog, jobs: Iterable[JobRecord], locked: Collection[str] | None
) -> list[Refreshing]:
    found: list[Refreshing] = []
    columns = set[str]()
    everything = frozenset(one.id for one in snapshot.fragments)
    for job in jobs:
        if job.kind != REFRESH_COLUMN or job.table != snapshot.name:
            continue
        try:
            target = find_target(snapshot, job.columns[0])
        except (ColumnNotFound, IndexError):
            continue  # it is about to fail for that
        columns.add(target.proof_column)
        forced = job.request.get("where") is not None
        at = everything if forced else frozenset(one.id for one in unproven(snapshot, target, catalog))
        # A row that failed has no value in a checkpoint: it would be tried once more.
        found.append(Refreshing(_told(job), at, computes_again=job.request.get("error_policy") == "skip"))
    unknown = {one.proof_column for one in snapshot.computed} - columns
    if locked is not None and not unknown <= set(locked):
        found.append(Refreshing("a refresh in another process", everything, computes_again=True))
    return found


def _checkpoints(
    snapshot: Snapshot, catalog: Catalog, folder: Path, locked: Collection[str] | None
) -> Iterator[Checkpoints]:
    for column in dict.fromkeys(one.proof_column for one in snapshot.computed):
        at = folder / "checkpoints" / lock_name(snapshot.name, column)
        yield from checkpoints_in(at, catalog, in_use=locked is not None and column not in locked)


def _state(catalog: Catalog, job_id: str) -> JobState | None:
    try:
        return catalog.job(job_id).state
    except JobNotFound:
        return None
