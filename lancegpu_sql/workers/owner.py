"""A worker ends with its owner, whatever it is busy with.

On one machine the owner holds the other end of the worker's stdin and never writes to it: end of file there means that
the worker is no longer needed, because its owner says so or is gone. An owner that is gone also means a kill by the
kernel, which needs no thread and no interpreter lock of the worker. Across machines only silence tells: an owner that
lives is heard again and again.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import stat
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

ORPHAN_GRACE_SECONDS = 10.0
"""How long a worker without an owner may take to close its Function. A living owner kills it sooner."""

_TICKS = 20


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
    _end(retire)


def _end(retire: Callable[[], None]) -> None:
    retire()
    threading.Event().wait(ORPHAN_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


class Hearing:
    """Ends this process when its owner has not been heard for `orphan_seconds`.

    Only time in which this process could have heard counts: user code that holds the interpreter lock, or a machine
    that was suspended, makes no orphan of it.
    """

    def __init__(self, orphan_seconds: float, retire: Callable[[], None]) -> None:
        self._orphan_seconds = orphan_seconds
        self._retire = retire
        self._silent_seconds = 0.0
        threading.Thread(target=self._listen, name="owner-watch", daemon=True).start()

    def heard(self) -> None:
        """Note that the owner spoke."""
        self._silent_seconds = 0.0

    def _listen(self) -> None:
        tick_seconds = self._orphan_seconds / _TICKS
        while self._silent_seconds < self._orphan_seconds:
            since = time.monotonic()
            time.sleep(tick_seconds)
            self._silent_seconds += min(time.monotonic() - since, 2 * tick_seconds)
        _end(self._retire)
