"""The CPU ladder: how large the workers of CPU Functions are where each has a place of its own, as a pod has."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.functions.sizes import parse_bytes

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXAMPLE = "write rungs as 'small 1 2GiB, medium 2 8GiB': a name, CPUs and memory, the smallest first"
_GIB = 1024**3


@dataclass(frozen=True)
class CpuRung:
    """One size of CPU workers: what one of it asks for, at least."""

    name: str
    cpus: float
    memory_bytes: int

    def __str__(self) -> str:
        return f"{self.name} ({self.memory_bytes / _GIB:.3g} GiB)"


def parse_cpu_ladder(text: str) -> tuple[CpuRung, ...]:
    """Read a ladder as the setting `kubernetes_cpu_ladder` has it.

    Raises
    ------
    InvalidPlacement
        It is no ladder; the message says which rung is at fault.
    """
    rungs = tuple(_rung(part.split()) for part in text.split(",") if part.strip())
    check_cpu_ladder(rungs)
    return rungs


def check_cpu_ladder(rungs: Sequence[CpuRung]) -> None:
    """Refuse a ladder that nobody can climb.

    Raises
    ------
    InvalidPlacement
    """
    if not rungs:
        raise InvalidPlacement(f"the CPU ladder is empty: CPU workers would have no size; {_EXAMPLE}")
    names = [rung.name for rung in rungs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidPlacement(f"the CPU ladder has {', '.join(sorted(twice))} twice; give each rung a name of its own")
    for below, above in itertools.pairwise(rungs):
        if above.memory_bytes <= below.memory_bytes:
            raise InvalidPlacement(
                f"rung {above.name!r} of the CPU ladder has no more memory than {below.name!r} before it; {_EXAMPLE}"
            )


def rung_named(rungs: Sequence[CpuRung], name: str | None) -> CpuRung:
    """Return the rung of that name; the lowest where there is none, or none is named."""
    return next((rung for rung in rungs if rung.name == name), rungs[0])


def _rung(words: Sequence[str]) -> CpuRung:
    wrong = InvalidPlacement(f"{' '.join(words)!r} is no rung of the CPU ladder; {_EXAMPLE}")
    if len(words) != 3 or not _NAME.fullmatch(words[0]):
        raise wrong
    try:
        cpus, memory_bytes = float(words[1]), parse_bytes(words[2])
    except ValueError as exc:
        raise wrong from exc
    if not (0 < cpus < float("inf")) or not isinstance(memory_bytes, int) or memory_bytes <= 0:
        raise wrong
    return CpuRung(words[0], cpus, memory_bytes)
