"""Which versions, files and checkpoints nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from lancegpu_sql.catalog.models import UNENDED, JobState
from lancegpu_sql.maintenance.facts import Checkpoints, TableFacts
from lancegpu_sql.maintenance.steps import Step, Wanted, named, numbered, spell

Files = Literal["none", "old", "all"]

LEFT_OVER = timedelta(days=7)
"""As old is a file that no version has when Lance takes it for what a failed write left."""

# A write that takes nearly as long must be over before anything of that age is removed.
_LONG_WRITE = LEFT_OVER - timedelta(days=1)

UNSEEN_SECONDS = 3600.0
"""Where nobody knows who is at which version, as in an object store, all stay at least so long: a write on top of one may
still need it."""


def plan_versions(
    facts: TableFacts, wanted: Wanted, now: datetime
) -> tuple[tuple[int, ...], list[Step], datetime | None]:
    """Return which versions go, what is told of it, and when the next one is old enough.

    A version counts as old by when another one took its place: until then it was what readers opened.
    """
    if wanted.keep_seconds is None:
        return (), [], None
    least = 0.0 if facts.users_known else UNSEEN_SECONDS
    keep = timedelta(seconds=max(wanted.keep_seconds, least))
    replaced = [(old.version, newer.committed_at) for old, newer in pairwise(facts.versions)]
    young = [at for _, at in replaced if at + keep > now]
    going: list[int] = []
    kept: dict[str, list[int]] = {}
    for version, at in replaced:
        if at + keep > now:
            continue
        needed = [*facts.held.get(version, ()), *(who for since, who in facts.busy_since if at >= since)]
        if facts.used_from is not None and version >= facts.used_from:
            needed.append(f"a query or a write on this host that is at version {facts.used_from}")
        if needed := needed or _long_writes(facts, now):
            kept.setdefault(" and ".join(needed), []).append(version)
        else:
            going.append(version)
    told = []
    if going:
        age = f"more than {spell(keep.total_seconds())} ago" if keep else "already"
        reason = f"others took their place {age}"
        told.append(Step("remove versions", numbered("version", going), len(going), None, reason))
    for who, numbers in kept.items():
        told.append(Step("keep versions", numbered("version", numbers), len(numbers), None, f"for {who}"))
    return tuple(going), told, min(young) + keep if young else None


def plan_files(facts: TableFacts, wanted: Wanted, now: datetime) -> tuple[Files, list[Step]]:
    """Return whether files that no version has go, and what is told of it."""
    long = _long_writes(facts, now)
    old = facts.left_over
    if long:
        return "none", [_kept_files(old.files, old.size_bytes, long[0])] if old.files else []
    told = []
    if old.files:
        told.append(_files(old.files, old.size_bytes, f"no version has them, for more than {LEFT_OVER.days} days"))
    young = facts.under_way.files - old.files
    if not wanted.unfinished_files or young <= 0:
        return "old" if old.files else "none", told
    size_bytes = facts.under_way.size_bytes - old.size_bytes
    if facts.writing_since:
        told.append(_kept_files(young, size_bytes, facts.writing_since[0][1]))
        return "old" if old.files else "none", told
    told.append(_files(young, size_bytes, "no version has them, and whoever asked says that nobody writes"))
    return "all", told


def plan_checkpoints(
    found: Sequence[Checkpoints], wanted: Wanted, now: datetime
) -> tuple[tuple[Checkpoints, ...], list[Step]]:
    """Return which checkpoints go, and what is told of them."""
    going = tuple(one for one in found if is_expired(one, wanted, now))
    told = []
    if going:
        reason = f"nobody went on with them for {spell(wanted.checkpoint_seconds)}, or nobody can any more"
        told.append(Step("remove checkpoints", _jobs(going), len(going), _size(going), reason))
    kept = [one for one in found if one not in going]
    if kept:
        reason = "the next refresh takes over what they computed"
        told.append(Step("keep checkpoints", _jobs(kept), len(kept), _size(kept), reason))
    return going, told


def is_expired(one: Checkpoints, wanted: Wanted, now: datetime | None = None) -> bool:
    """Whether nobody will use checkpoints any more; without a time, whether that is so whatever their age."""
    if one.in_use or one.job_state in UNENDED:
        return False
    if one.forced and one.job_state in (None, JobState.FINISHED):
        return True
    return now is not None and now - one.touched_at > timedelta(seconds=wanted.checkpoint_seconds)


def _long_writes(facts: TableFacts, now: datetime) -> list[str]:
    """Jobs that have been writing for so long that what they write may soon be taken for left over."""
    return [
        f"{who}, whose files would be taken for the remains of a write that failed"
        for since, who in facts.writing_since
        if now - since >= _LONG_WRITE
    ]


def _files(count: int, size_bytes: int, reason: str) -> Step:
    return Step("remove files", f"{count:,} files that no version has", count, size_bytes, reason)


def _kept_files(count: int, size_bytes: int, who: str) -> Step:
    return Step("keep files", f"{count:,} files that no version has", count, size_bytes, f"for {who}")


def _jobs(found: Sequence[Checkpoints]) -> str:
    return named("of job", list(dict.fromkeys(one.job_id for one in found)))


def _size(found: Sequence[Checkpoints]) -> int:
    return sum(one.size_bytes for one in found)
