"""What can be asked of a table's upkeep, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from lancegpu_sql.maintenance.steps import Step
from lancegpu_sql.refresh.request import checked
from lancegpu_sql.settings import MOST_SECONDS

OPTIMIZE = "optimize"
REMOVE_LEFT_OVER = "remove_left_over"

KEEP_SECONDS = 7 * 24 * 3600.0
"""As long as LanceDB keeps versions where nobody says otherwise."""


class OptimizeOptions(BaseModel):
    """The options of a table's upkeep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cleanup_older_than_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)] | None = Field(
        KEEP_SECONDS, description="versions whose place another one took longer ago are removed; None keeps all"
    )
    delete_unverified: bool = Field(
        False, description="remove files that no version has, however young: nobody may be writing to the table"
    )
    automatic: bool = Field(False, description="the policy of agents asked for it: it spares running refreshes")

    @classmethod
    def of(cls, **options: Any) -> OptimizeOptions:
        """Check options as a caller wrote them.

        Raises
        ------
        InvalidInput
            An option is unknown or its value does not suit; the message lists what there is.
        """
        return checked(cls, options, "unknown option {!r} of OPTIMIZE; the options are: {}")


class OptimizeStep(BaseModel):
    """One thing that is, or would be, done or left alone.

    Attributes
    ----------
    action
        ``compact``, ``leave fragments``, ``leave indexes``, ``remove versions``, ``keep versions``, ``remove files``, ``keep files``,
        ``remove checkpoints``, ``keep checkpoints``; of what is left over also ``remove results``, ``remove environments``.
    what
        Of what, in words.
    count
        How many of them.
    size_bytes
        What they take, where that is known.
    reason
        Why, or for whom they are kept.
    """

    model_config = ConfigDict(frozen=True)

    action: str
    what: str
    count: int
    size_bytes: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.action} {self.what}: {self.reason}" if self.reason else f"{self.action} {self.what}"


class OptimizeResult(BaseModel):
    """What upkeep did to a table.

    Attributes
    ----------
    version
        The version that readers see now.
    fragments_before, fragments_after
        How many fragments it had and has.
    fragments_removed, fragments_added
        How many were compacted, and into how many.
    versions_removed
        How many versions cannot be opened any more.
    files_removed, bytes_removed
        Files in the table's folder that only these versions had, or none.
    checkpoints_removed
        Of how many jobs what they computed and never published was forgotten.
    steps
        What was done, and what was left alone and why.
    job_id
        The job that did it; None for a plan.
    """

    model_config = ConfigDict(frozen=True)

    table: str
    version: int
    fragments_before: int
    fragments_after: int
    fragments_removed: int = 0
    fragments_added: int = 0
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    checkpoints_removed: int = 0
    steps: tuple[OptimizeStep, ...] = ()
    job_id: str | None = None

    @property
    def kept(self) -> tuple[OptimizeStep, ...]:
        """What was left alone, and why."""
        return tuple(step for step in self.steps if step.action.startswith(("keep", "leave")))


class LeftOverResult(BaseModel):
    """What was removed of what was left over: how many folders and files, their bytes, and the steps with reasons."""

    model_config = ConfigDict(frozen=True)

    removed: int
    bytes_removed: int
    steps: tuple[OptimizeStep, ...] = ()


def told(steps: Iterable[Step]) -> tuple[OptimizeStep, ...]:
    """Return steps as those who asked get them."""
    return tuple(OptimizeStep.model_validate(step, from_attributes=True) for step in steps)
