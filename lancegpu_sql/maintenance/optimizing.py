"""Carries upkeep out: one table at a time, in small steps, each of which stands by itself."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from lancegpu_sql.catalog.models import WaitingOn, utc_now
from lancegpu_sql.errors import Cancelled, CommitConflict
from lancegpu_sql.maintenance.facts import Checkpoints
from lancegpu_sql.maintenance.looking import Views, look_at_table
from lancegpu_sql.maintenance.plan import TablePlan, plan_table
from lancegpu_sql.maintenance.request import OptimizeOptions, OptimizeResult, told
from lancegpu_sql.maintenance.steps import Step, Wanted, numbered
from lancegpu_sql.refresh.lock import column_lock, lock_if_free, lock_name
from lancegpu_sql.refresh.need import Resources
from lancegpu_sql.refresh.report import RefreshJob
from lancegpu_sql.refresh.target import find_target
from lancegpu_sql.settings import Settings
from lancegpu_sql.tables import Fragment, Snapshot, upkeep
from lancegpu_sql.tables.reading import removing
from lancegpu_sql.tables.upkeep import Compacted, Removed

_LOCK_NAME = "\0optimize"  # of no column
_BEATEN = "other writers were first each time it was tried"

_AT_ONCE_BYTES = 4 << 30
"""Of fragments compacted in one commit: so much is done again after a conflict, and at most lost to a kill."""


def wanted_of(settings: Settings, options: OptimizeOptions) -> Wanted:
    """Return what is asked for, with what the settings say."""
    return Wanted(
        keep_seconds=options.cleanup_older_than_seconds,
        checkpoint_seconds=settings.checkpoint_retention_days * 86_400.0,
        small_fragments=settings.maintenance_small_fragments if options.automatic else 2,
        sparing=options.automatic,
        unfinished_files=options.delete_unverified,
        environment_seconds=settings.environment_retention_days * 86_400.0,
    )


def explain_optimize(resources: Resources, table: str, options: OptimizeOptions, views: Views) -> OptimizeResult:
    """Tell what upkeep would do to a table now, and why; nothing is changed.

    Raises
    ------
    TableNotFound
    """
    with _columns_locked(resources, resources.tables.open(table)) as locked:
        plan = _planned(resources, table, options, views, locked, files=True)
    snapshot = resources.tables.open(table)
    going = upkeep.remove_versions(snapshot, plan.versions, dry_run=True) if plan.versions else Removed()
    old = upkeep.remove_versions(snapshot, [], dry_run=True) if plan.versions else Removed()
    steps = _sized(plan.told, max(going.size_bytes - old.size_bytes, 0))
    count = len(snapshot.fragments)
    return OptimizeResult(
        table=table, version=snapshot.version, fragments_before=count, fragments_after=count, steps=told(steps)
    )


def optimize_table(
    resources: Resources, table: str, options: OptimizeOptions, views: Views, job: RefreshJob
) -> OptimizeResult:
    """Make a table's fragments fewer, and remove what nobody needs any more of versions, files and checkpoints.

    Rows keep their ids and their order, and values of computed columns stay current: nothing is computed again. Of two at
    once the second waits for the first. It may be ended, or killed, at any time: what is done by then stands.

    Raises
    ------
    TableNotFound, StorageError, Cancelled
    """

    def wait_behind() -> None:
        message = f"table {table} is being optimized already; this one starts when that ends, and does what is left"
        reason = "another_optimize"
        job.waiting(WaitingOn(gpu_class=None, since=utc_now(), reason=reason, message=message, can_be_met=True))

    what = f"OPTIMIZE of table {table}"
    locks = resources.folder / "locks"
    with column_lock(locks, table, _LOCK_NAME, cancelled=job.cancelled, blocked=wait_behind, what=what):
        job.running("planning")
        snapshot = resources.tables.open(table)
        with _columns_locked(resources, snapshot) as locked:
            return _Optimize(resources, snapshot, options, views, job, locked).run()


class _Optimize:
    """One table's upkeep."""

    def __init__(
        self,
        resources: Resources,
        snapshot: Snapshot,
        options: OptimizeOptions,
        views: Views,
        job: RefreshJob,
        locked: Collection[str],
    ) -> None:
        self._resources = resources
        self._before = snapshot
        self._table = snapshot.name
        self._options = options
        self._views = views
        self._job = job
        self._locked = locked
        self._removed = self._added = 0
        self._left: list[Step] = []

    def run(self) -> OptimizeResult:
        """Do what there is to do."""
        first = self._plan(files=False)
        self._update_indexes()
        self._compact(first)
        # What was made of the table meanwhile may need other versions, and compaction has made one more.
        self._check()
        self._job.running("removing")
        with removing(self._before):
            second = self._plan(files=True)
            gone, old = self._remove(second), second.files != "none"
        if gone.files:
            told_of = f"{gone.versions:,} versions and {gone.files:,} files of {gone.size_bytes:,} bytes"
            self._job.event("removed", told_of)
        for one in first.checkpoints:
            remove_checkpoints(one)
        latest = self._resources.tables.open(self._table)
        steps = [
            *(one for one in first.told if one.action in ("compact", "leave fragments")),
            *self._left,
            *_sized(
                [one for one in second.told if one.action not in ("compact", "leave fragments")],
                gone.size_bytes if not old else None,
            ),
        ]
        return OptimizeResult(
            table=self._table,
            version=latest.version,
            fragments_before=len(self._before.fragments),
            fragments_after=len(latest.fragments),
            fragments_removed=self._removed,
            fragments_added=self._added,
            versions_removed=gone.versions,
            files_removed=gone.files,
            bytes_removed=gone.size_bytes,
            checkpoints_removed=len(first.checkpoints),
            steps=told(steps),
            job_id=self._job.id,
        )

    def _plan(self, *, files: bool) -> TablePlan:
        return _planned(self._resources, self._table, self._options, self._views, self._locked, files=files)

    def _update_indexes(self) -> None:
        """Bring indexes up to date: fragments of which only some are indexed are not made one."""
        try:
            upkeep.update_indexes(self._before)
        except CommitConflict as exc:
            self._left.append(Step("leave indexes", "as they are", 0, None, f"{_BEATEN}; {exc.message}"))

    def _compact(self, plan: TablePlan) -> None:
        if not plan.groups:
            return
        self._job.running("compacting")
        for fragments in _portions(plan.groups, self._resources.tables.open(self._table).fragments):
            self._check()
            try:
                done = upkeep.compact(self._before, fragments)
            except CommitConflict as exc:
                reason = f"{_BEATEN}; {exc.message}"
                self._left.append(
                    Step("leave fragments", numbered("fragment", fragments), len(fragments), None, reason)
                )
                continue
            self._carry_proofs(done)
            self._removed += len(done.removed)
            self._added += len(done.added)
        self._job.event("compacted", f"{self._removed:,} fragments became {self._added:,}")

    def _carry_proofs(self, done: Compacted) -> None:
        """Note that rows which were current still are, so that the next refresh need not read them to find that out.

        Lance refuses a compaction under which one of the fragments changed: the new ones hold the live rows of the old.
        """
        for name in {one.proof_column: one.column for one in self._before.computed}.values():
            target = find_target(self._before, name)
            proofs = self._resources.catalog.proven(target.proof_key)
            if done.removed and all(target.is_proven(one, proofs) for one in done.removed if one.live_rows):
                self._resources.catalog.add_proofs(target.proof_key, [target.proof(one) for one in done.added])

    def _remove(self, plan: TablePlan) -> Removed:
        if not plan.versions and plan.files == "none":
            return Removed()
        return upkeep.remove_versions(self._before, plan.versions, unfinished_files=plan.files == "all")

    def _check(self) -> None:
        if self._job.cancelled.is_set():
            raise Cancelled(f"OPTIMIZE of table {self._table} was cancelled; what was done by then stands")


