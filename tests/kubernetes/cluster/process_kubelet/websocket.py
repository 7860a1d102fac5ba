"""The server's side of the WebSocket protocol (RFC 6455), as far as Kubernetes' channels need it. Pure."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator

# RFC 6455, section 1.3.
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CHANNELS = "v4.channel.k8s.io"


def handshake(key: str, protocols: str) -> dict[str, str]:
    """The headers of the answer that accepts, by those of the request: its key and the protocols it offers."""
    digest = hashlib.sha1(f"{key}{_ACCEPT}".encode()).digest()
    answer = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
    }
    offered = [word.strip() for word in protocols.split(",")]
    return answer | ({"Sec-WebSocket-Protocol": CHANNELS} if CHANNELS in offered else {})


def frame(kind: int, payload: bytes) -> bytes:
    """One whole message to the client."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 127, size)
    return head + payload


class FrameReader:
    """Cuts what a client sends into messages."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._begun: tuple[int, bytes] | None = None

    def feed(self, received: bytes) -> Iterator[tuple[int, bytes]]:
        """The messages that are whole now, as kind and payload."""
        self._received += received
        while (found := self._next()) is not None:
            last, kind, payload = found
            if kind == CONTINUATION and self._begun is not None:
                kind, payload = self._begun[0], self._begun[1] + payload
            if last:
                self._begun = None if kind in {TEXT, BINARY} else self._begun
                yield kind, payload
            else:
                self._begun = (kind, payload)

    def _next(self) -> tuple[bool, int, bytes] | None:
        data = self._received
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) < at + width:
                return None
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        mask_width = 4 if data[1] & 0x80 else 0
        if len(data) < at + mask_width + size:
            return None
        mask, at = bytes(data[at : at + mask_width]), at + mask_width
        payload = _unmasked(bytes(data[at : at + size]), mask)
        last, kind = bool(data[0] & 0x80), data[0] & 0x0F
        del data[: at + size]
        return last, kind, payload


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    if not mask or not payload:
        return payload
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
