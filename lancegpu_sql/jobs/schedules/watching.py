"""Which sources of schedules have changed: a few looks at a time, each as cheap as a look at a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from lancegpu_sql.catalog.schedule_models import Watched

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog

LOOKS = 1000
"""Schedules looked at in one turn: 10,000 are seen within 10 turns, which are 5 s, and a turn takes some milliseconds."""

_TURN_SECONDS = 0.5
"""How long one turn may take: a look into an object store takes tens of milliseconds, and the agent has more to do."""

_DOUBTS = 50
"""Schedules that are read anew in one turn because a source seems to have changed."""


class SourceWatch:
    """Tells which schedules have a source that changed since a refresh last covered it.

    Parameters
    ----------
    catalog
        Of the database.
    stamp
        What is another text after each commit to a table; None where there is no such table.
    job_kinds
        Of the schedules that are watched.
    """

    def __init__(self, catalog: Catalog, stamp: Callable[[str], str | None], job_kinds: Collection[str]) -> None:
        self._catalog = catalog
        self._stamp = stamp
        self._job_kinds = tuple(job_kinds)
        self._revision: int | None = -1
        self._watched: list[Watched] = []
        self._at = 0

    def stamps(self, tables: Iterable[str]) -> dict[str, str]:
        """Return the stamps of tables; of one that is gone an empty text."""
        return {table: self._stamp(table) or "" for table in tables}

    def changed(self) -> list[str]:
        """Return subjects that are to be due: nothing is queued or due for them, and a source has changed."""
        revision = self._catalog.schedules_revision()
        if revision != self._revision:
            self._watched = self._catalog.watched_schedules(self._job_kinds)
            self._revision, self._at = revision, 0
        doubted = {one.subject: one for one in self._doubts()}
        if not doubted:
            return []
        changed = []
        for held in self._catalog.schedules(list(doubted)):
            schedule = held.schedule
            doubted[schedule.subject].seen = schedule.seen
            idle = schedule.next_run is None and schedule.job_id is None
            if idle and self.stamps(schedule.sources) != schedule.seen:
                changed.append(schedule.subject)
        return changed

    def _doubts(self) -> list[Watched]:
        """Look at the next few schedules; return those whose sources are not as they were last seen."""
        known: dict[str, str] = {}
        found: list[Watched] = []
        until = time.monotonic() + _TURN_SECONDS
        for _ in range(min(LOOKS, len(self._watched))):
            if time.monotonic() > until:
                break
            one = self._watched[self._at % len(self._watched)]
            self._at += 1
            for table in one.sources:
                if table not in known:
                    known[table] = self._stamp(table) or ""
            if {table: known[table] for table in one.sources} != one.seen:
                found.append(one)
                if len(found) == _DOUBTS:
                    break
        return found
