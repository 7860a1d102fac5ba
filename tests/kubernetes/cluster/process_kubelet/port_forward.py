"""Port-forward over a WebSocket, as a kubelet speaks it: for each port a channel of bytes and one of errors.

A real one ends at the pod's own localhost; here that is the address of the pod.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct

from cluster.process_kubelet.websocket import BINARY, CLOSE, PING, PONG, FrameReader, frame

READ_BYTES = 1 << 16
# More is not read from one side while so much waits to be written to the other.
WAITING_BYTES = 1 << 20
CONNECT_SECONDS = 5.0
GOODBYE_SECONDS = 1.0
NORMAL_CLOSURE = struct.pack("!H", 1000)


class _Port:
    """One port: the connection to the pod, and what waits to be sent to it."""

    def __init__(self, number: int, channel: int) -> None:
        self.number, self.channel = number, channel
        self.waiting = bytearray()
        self.connection: socket.socket | None = None

    def close(self) -> None:
        """End the connection to the pod."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class PortForward:
    """Carries bytes between a client and ports of a pod, in the thread that calls `run`."""

    def __init__(self, client: ssl.SSLSocket, pod_ip: str, ports: list[int]) -> None:
        self._client, self._pod_ip = client, pod_ip
        self._ports = [_Port(number, 2 * place) for place, number in enumerate(ports)]
        self._frames = FrameReader()
        self._waiting = bytearray()
        self._open = True

    def run(self) -> None:
        """Until the client goes, or the pod has closed every port."""
        for port in self._ports:
            self._connect(port)
        self._client.setblocking(False)
        try:
            while self._open and (self._waiting or any(port.connection for port in self._ports)):
                self._carry()
            self._client.settimeout(GOODBYE_SECONDS)
            self._client.sendall(bytes(self._waiting) + frame(CLOSE, NORMAL_CLOSURE))
        except OSError:
            return  # the client is gone
        finally:
            for port in self._ports:
                port.close()

    def _connect(self, port: _Port) -> None:
        for channel in (port.channel, port.channel + 1):
            self._tell(channel, struct.pack("<H", port.number))
        try:
            port.connection = socket.create_connection((self._pod_ip, port.number), CONNECT_SECONDS)
            port.connection.setblocking(False)
        except OSError as error:
            self._tell(port.channel + 1, f"error forwarding port {port.number} to pod: {error}".encode())

    def _carry(self) -> None:
        """Wait until something can be read or written, and do it."""
        open_ports = {port.connection: port for port in self._ports if port.connection is not None}
        full = any(len(port.waiting) > WAITING_BYTES for port in self._ports)
        reads: list[socket.socket] = [] if full else [self._client]
        if len(self._waiting) <= WAITING_BYTES:
            reads += open_ports
        writes: list[socket.socket] = [one for one, port in open_ports.items() if port.waiting]
        if self._waiting:
            writes.append(self._client)
        # What TLS has decrypted already is not seen by select.
        pending = self._client in reads and self._client.pending() > 0
        readable, writable, _ = select.select(reads, writes, [], 0 if pending else None)
        if self._client in readable or pending:
            self._read_client()
        if self._client in writable:
            self._write_client()
        for connection, port in open_ports.items():
            self._serve(port, connection, connection in readable, connection in writable)

    def _serve(self, port: _Port, connection: socket.socket, readable: bool, writable: bool) -> None:
        try:
            if writable:
                del port.waiting[: connection.send(port.waiting)]
            if readable:
                received = connection.recv(READ_BYTES)
                if received:
                    self._tell(port.channel, received)
                else:
                    port.close()
        except BlockingIOError:
            return
        except OSError as error:
            self._tell(port.channel + 1, str(error).encode())
            port.close()

    def _read_client(self) -> None:
        try:
            received = self._client.recv(READ_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        self._open = bool(received)
        for kind, payload in self._frames.feed(received):
            if kind == CLOSE:
                self._open = False
            elif kind == PING:
                self._waiting += frame(PONG, payload)
            elif kind == BINARY and payload and payload[0] < 2 * len(self._ports):
                self._ports[payload[0] // 2].waiting += payload[1:]

    def _write_client(self) -> None:
        try:
            del self._waiting[: self._client.send(self._waiting)]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return

    def _tell(self, channel: int, words: bytes) -> None:
        self._waiting += frame(BINARY, bytes([channel]) + words)
