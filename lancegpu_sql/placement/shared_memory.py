"""Memory that a worker's process shares with its owner: without a name, and gone with the two of them."""

from __future__ import annotations

import fcntl
import mmap
import os

SHARED_BYTES = 128 * 1024 * 1024
"""Of one worker. Only what is written to takes room."""


def make_shared_memory() -> tuple[mmap.mmap, int] | None:
    """Make the memory of one worker, and a descriptor of it for the worker to inherit, which the caller closes.

    None where the system has no such memory to give: results come another way then.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("lancegpu-results", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return None
    try:
        os.ftruncate(descriptor, SHARED_BYTES)
        # A worker that cut it would end its owner by a signal.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return mmap.mmap(descriptor, SHARED_BYTES), descriptor
    except OSError:
        os.close(descriptor)
        return None
