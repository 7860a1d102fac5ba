"""A connection to the API server that speaks another protocol from here on, taken out of the client library's hands."""

from __future__ import annotations

import ssl
from typing import Any


class Upgraded:
    """The socket under an answer of status 101; whoever has it closes it.

    Attributes
    ----------
    socket
        Does not block.
    begun
        What the server had sent already behind its answer.
    """

    def __init__(self, response: Any) -> None:
        # What closes the connection when it is forgotten must live as long as its socket is used.
        self._response = response
        self.socket: Any = response.connection.sock
        self.socket.setblocking(False)
        self.begun = self._read_ahead()

    def close(self) -> None:
        """End the connection."""
        self._response.close()

    def _read_ahead(self) -> bytes:
        buffered = self._response._fp.fp  # noqa: SLF001 - the headers were read through it, and a little more
        try:
            return bytes(buffered.peek())
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
