"""What killed processes and dropped things leave in a database's folders: which of it goes, and how."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from lancegpu_sql.catalog.models import FunctionVersion, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import FunctionNotFound
from lancegpu_sql.functions.environment_store import EnvironmentStore, environment_of
from lancegpu_sql.functions.environment_uses import KeptEnvironment, kept_environments, take_away_unused
from lancegpu_sql.maintenance.copies import JobCopies, copies_of_jobs
from lancegpu_sql.maintenance.expiry import LEFT_OVER, is_expired, plan_checkpoints
from lancegpu_sql.maintenance.facts import Checkpoints
from lancegpu_sql.maintenance.looking import checkpoints_in, sized
from lancegpu_sql.maintenance.optimizing import remove_checkpoints
from lancegpu_sql.maintenance.request import LeftOverResult, told
from lancegpu_sql.maintenance.steps import Step, Wanted, named, spell
from lancegpu_sql.refresh.lock import lock_if_free, lock_name
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.places import COPIES, column_of
from lancegpu_sql.refresh.shared_folders import entries, with_all_below
from lancegpu_sql.refresh.views.results import ResultStore
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables import TableStore
from lancegpu_sql.tables.folders import folders_on_their_way

_UNFINISHED = timedelta(days=1)
"""After so long a file that is written in one go is not being written any more."""

Kind = Literal["folder", "results", "unfinished results"]


@dataclass(frozen=True)
class Stray:
    """A folder or a file of which the database may have no use any more."""

    kind: Kind
    path: Path
    size_bytes: int
    touched_at: datetime


@dataclass(frozen=True)
class LeftOver:
    """What there is: folders and files, checkpoints of columns that no table has, and copies of such in an object store.

    Attributes
    ----------
    job_copies
        Copies of checkpoints of columns that there are.
    environments
        Those of this machine that no Function of the database needs.
    """

    strays: tuple[Stray, ...] = ()
    checkpoints: tuple[Checkpoints, ...] = ()
    copies: tuple[str, ...] = ()
    job_copies: tuple[JobCopies, ...] = ()
    environments: tuple[KeptEnvironment, ...] = ()


@dataclass(frozen=True)
class LeftOverPlan:
    """What of it goes, and what is told of that."""

    paths: tuple[Path, ...]
    checkpoints: tuple[Checkpoints, ...]
    copies: tuple[str, ...]
    environments: tuple[KeptEnvironment, ...]
    told: tuple[Step, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.paths or self.checkpoints or self.copies or self.environments)


def plan_left_over(found: LeftOver, wanted: Wanted, now: datetime) -> LeftOverPlan:
    """Decide what goes."""
    ages = {
        "folder": LEFT_OVER,
        "unfinished results": _UNFINISHED,
        "results": timedelta(seconds=wanted.checkpoint_seconds),
    }
    reasons = {
        "folder": "a table was being made or dropped, by a process that ended in the middle of it",
        "unfinished results": "whoever wrote them ended in the middle of it",
        "results": "no Function of the database gives them any more",
    }
    steps: list[Step] = []
    going: list[Stray] = []
    for kind, age in ages.items():
        old = [one for one in found.strays if one.kind == kind and now - one.touched_at > age]
        if old:
            size_bytes = sum(one.size_bytes for one in old)
            action: Literal["remove files", "remove results"] = "remove files" if kind == "folder" else "remove results"
            what = f"{len(old):,} {'folders' if kind == 'folder' else 'files and folders'}"
            reason = f"{reasons[kind]}, more than {spell(age.total_seconds())} ago"
            steps.append(Step(action, what, len(old), size_bytes, reason))
            going += old
    checkpoints, of_checkpoints = plan_checkpoints(found.checkpoints, wanted, now)
    if found.copies:
        reason = "no table has the column any more for which they were computed"
        steps.append(Step("remove checkpoints", "copies in the object store", len(found.copies), None, reason))
    old_copies = [one for one in found.job_copies if is_expired(one.checkpoints, wanted, now)]
    if old_copies:
        reason = f"in the object store, nobody went on with them for {spell(wanted.checkpoint_seconds)}, or nobody can any more"
        jobs = named("of job", list(dict.fromkeys(one.checkpoints.job_id for one in old_copies)))
        steps.append(Step("remove checkpoints", jobs, len(old_copies), None, reason))
    environments = _unused(found.environments, wanted, now)
    if environments:
        reason = f"nobody used them for {spell(wanted.environment_seconds)}, or who made them ended in the middle of it"
        what = named("environment", [one.digest[:8] for one in environments])
        steps.append(Step("remove environments", what, len(environments), None, reason))
    return LeftOverPlan(
        paths=tuple(one.path for one in going),
        checkpoints=checkpoints,
        copies=(*found.copies, *(name for one in old_copies for name in one.names)),
        environments=environments,
        told=(*steps, *of_checkpoints),
    )


def look_for_left_over(tables: TableStore, catalog: Catalog, folder: Path, environments: Path) -> LeftOver:
    """Return what may be left over in a database's folders; `folder` is the private one, `environments` this machine's."""
    strays: list[Stray] = []
    if tables.is_local:
        strays += _strays("folder", folders_on_their_way(Path(tables.uri)))
    store = ResultStore(folder, 0)
    strays += _strays("unfinished results", store.unfinished())
    strays += _strays("results", store.of_others({version.digest for version in catalog.functions()}))
    kept = [one for one in entries(folder / "checkpoints") if one.is_dir()]
    # Looked at before the columns: what was computed for one that was declared since is not among them.
    copies = tables.beside.names(COPIES) if tables.beside is not None else []
    known = _columns(tables) if kept or copies else {}
    checkpoints = [one for at in kept if at.name not in known for one in checkpoints_in(at, catalog)]
    return LeftOver(
        tuple(strays),
        tuple(checkpoints),
        tuple(one for one in copies if column_of(one) not in known),
        copies_of_jobs(copies, known, catalog),
        _not_needed(environments, tables, catalog),
    )


def explain_left_over(resources: Resources, wanted: Wanted) -> LeftOverResult:
    """Tell what `remove_left_over` would do."""
    found = _look(resources)
    steps = plan_left_over(found, wanted, utc_now()).told
    return LeftOverResult(removed=0, bytes_removed=0, steps=told(steps))


def remove_left_over(resources: Resources, wanted: Wanted) -> LeftOverResult:
    """Remove what killed processes and dropped things left in a database's folders."""
    found = _look(resources)
    plan = plan_left_over(found, wanted, utc_now())
    sizes = {one.path: one.size_bytes for one in found.strays}
    removed = bytes_removed = 0
    for path in plan.paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        removed, bytes_removed = removed + 1, bytes_removed + sizes[path]
    for one in plan.checkpoints:
        # A column that was declared since the tables were looked at may be under its first refresh.
        with lock_if_free(resources.folder / "locks", one.lock) as held:
            if held and one.lock not in _columns(resources.tables):
                remove_checkpoints(one)
                removed, bytes_removed = removed + 1, bytes_removed + one.size_bytes
    if plan.copies and resources.tables.beside is not None:
        resources.tables.beside.forget(plan.copies)
        removed += len(plan.copies)
    removed += sum(map(take_away_unused, plan.environments))
    return LeftOverResult(removed=removed, bytes_removed=bytes_removed, steps=told(plan.told))


