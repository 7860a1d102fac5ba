"""Knocks at a worker's doors until one opens: a pod that runs does not serve yet, and not every way leads to it."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lancegpu_sql.errors import PlacementError

_FIRST_PAUSE_SECONDS = 0.02
_OTHER_WAYS_SECONDS = 15.0
"""How long the other ways are tried once one is closed: what refuses a connection may be a worker about to listen."""

_NOWHERE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class NoAnswer(Exception):
    """Nothing answered in the time given; the text says what was met at each door."""


class Closed(Exception):
    """A way is closed for good; the error says why."""

    def __init__(self, error: PlacementError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class Door:
    """An address at which a worker may answer.

    Attributes
    ----------
    host, port
        The address.
    knock_seconds
        How long one attempt may take.
    pause_seconds
        How long to wait between two, at most.
    growth
        How much longer each pause is than the one before. By default a worker is not kept waiting for a knock by more than
        a tenth of what it took to start.
    quiet_seconds
        How long it is left alone at first.
    meet
        Called after a failure: returns what is known of it beyond the socket's error, or raises `Closed`.
    """

    host: str
    port: int
    knock_seconds: float = 5.0
    pause_seconds: float = 0.25
    growth: float = 1.1
    quiet_seconds: float = 0.0
    meet: Callable[[], str] = str


def await_door(
    doors: Sequence[Door], *, root_pem: bytes, name: str, given_up: threading.Event, timeout_seconds: float
) -> Door | None:
    """Return the first door behind which there is a certificate for `name`; None when `given_up` is set.

    A worker binds its port when it is ready to answer, so a finished handshake is the worker itself, ready: an address
    alone could be another pod's by now, or lead into another network. Of two doors that open the first named is taken.

    Raises
    ------
    NoAnswer
        None opened in the time given.
    Closed
        A door is closed for good, and the others lead nowhere.
    """
    trust = _trust(root_pem)
    begun = time.monotonic()
    until = begun + timeout_seconds
    closed: Closed | None = None
    knocks = [_Knocks(door, begun + door.quiet_seconds) for door in doors]
    while not given_up.is_set():
        due = min(knocks, key=lambda one: one.next_at)
        if due.next_at > until:
            raise closed or NoAnswer("; ".join(one.failure for one in knocks if one.failure))
        if given_up.wait(max(0.0, due.next_at - time.monotonic())):
            break
        if due.opens(trust, name):
            # It may be the first to be knocked at since the worker is ready.
            return next(one.door for one in knocks if one is due or one.opens(trust, name))
        if due.closed is not None:
            closed = due.closed
            until = min(until, time.monotonic() + _OTHER_WAYS_SECONDS)
            knocks.remove(due)
        if closed is not None and all(one.leads_nowhere for one in knocks):
            raise closed
    return None


@lru_cache(maxsize=4)
def _trust(root_pem: bytes) -> ssl.SSLContext:
    """Return what believes in a placement's certificates; one for all its doors: it is large."""
    trust = ssl.create_default_context(cadata=root_pem.decode())
    trust.set_alpn_protocols(["h2"])
    return trust


class _Knocks:
    """What has been tried at one door."""

    def __init__(self, door: Door, first_at: float) -> None:
        self.door = door
        self.next_at = first_at
        self.failure = ""
        self.leads_nowhere = False
        self.closed: Closed | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def opens(self, trust: ssl.SSLContext, name: str) -> bool:
        door = self.door
        family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
        try:
            # Wrapped before it is connected: Python leaves one open that is reset between these two.
            with trust.wrap_socket(socket.socket(family), server_hostname=name) as knock:
                knock.settimeout(door.knock_seconds)
                knock.connect((door.host, door.port))
                return True
        except OSError as exc:
            # Silence is a network that leads nowhere; a refusal may be a worker that does not listen yet.
            self.leads_nowhere = isinstance(exc, TimeoutError) or exc.errno in _NOWHERE
            self._fail(exc)
        return False

    def _fail(self, exc: OSError) -> None:
        try:
            self.failure = self.door.meet() or f"{self.door.host} port {self.door.port}: {exc}"
        except Closed as closed:
            self.closed, self.failure = closed, str(closed)
        self.next_at = time.monotonic() + self._pause
        self._pause = min(self.door.pause_seconds, self._pause * self.door.growth)
