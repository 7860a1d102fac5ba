"""What is asked of upkeep, and its single steps in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Action = Literal[
    "compact",
    "leave fragments",
    "leave indexes",
    "remove versions",
    "keep versions",
    "remove files",
    "keep files",
    "remove checkpoints",
    "keep checkpoints",
    "remove results",
    "remove environments",
]

_TOLD = 3


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes
    ----------
    keep_seconds
        Versions stay so long after another one took their place; None for ever.
    checkpoint_seconds
        So long stay checkpoints of jobs with which nobody goes on.
    environment_seconds
        So long stay environments of this machine that no worker uses and no Function needs.
    small_fragments
        So many small fragments side by side are compacted, fewer are not.
    sparing
        Do not let a running refresh read rows again, nor write large fragments anew for the sake of small ones.
    unfinished_files
        Remove files that no version has whatever their age.
    """

    keep_seconds: float | None
    checkpoint_seconds: float
    small_fragments: int = 2
    sparing: bool = False
    unfinished_files: bool = False
    environment_seconds: float = 30 * 86_400.0


@dataclass(frozen=True)
class Step:
    """One thing that is done, or left alone, as people are told of it.

    Attributes
    ----------
    count
        How many fragments, versions, files or jobs' checkpoints.
    size_bytes
        What they take, where that is known.
    """

    action: Action
    what: str
    count: int
    size_bytes: int | None
    reason: str


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return numbers as people write them: ``versions 1-4, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = ", …" if len(spans) > _TOLD else ""
    return f"{noun}{'s' * (len(numbers) > 1)} {', '.join(spans[:_TOLD])}{more}"


def named(noun: str, names: Sequence[str]) -> str:
    """Return names as people write them, the first few of many."""
    more = f" and {len(names) - _TOLD:,} more" if len(names) > _TOLD else ""
    return f"{noun}{'s' * (len(names) > 1)} {', '.join(names[:_TOLD])}{more}"


def spell(seconds: float) -> str:
    """Return a long time as people say it: ``7 days``, ``36 hours``."""
    for unit, length in (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}{'s' * (seconds != length)}"
    return f"{seconds:g} s"
