"""Which fragments of a table are worth making fewer, and which are better left alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from lancegpu_sql.maintenance.expiry import is_expired
from lancegpu_sql.maintenance.facts import TableFacts
from lancegpu_sql.maintenance.steps import Step, Wanted, numbered
from lancegpu_sql.tables import Fragment
from lancegpu_sql.tables.fragments import FRAGMENT_ROWS
from lancegpu_sql.tables.upkeep import FRAGMENT_BYTES

DELETED_SHARE = 0.1
"""Of the rows of a fragment: from so many deleted ones on it is written anew without them. As in Lance."""

SMALL_BYTES = FRAGMENT_BYTES // 2
"""A file that compaction wrote is nearly as large as it may be, and must not be taken for a small one."""

Groups = tuple[tuple[int, ...], ...]


def plan_compaction(facts: TableFacts, wanted: Wanted) -> tuple[Groups, list[Step]]:
    """Return which fragments to make fewer, by their numbers, and what is told of it."""
    spared = _spared(facts, wanted)
    runs = _runs(facts.fragments, spared)
    groups = [group for run in runs for group in _worth_it(run, wanted)]
    told = []
    chosen = [one for group in groups for one in group]
    if chosen:
        numbers = [one.id for one in chosen]
        told.append(Step("compact", numbered("fragment", numbers), len(chosen), _size(chosen), _why(chosen)))
    left = [one for one in facts.fragments if one.id in spared and _is_candidate(one)]
    for who in dict.fromkeys(spared[one.id] for one in left):
        its = [one for one in left if spared[one.id] == who]
        told.append(
            Step("leave fragments", numbered("fragment", [one.id for one in its]), len(its), _size(its), f"for {who}")
        )
    return tuple(tuple(one.id for one in group) for group in groups), told


def _spared(facts: TableFacts, wanted: Wanted) -> dict[int, str]:
    """The fragments that are left alone, by number, with for whom."""
    spared: dict[int, str] = {}
    kept = [one for one in facts.checkpoints if not is_expired(one, wanted)]
    if kept and not facts.stable_row_ids:
        who = f"job {kept[0].job_id}: its checkpoints know rows by ids that compaction would change in this table"
        spared |= dict.fromkeys((one.id for one in facts.fragments), who)
    for refresh in facts.refreshing:
        if refresh.computes_again or wanted.sparing or not facts.stable_row_ids:
            spared |= dict.fromkeys(refresh.fragments, refresh.who)
    return spared


def _runs(fragments: Sequence[Fragment], spared: Collection[int]) -> Iterator[list[Fragment]]:
    """Yield fragments that may be compacted and lie side by side."""
    run: list[Fragment] = []
    for one in fragments:
        if _is_candidate(one) and one.id not in spared:
            run.append(one)
        else:
            yield run
            run = []
    yield run


def _worth_it(run: list[Fragment], wanted: Wanted) -> Iterator[list[Fragment]]:
    """Yield the parts of a run that are to be compacted."""
    if wanted.sparing and len(run) > 1:
        largest = max(range(len(run)), key=lambda at: _weight(run[at]))
        if not _has_holes(run[largest]) and 2 * _weight(run[largest]) > sum(map(_weight, run)):
            # Written anew for each handful of new rows it would cost more than it helps.
            yield from _worth_it(run[:largest], wanted)
            yield from _worth_it(run[largest + 1 :], wanted)
            return
    if len(run) >= wanted.small_fragments or any(map(_has_holes, run)):
        yield run


def _is_candidate(fragment: Fragment) -> bool:
    return _has_holes(fragment) or (fragment.physical_rows < FRAGMENT_ROWS and fragment.size_bytes < SMALL_BYTES)


def _has_holes(fragment: Fragment) -> bool:
    return fragment.physical_rows - fragment.live_rows > DELETED_SHARE * fragment.physical_rows


def _weight(fragment: Fragment) -> int:
    return fragment.size_bytes or fragment.physical_rows


def _size(fragments: Sequence[Fragment]) -> int | None:
    return sum(one.size_bytes for one in fragments) or None


def _why(chosen: Sequence[Fragment]) -> str:
    holes = sum(map(_has_holes, chosen))
    small = f"below {FRAGMENT_ROWS:,} rows and {SMALL_BYTES >> 20} MiB each"
    deleted = f"of {holes} more than {DELETED_SHARE:.0%} of the rows are deleted"
    return small if not holes else deleted if holes == len(chosen) else f"{small}; {deleted}"
