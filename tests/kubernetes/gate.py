"""Holds up calls of a Function that runs in containers, until the test lets each go on."""

from __future__ import annotations

import queue
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

# A worker may have to wait for the room that one of a killed process holds, which others take away after a minute.
WAIT_SECONDS = 180.0
# What is read of one call's greeting; a pod's name is shorter.
NAME_BYTES = 256


@dataclass(frozen=True)
class Held:
    """A call that has begun and waits; `worker` is the name of its pod."""

    worker: str
    connection: socket.socket

    def let_go(self) -> None:
        """Let it go on."""
        with suppress(OSError):  # its worker may be gone
            self.connection.sendall(b".")
        self.connection.close()


class Gate:
    """Functions connect to `address`, say who they are, and wait for a byte."""

    def __init__(self, host: str) -> None:
        self._listening = socket.create_server((host, 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        self._held: queue.SimpleQueue[Held] = queue.SimpleQueue()
        self._open = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def next(self) -> Held:
        """Wait for the next call to begin."""
        return self._held.get(timeout=WAIT_SECONDS)

    def open(self) -> None:
        """Let all go on, those that are held and those to come."""
        self._open.set()
        while not self._held.empty():
            self._held.get().let_go()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                held = Held(connection.recv(NAME_BYTES).decode(), connection)
                self._held.put(held)
                if self._open.is_set():
                    self.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.open()
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._accepting.join()
        self._listening.close()
