"""Who may work on a job: leases between processes, and which queued job an agent takes next.

A lease has no end by any clock, for no two hosts agree on one and each may be set. Its holder counts signs of life in the
catalog; who wants to know whether it lives watches that count, and takes it for dead when the count has stood still for
long enough by the watcher's own monotonic clock. Where the kernel can be asked (the same host) it is: it knows at once.

A holder that was taken for dead and lives (it was stopped, or cut off from the catalog) learns so with its next sign of
life, and stops. Until then two may work on one job; what they publish are replacements of the same files, of which the
second is refused, so no row is published twice.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING

from lancegpu_sql.catalog.models import AgentRecord, JobRecord

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog

BEATS_PER_LEASE = 6
"""A few signs of life may come late, or be lost to a busy catalog, before anyone draws conclusions."""

SILENT_SHARE = 2 / 3
"""Of a lease: the rest is for seeing the last sign of life late, and for seeing late that none followed."""


def beat_seconds(lease_seconds: float) -> float:
    """Return how often a holder of leases gives a sign of life."""
    return lease_seconds / BEATS_PER_LEASE


class Silence:
    """Which of the watched have given no sign of life for long.

    Parameters
    ----------
    limit_seconds
        How long that is, from when their last sign of life was seen.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def look(self, signs: Mapping[str, Hashable], now: float) -> list[str]:
        """Return the silent ones.

        Parameters
        ----------
        signs
            What each of the watched says now; another value than before is a sign of life.
        now
            Seconds of a clock that only goes forward.
        """
        unchanged = {name: seen for name, seen in self._seen.items() if name in signs and seen[0] == signs[name]}
        self._seen = {name: unchanged.get(name, (sign, now)) for name, sign in signs.items()}
        return [name for name, (_, since) in self._seen.items() if now - since >= self._limit_seconds]


def next_jobs(
    queued: Iterable[JobRecord], busy: Iterable[JobRecord], *, kinds: Collection[str], room: int
) -> list[JobRecord]:
    """Return which queued jobs to take, oldest first.

    Of several jobs about the same columns one at a time: the others would only stand behind it, in the room of jobs that
    could work.

    Parameters
    ----------
    queued, busy
        Jobs that nobody runs, and those that any process works on.
    kinds
        The kinds of jobs that can be run.
    room
        How many to take at most.
    """
    taken = {subject for job in busy if (subject := _subject(job)) is not None}
    chosen: list[JobRecord] = []
    for job in sorted(queued, key=lambda job: job.id):
        subject = _subject(job)
        if len(chosen) >= room:
            break
        if job.kind in kinds and job.owner is None and subject not in taken:
            chosen.append(job)
            taken |= {subject} if subject is not None else set()
    return chosen


def is_serving(agent: AgentRecord) -> bool:
    """Tell whether an agent lives, as far as can be known now."""
    alive = agent.identity.is_alive()
    return agent.silent_seconds < agent.lease_seconds if alive is None else alive


def serving(catalog: Catalog, kind: str | None = None) -> list[AgentRecord]:
    """Return the agents that run queued jobs of this database, all or those that can run one kind."""
    return [agent for agent in catalog.agents() if (kind is None or kind in agent.kinds) and is_serving(agent)]


def _subject(job: JobRecord) -> tuple[str, str, tuple[str, ...]] | None:
    return None if job.table is None else (job.kind, job.table, job.columns)
