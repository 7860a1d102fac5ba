"""Lets a network of its own reach one server of this machine: what kube-proxy does for a cluster's first service."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 1 << 16
CONNECT_SECONDS = 5.0


class Doorway:
    """Hands on each connection to a socket, which may belong to another network namespace, to an address in this one."""

    def __init__(self, listening: socket.socket, to: tuple[str, int]) -> None:
        self._listening, self._to = listening, to
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Take no more connections; those that are there end with one of their ends."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self._listening.accept()
                threading.Thread(target=self._join, args=(inside,), daemon=True).start()

    def _join(self, inside: socket.socket) -> None:
        with inside, suppress(OSError), socket.create_connection(self._to, CONNECT_SECONDS) as outside:
            outside.settimeout(None)
            back = threading.Thread(target=_pump, args=(outside, inside), daemon=True)
            back.start()
            _pump(inside, outside)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            sink.sendall(chunk)
    # Half a connection may outlive the other half, but not its loss.
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
