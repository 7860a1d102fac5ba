"""A worker ends with its owner, whatever it is busy with.

The owner holds the other end of the worker's stdin and never writes to it: end of file there means that the worker is
no longer needed, because its owner says so or is gone. An owner that is gone also means a kill by the kernel, which
needs no thread and no interpreter lock of the worker.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import stat
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

ORPHAN_GRACE_SECONDS = 10.0
"""How long a worker without an owner may take to close its Function. A living owner kills it sooner."""


def end_with_owner(retire: Callable[[], None]) -> None:
    """Bind this process to the life of the one that started it, and leave /dev/null as stdin.

    Does nothing where stdin is neither a pipe nor a socket: then a person started the worker by hand. Otherwise the
    thread that started this process must outlive it: for the kernel, a child's parent is a thread.
    """
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # An owner that died before this line is seen by the end of file.
    tether = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(tether, retire), name="owner-watch", daemon=True).start()


def _watch(tether: int, retire: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(tether, select.POLLIN | select.POLLHUP)
    poll.poll()
    retire()
    threading.Event().wait(ORPHAN_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
