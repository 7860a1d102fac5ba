"""The copies of checkpoints that a database keeps in its object store: whose they are, and when they were used last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lancegpu_sql.catalog.models import UNENDED, JobRecord, job_made_at
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import JobNotFound
from lancegpu_sql.maintenance.facts import Checkpoints
from lancegpu_sql.refresh.places import FORCED_SUFFIX, column_of, job_folder_of


@dataclass(frozen=True)
class JobCopies:
    """The copies of what one job computed for one column, by their names."""

    checkpoints: Checkpoints
    names: tuple[str, ...]


def copies_of_jobs(names: Iterable[str], columns: Mapping[str, str], catalog: Catalog) -> tuple[JobCopies, ...]:
    """Return the copies of the columns that there are, a job at a time.

    Parameters
    ----------
    columns
        What stands for a computed column in names of files, with the name of its table.
    """
    by_job: dict[str, list[str]] = {}
    for name in names:
        folder = job_folder_of(name)
        if folder is not None and column_of(name) in columns:
            by_job.setdefault(folder, []).append(name)
    # Whichever host it is on, such a refresh may be taking them over.
    refreshed = {job.table for job in catalog.jobs(states=UNENDED)} if by_job else set()
    found = []
    for folder, its in by_job.items():
        column = column_of(folder)
        checkpoints = _checkpoints(folder, column, catalog, in_use=columns[column] in refreshed)
        if checkpoints is not None:
            found.append(JobCopies(checkpoints, tuple(its)))
    return tuple(found)


def _checkpoints(folder: str, column: str, catalog: Catalog, *, in_use: bool) -> Checkpoints | None:
    path = Path(folder)
    job_id, forced = path.name.removesuffix(FORCED_SUFFIX), path.name.endswith(FORCED_SUFFIX)
    made = job_made_at(job_id)
    if made is None:
        return None
    try:
        job: JobRecord | None = catalog.job(job_id)
    except JobNotFound:
        job = None
    known = None if job is None else job.finished_at or job.started_at or job.created_at
    touched = known or datetime.fromtimestamp(made, UTC)
    return Checkpoints(path, job_id, None if job is None else job.state, forced, touched, 0, column, in_use)
