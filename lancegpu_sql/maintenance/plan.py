"""What is to be done to a table, what is left alone, and why: decided without a look at anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lancegpu_sql.maintenance.compaction import plan_compaction
from lancegpu_sql.maintenance.expiry import plan_checkpoints, plan_files, plan_versions
from lancegpu_sql.maintenance.facts import Checkpoints, TableFacts
from lancegpu_sql.maintenance.steps import Step, Wanted


@dataclass(frozen=True)
class TablePlan:
    """What is to be done to one table.

    Attributes
    ----------
    table, version
        Which one, and the version that was looked at.
    groups
        The numbers of fragments to make fewer, side by side.
    versions
        To remove.
    files
        Whether files that no version has go: ``old``, where they are a week old, or ``all``.
    checkpoints
        To remove.
    told
        All of that, and what is left alone, with reasons.
    again_at
        When there may be more to do though nobody writes to the table; None if never.
    """

    table: str
    version: int
    groups: tuple[tuple[int, ...], ...]
    versions: tuple[int, ...]
    files: Literal["none", "old", "all"]
    checkpoints: tuple[Checkpoints, ...]
    told: tuple[Step, ...]
    again_at: datetime | None = None

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.groups or self.versions or self.files != "none" or self.checkpoints)


def plan_table(facts: TableFacts, wanted: Wanted, now: datetime) -> TablePlan:
    """Decide what to do to a table."""
    groups, of_fragments = plan_compaction(facts, wanted)
    versions, of_versions, again_at = plan_versions(facts, wanted, now)
    files, of_files = plan_files(facts, wanted, now)
    checkpoints, of_checkpoints = plan_checkpoints(facts.checkpoints, wanted, now)
    return TablePlan(
        table=facts.table,
        version=facts.version,
        groups=groups,
        versions=versions,
        files=files,
        checkpoints=checkpoints,
        told=(*of_fragments, *of_versions, *of_files, *of_checkpoints),
        again_at=again_at,
    )
