"""What a worker started and left behind: processes that outlived it, and may still use its devices.

A worker is given a mark in its environment, which everything that it starts inherits: that finds them by themselves,
wherever they went, long after the worker's number became another process's. What took the mark off its environment is
still seen as long as it stays in the worker's session. What did both is not seen; nor is anything in another container.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.catalog.process import start_seconds

MARK_VARIABLE = "LANCEGPU_WORKER_MARK"

# Killed processes are gone within milliseconds, unless a driver holds them.
_END_SECONDS = 1.0
_DEAD_STATES = frozenset((b"Z", b"X", b"x"))
_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class _Found:
    pid: int
    marked: bool


def end_remains(mark: str, worker: ProcessIdentity | None, *, is_ours: bool = False) -> bool:
    """Kill what a dead worker left behind; tell whether nothing of it is left.

    Parameters
    ----------
    mark
        The worker's.
    worker
        Which process it was; None where that is not known.
    is_ours
        Whether the worker is this process's child, and not reaped yet. Otherwise what bears no mark is only seen, not
        killed: its session may have become another one's.
    """
    deadline = time.monotonic() + _END_SECONDS
    while found := list(_remains(mark, worker)):
        for one in found:
            if one.marked or is_ours:
                _kill(one, mark, deadline)
        if time.monotonic() >= deadline or not any(one.marked or is_ours for one in found):
            return not list(_remains(mark, worker))
    return True


def _remains(mark: str, worker: ProcessIdentity | None) -> Iterator[_Found]:
    session = None if worker is None or _is_another(worker) else worker.pid
    for entry in _PROCESSES.iterdir():
        if not entry.name.isdecimal() or (pid := int(entry.name)) in (os.getpid(), session):
            continue
        found = _session_of(pid)
        if found is None:
            continue
        if _is_marked(pid, mark):
            yield _Found(pid, marked=True)
        elif found == session:
            yield _Found(pid, marked=False)


def _is_another(worker: ProcessIdentity) -> bool:
    """Whether the worker's number is another process's by now: then nothing of its session is left."""
    started_at = start_seconds(worker.pid)
    return started_at is not None and started_at != worker.started_at


def _session_of(pid: int) -> int | None:
    """Return the session of a process; None where it is gone or dead."""
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The command's name stands in parentheses and may itself hold blanks and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in _DEAD_STATES else int(fields[3])


def _is_marked(pid: int, mark: str) -> bool:
    if not mark:
        return False
    try:
        environment = (_PROCESSES / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # another user's
    return f"{MARK_VARIABLE}={mark}".encode() in environment.split(b"\0")


def _kill(found: _Found, mark: str, deadline: float) -> None:
    with suppress(OSError):
        descriptor = os.pidfd_open(found.pid)
        try:
            # Only from here on does the number mean this process and no later one.
            if found.marked and not _is_marked(found.pid, mark):
                return
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(descriptor)
