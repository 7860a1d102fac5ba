"""Who uses an environment on this machine, and when it was used last: those of no use are taken away, others never.

A worker holds a lock of its environment's for as long as it lives, through a descriptor that it inherits: however it ends,
the kernel frees it. Where the folder's file system knows no locks, nothing is taken away.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LOCK_FILE = "lancegpu.lock.txt"
"""In an environment: what it was made of, written last. A folder without it is none. Its time is that of the last use."""

# What a time loses on its way through `datetime`.
_SAME_SECONDS = 1e-3

_DIGEST = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = re.compile(r"([0-9a-f]{32})\.new-[0-9a-f]{8}(?:\.txt)?")


@dataclass(frozen=True)
class KeptEnvironment:
    """A folder of one environment, or what is left of the making of one, and when it was used last."""

    path: Path
    digest: str
    used_at: datetime
    finished: bool


def mark_used(place: Path) -> None:
    """Note that an environment is used now."""
    with suppress(OSError):  # a folder that others keep, and that may only be read
        os.utime(place / LOCK_FILE)


def hold(place: Path) -> int | None:
    """Return a descriptor while which is open, in whatever process, the environment stays; None where it is gone."""
    try:
        descriptor = os.open(place / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # without locks nobody takes anything away
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if not _is_at(place / LOCK_FILE, descriptor):
        os.close(descriptor)
        return None
    mark_used(place)
    return descriptor


def kept_environments(folder: Path) -> Iterator[KeptEnvironment]:
    """Yield what a folder has of environments, by name."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return
    for path in paths:
        left = _UNFINISHED.fullmatch(path.name)
        if left is None and not _DIGEST.fullmatch(path.name):
            continue
        with suppress(OSError):  # it has just gone
            at = (path if left else path / LOCK_FILE).stat().st_mtime
            digest = left[1] if left else path.name
            yield KeptEnvironment(path, digest, datetime.fromtimestamp(at, UTC), finished=left is None)


def take_away_unused(found: KeptEnvironment) -> bool:
    """Take an environment away unless somebody uses it, or has since it was looked at; tell whether it is gone."""
    lock = found.path / LOCK_FILE if found.finished else found.path.with_name(f"{found.digest}.lock")
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if found.finished and os.fstat(descriptor).st_mtime - found.used_at.timestamp() > _SAME_SECONDS:
            return False
        # Out of its place at once: taking away its files takes a while, and who wants it meanwhile makes it anew.
        gone = found.path.with_name(f"{found.digest}.new-{uuid.uuid4().hex[:8]}")
        found.path.rename(gone)
    except BlockingIOError:
        if found.finished:
            mark_used(found.path)  # by a worker that has run for long
        return False
    except OSError:
        return False
    finally:
        os.close(descriptor)
    take_away(gone)
    return True


def take_away(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False
