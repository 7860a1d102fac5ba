"""What this machine gives a process: cores, and the kernel's count of kills for lack of memory."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_VMSTAT = Path("/proc/vmstat")


def available_cores() -> int:
    """Return how many cores this process may use: its affinity, cut to its container's quota."""
    cores = len(os.sched_getaffinity(0))
    quota = _quota_cores()
    return max(1, cores if quota is None else min(cores, int(quota)))


def _quota_cores() -> float | None:
    try:
        quota, period = (_CGROUPS / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((_CGROUPS / "cpu/cpu.cfs_quota_us").read_text())
        period_us = int((_CGROUPS / "cpu/cpu.cfs_period_us").read_text())
        return quota_us / period_us if quota_us > 0 else None
    except (OSError, ValueError):
        return None


class MemoryKills:
    """Tells kills for lack of memory from other kills, by the kernel's own count.

    A process that is killed so dies of SIGKILL like any other; only the count of its control group (or, where that has
    none, of the machine) tells. Each kill counted explains one death.
    """

    def __init__(self, counter: Path | None = None) -> None:
        self._counter = counter or _kill_counter()
        self._explained = self._count()

    def forget(self) -> None:
        """Leave out what was counted so far: none of our workers was alive."""
        self._explained = self._count()

    def explains_one(self) -> bool:
        """Tell whether a kill was counted that no death has been put down to yet, and put one down to it."""
        if self._count() <= self._explained:
            return False
        self._explained += 1
        return True

    def _count(self) -> int:
        try:
            lines = self._counter.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _kill_counter() -> Path:
    try:
        memberships = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        memberships = []
    for membership in memberships:
        number, controllers, path = membership.split(":", 2)
        inside = path.lstrip("/")
        if number == "0":
            # In a container, its own group is the root that it sees.
            candidates = [_CGROUPS / inside / "memory.events", _CGROUPS / "memory.events"]
        elif "memory" in controllers.split(","):
            candidates = [_CGROUPS / "memory" / inside / "memory.oom_control", _CGROUPS / "memory/memory.oom_control"]
        else:
            continue
        for candidate in candidates:
            if candidate.exists():
                return candidate
    return _VMSTAT
