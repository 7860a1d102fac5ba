"""What port-forward says over a WebSocket: the bytes of one port, and the kubelet's troubles with it. Pure.

The protocol is Kubernetes' ``v4.channel.k8s.io`` in frames of RFC 6455: the first byte of a message is its channel, 0 for
the port's bytes and 1 for errors, and the first message of each channel is the port's number.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field

CHANNELS = "v4.channel.k8s.io"
FRAME_BYTES = 1 << 16
"""The most bytes of one frame to the server."""

_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_LAST = 0x80
_MASKED = 0x80
# Masks keep scripts of web pages from writing what a proxy takes for HTTP. These bytes are a worker's TLS within the API
# server's: no mask, said in the protocol's own way, saves a pass over each of them.
_MASK = bytes(4)
_NORMAL = (1000).to_bytes(2, "big")
_DATA, _ERROR = 0, 1
_LONGEST_MESSAGE_BYTES = 64 << 20
_LONGEST_ERROR_BYTES = 4096


class BrokenFrames(Exception):
    """What came is not the protocol."""


@dataclass
class Arrived:
    """What one piece of received bytes meant."""

    data: bytearray = field(default_factory=bytearray)
    """Bytes of the port."""
    answers: bytearray = field(default_factory=bytearray)
    """Frames that the protocol wants sent back."""
    trouble: str = ""
    """What the kubelet said that went wrong."""
    ended: bool = False
    """The server has said goodbye."""


def request_headers() -> dict[str, str]:
    """Return the headers that ask for the protocol; the key among them is for `is_accepted`."""
    return {
        "Accept": "*/*",  # container runtimes refuse who wants JSON
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": CHANNELS,
    }


def is_accepted(asked: dict[str, str], accept: str | None, protocol: str | None) -> bool:
    """Tell whether an answer (status 101) is one to these headers, and for this protocol."""
    key = asked["Sec-WebSocket-Key"]
    digest = hashlib.sha1(f"{key}{_ACCEPT}".encode(), usedforsecurity=False).digest()
    return accept == base64.b64encode(digest).decode() and protocol == CHANNELS


def data_frame(data: bytes) -> bytes:
    """Return bytes for the port as one frame."""
    return _frame(_BINARY, bytes([_DATA]) + data)


def goodbye() -> bytes:
    """Return the frame that ends the connection."""
    return _frame(_CLOSE, _NORMAL)


class FrameReader:
    """Reads what the server sends, in pieces of any size."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._at = 0
        self._message: bytearray | None = None
        self._greeted: set[int] = set()

    def feed(self, received: bytes) -> Arrived:
        """Take bytes as they came and return what is complete by them.

        Raises
        ------
        BrokenFrames
            The bytes are no such frames.
        """
        self._received += received
        arrived = Arrived()
        while not arrived.ended and (found := self._next()) is not None:
            self._take(*found, arrived)
        # Once for each piece, not for each frame: it moves what is left.
        del self._received[: self._at]
        self._at = 0
        return arrived

    def _next(self) -> tuple[bool, int, memoryview] | None:
        data, at = self._received, self._at
        if len(data) < at + 2:
            return None
        head, size = data[at], data[at + 1]
        if size & _MASKED:
            raise BrokenFrames("the server masks its frames")
        at += 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) < at + width:
                return None
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        if size > _LONGEST_MESSAGE_BYTES:
            raise BrokenFrames(f"the server sends a frame of {size} bytes")
        if len(data) < at + size:
            return None
        self._at = at + size
        return bool(head & _LAST), head & 0x0F, memoryview(bytes(memoryview(data)[at : at + size]))

    def _take(self, last: bool, kind: int, payload: memoryview, arrived: Arrived) -> None:
        if kind == _CLOSE:
            arrived.ended = True
        elif kind == _PING:
            arrived.answers += _frame(_PONG, bytes(payload))
        elif kind in (_BINARY, _TEXT, _CONTINUATION):
            self._take_part(last, kind, payload, arrived)
        elif kind != _PONG:
            raise BrokenFrames(f"the server sends a frame of kind {kind}")

    def _take_part(self, last: bool, kind: int, payload: memoryview, arrived: Arrived) -> None:
        if (kind == _CONTINUATION) != (self._message is not None):
            raise BrokenFrames("the server sends a part of a message that it has not begun")
        if self._message is None and last:
            self._read(payload, arrived)
            return
        message = self._message = (self._message or bytearray()) + payload
        if len(message) > _LONGEST_MESSAGE_BYTES:
            raise BrokenFrames(f"the server sends a message of more than {_LONGEST_MESSAGE_BYTES} bytes")
        if last:
            self._message = None
            self._read(memoryview(bytes(message)), arrived)

    def _read(self, message: memoryview, arrived: Arrived) -> None:
        if not message:
            return
        channel, words = message[0], message[1:]
        if channel not in self._greeted:
            self._greeted.add(channel)
            words = words[2:]  # the port's number
        if channel == _DATA:
            arrived.data += words
        elif channel == _ERROR and words:
            arrived.trouble = (arrived.trouble + bytes(words).decode(errors="replace"))[:_LONGEST_ERROR_BYTES].strip()


def _frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes([_LAST | kind, _MASKED | size])
    elif size < 1 << 16:
        head = bytes([_LAST | kind, _MASKED | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([_LAST | kind, _MASKED | 127]) + size.to_bytes(8, "big")
    return head + _MASK + payload
