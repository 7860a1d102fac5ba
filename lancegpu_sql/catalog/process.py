"""Which process is meant, and does it still live: for jobs, leases and workers that outlast their owner."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_MACHINE_ID = Path("/etc/machine-id")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_DEAD_STATES = frozenset("ZXx")


def host_name() -> str:
    """Return what tells this host from others: its name, and its machine id where it has one."""
    machine = _read(_MACHINE_ID)
    return f"{socket.gethostname()}/{machine[:12]}" if machine else socket.gethostname()


def boot_name() -> str:
    """Return what tells this boot of this kernel, and this process namespace of it, from all others.

    Two containers share a kernel, not their process numbers; hence the namespace.
    """
    try:
        namespace = _NAMESPACE.readlink().name.removeprefix("pid:")
    except OSError:
        namespace = ""
    return f"{_read(_BOOT_ID)}{namespace}"


def start_seconds(pid: int) -> float | None:
    """Return when a process of this host started, in seconds since boot; None where it is gone or a zombie.

    Seconds since boot, not clock time: correcting the clock must not make a living process look like another one.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command's name stands in parentheses and may itself hold blanks and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0].decode() in _DEAD_STATES:
        return None
    return int(fields[19]) / _TICKS_PER_SECOND


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