def remove_checkpoints(one: Checkpoints) -> None:
    """Remove the checkpoints of one job, and the folders above that are empty then."""
    shutil.rmtree(one.folder, ignore_errors=True)
    for above in one.folder.parents[:2]:
        with suppress(OSError):  # others stand there
            above.rmdir()


def _planned(
    resources: Resources, table: str, options: OptimizeOptions, views: Views, locked: Collection[str], *, files: bool
) -> TablePlan:
    facts = look_at_table(
        resources.tables,
        resources.catalog,
        resources.folder,
        views,
        table,
        locked=locked,
        files=files,
        all_files=files and options.delete_unverified,
    )
    return plan_table(facts, wanted_of(resources.settings, options), utc_now())


@contextmanager
def _columns_locked(resources: Resources, snapshot: Snapshot) -> Iterator[set[str]]:
    """Keep refreshes of the table's columns from beginning; yield the hidden columns of those of which none was under way."""
    locked = set[str]()
    with ExitStack() as held:
        for column in dict.fromkeys(one.proof_column for one in snapshot.computed):
            name = lock_name(snapshot.name, column)
            if held.enter_context(lock_if_free(resources.folder / "locks", name)):
                locked.add(column)
        yield locked


def _portions(groups: Sequence[Sequence[int]], fragments: Sequence[Fragment]) -> Iterator[list[int]]:
    """Yield the fragments of groups in portions of some gigabytes, neighbours together."""
    sizes = {one.id: one.size_bytes for one in fragments}
    portion: list[int] = []
    taken = 0
    for group in groups:
        for number in group:
            if taken >= _AT_ONCE_BYTES and len(portion) > 1:
                yield portion
                portion, taken = [], 0
            portion.append(number)
            taken += sizes.get(number, 0)
    if portion:
        yield portion


def _sized(steps: Sequence[Step], versions_bytes: int | None) -> list[Step]:
    return [replace(one, size_bytes=versions_bytes) if one.action == "remove versions" else one for one in steps]
