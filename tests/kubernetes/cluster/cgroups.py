"""A control group for each real node, in every hierarchy of cgroup v1: the one thing of a node that the kernel does not
take away by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "lancegpu-test-"
# Killed processes leave their groups one by one.
EMPTY_SECONDS = 5.0
POLL_SECONDS = 0.02


def why_not() -> str | None:
    """Why there can be none here."""
    if (ROOT / "memory").is_dir():
        return None
    return "no memory controller of cgroup v1 (what starts real nodes knows that version only)"


def make(owner: int, name: str) -> str:
    """Make one, and return its name; what owners left behind that are not there any more is swept away."""
    for left in {path.name for path in _all(f"{PREFIX}*")}:
        if not Path("/proc", left.removeprefix(PREFIX).partition("-")[0]).exists():
            with suppress(OSError):
                remove(left)
    group = f"{PREFIX}{owner}-{name}"
    for hierarchy in ROOT.iterdir():
        if hierarchy.is_dir() and not hierarchy.is_symlink():
            (hierarchy / group).mkdir(exist_ok=True)
    for what in ("cpuset.cpus", "cpuset.mems"):  # a new one has none, and takes no process until it has
        (ROOT / "cpuset" / group / what).write_text((ROOT / "cpuset" / what).read_text())
    return group


def remove(group: str) -> None:
    """Take it away with all below it, as soon as no process is left there."""
    deadline = time.monotonic() + EMPTY_SECONDS
    for top in _all(group):
        for path in sorted((top, *(one for one in top.rglob("*") if one.is_dir())), reverse=True):
            _remove_one(path, deadline)


def _remove_one(path: Path, deadline: float) -> None:
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def _all(pattern: str) -> Iterator[Path]:
    return (path for hierarchy in ROOT.iterdir() if hierarchy.is_dir() for path in hierarchy.glob(pattern))