def _look(resources: Resources) -> LeftOver:
    environments = environments_of(resources.settings)
    return look_for_left_over(resources.tables, resources.catalog, resources.folder, environments)


def environments_of(settings: Settings) -> Path:
    """Return where the environments of this machine are."""
    return EnvironmentStore(settings.environment_folder).folder


def _not_needed(folder: Path, tables: TableStore, catalog: Catalog) -> tuple[KeptEnvironment, ...]:
    """The environments of this machine that no Function, as it is now or as a column has it, needs."""
    there = list(kept_environments(folder))
    if not there:
        return ()
    needed = {_digest(version) for version in catalog.functions()}
    if any(one.finished and one.digest not in needed for one in there):
        for column in (one for name in tables.names() for one in tables.open(name).computed):
            with suppress(FunctionNotFound):
                needed.add(_digest(catalog.function(column.function, column.version)))
    return tuple(one for one in there if not (one.finished and one.digest in needed))


def _digest(version: FunctionVersion) -> str | None:
    environment = environment_of(version)
    return None if environment is None else environment.digest


def _unused(found: Iterable[KeptEnvironment], wanted: Wanted, now: datetime) -> tuple[KeptEnvironment, ...]:
    after = timedelta(seconds=wanted.environment_seconds)
    return tuple(one for one in found if now - one.used_at > (after if one.finished else _UNFINISHED))


def _columns(tables: TableStore) -> dict[str, str]:
    """What stands for the computed columns that there are, in names of files, with the names of their tables."""
    return {lock_name(name, one.proof_column): name for name in tables.names() for one in tables.open(name).computed}


def _strays(kind: Kind, paths: Iterable[Path]) -> list[Stray]:
    return [Stray(kind, path, *sized(with_all_below(path))) for path in paths]
