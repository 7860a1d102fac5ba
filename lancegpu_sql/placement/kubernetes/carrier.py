"""Carries the bytes of one connection between this machine and a pod, both ways, in the thread that asks for it."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress

from lancegpu_sql.placement.kubernetes.frames import (
    FRAME_BYTES,
    Arrived,
    BrokenFrames,
    FrameReader,
    data_frame,
    goodbye,
)
from lancegpu_sql.placement.kubernetes.upgrade import Upgraded

_WAITING_BYTES = 1 << 20
"""No more is read from one side while so much waits to be taken by the other."""

_FAREWELL_SECONDS = 1.0
_LOOK_MILLISECONDS = 500
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_READ, _WRITE = select.POLLIN, select.POLLOUT
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Carrier:
    """One connection of this machine, and from `carry` on its way to the pod.

    Port-forward knows no half of a connection: when one side says that it sends no more, what it had sent is delivered
    and both are closed.

    Attributes
    ----------
    stopped
        Set by `stop`.
    has_carried
        Whether the pod has sent anything: before, it may just not listen yet.
    """

    def __init__(self, near: socket.socket) -> None:
        self.stopped = threading.Event()
        self.has_carried = False
        self._near = near
        self._far: Upgraded | None = None
        self._frames = FrameReader()
        self._to_near = bytearray()
        self._to_far = bytearray()
        self._near_ended = self._far_ended = False
        self._trouble = ""

    def stop(self) -> None:
        """End it, from any thread: `carry` returns soon."""
        self.stopped.set()
        # Wakes who waits for either side.
        with suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free both sides."""
        self._near.close()
        if self._far is not None:
            self._far.close()

    def carry(self, far: Upgraded) -> str:
        """Carry bytes until either side ends; return what broke it, or nothing where both ended well."""
        self._far = far
        self._near.setblocking(False)
        try:
            self._take(self._frames.feed(far.begun))
            while not self._is_over():
                self._turn(far.socket)
            if not self._far_ended:
                far.socket.settimeout(_FAREWELL_SECONDS)
                far.socket.sendall(goodbye())
        except BrokenFrames as exc:
            self._trouble = self._trouble or str(exc)
        except OSError as exc:
            # Of the near side's own end nobody needs to hear.
            self._trouble = self._trouble or ("" if self._near_ended else f"{exc}")
        return self._trouble

    def _is_over(self) -> bool:
        return (
            self.stopped.is_set()
            or (self._near_ended and not self._to_far)
            or (self._far_ended and (not self._to_near or self._near_ended))
        )

    def _turn(self, far: socket.socket) -> None:
        """Wait until something can be read or written, and do it."""
        near_wants = (_READ if self._reads_near() else 0) | (_WRITE if self._to_near else 0)
        far_wants = (_READ if self._reads_far() else 0) | (_WRITE if self._to_far else 0)
        waiting = select.poll()
        if near_wants or not self._near_ended:
            waiting.register(self._near, near_wants)
        if not self._far_ended:
            waiting.register(far, far_wants)
        # What TLS has decrypted already, a poll does not see.
        decrypted = bool(far_wants & _READ) and isinstance(far, ssl.SSLSocket) and far.pending() > 0
        # Once the near side has ended, nothing that happens there wakes this any more: `stop` is looked for.
        happened = dict(waiting.poll(0 if decrypted else _LOOK_MILLISECONDS if self._near_ended else None))
        at_near, at_far = happened.get(self._near.fileno(), 0), happened.get(far.fileno(), 0)
        if at_far & far_wants & _READ or at_far & _GONE or decrypted:
            self._read_far(far)
        if self._to_near:
            self._write_near()
        if at_near & near_wants & _READ or at_near & _GONE:
            self._read_near()
        if self._to_far:
            self._write_far(far)

    def _reads_near(self) -> bool:
        return not self._near_ended and not self._far_ended and len(self._to_far) < _WAITING_BYTES

    def _reads_far(self) -> bool:
        return not self._far_ended and len(self._to_near) < _WAITING_BYTES

    def _read_near(self) -> None:
        try:
            received = self._near.recv(FRAME_BYTES)
        except _NOT_YET:
            return
        except OSError:
            received = b""  # it is gone, and wants nothing more
            self._to_near.clear()
        if received:
            self._to_far += data_frame(received)
        else:
            self._near_ended = True

    def _write_near(self) -> None:
        try:
            del self._to_near[: self._near.send(self._to_near)]
        except _NOT_YET:
            return
        except OSError:
            self._near_ended = True
            self._to_near.clear()

    def _read_far(self, far: socket.socket) -> None:
        try:
            received = far.recv(FRAME_BYTES)
        except _NOT_YET:
            return
        if not received:
            self._far_ended = True
            self._trouble = self._trouble or "the API server closed the connection"
            return
        self._take(self._frames.feed(received))

    def _take(self, arrived: Arrived) -> None:
        self.has_carried = self.has_carried or bool(arrived.data)
        self._to_near += arrived.data
        self._to_far += arrived.answers
        self._trouble = self._trouble or arrived.trouble
        self._far_ended = self._far_ended or arrived.ended

    def _write_far(self, far: socket.socket) -> None:
        try:
            del self._to_far[: far.send(self._to_far)]
        except _NOT_YET:
            return
