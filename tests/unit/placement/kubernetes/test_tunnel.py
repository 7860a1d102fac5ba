"""A tunnel's two ends, with a kubelet played by the test in between."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.process_kubelet.websocket import BINARY, CLOSE, FrameReader, frame

from lancegpu_sql.errors import ClusterForbidden, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.tunnel import HOST, Tunnel

PATIENCE_SECONDS = 10.0
SILENT_SECONDS = 0.3
MUCH = bytes(range(256)) * 20_000  # 5 MB
MOST_ON_THE_WAY = 32 << 20  # what sockets of this machine hold, and some more


class Far:
    """The near end of a way to a pod."""

    def __init__(self, near: socket.socket, begun: bytes) -> None:
        near.setblocking(False)
        self.socket, self.begun = near, begun

    def close(self) -> None:
        self.socket.close()


class Kubelet:
    """Answers each port-forward with a socket for the test, or with the error that was put before it."""

    def __init__(self) -> None:
        self.refusals: list[PlacementError] = []
        self.connections: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()

    def forward(self, pod: str, port: int) -> Far:
        if self.refusals:
            raise self.refusals.pop(0)
        near, far = socket.socketpair()
        far.settimeout(PATIENCE_SECONDS)
        self.connections.put(far)
        number = port.to_bytes(2, "little")
        return Far(near, frame(BINARY, b"\x00" + number) + frame(BINARY, b"\x01" + number))

    def accept(self) -> socket.socket:
        return self.connections.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
def tunnel(kubelet: Kubelet) -> Iterator[Tunnel]:
    made = Tunnel(kubelet, "a-pod", 7861)  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def near(tunnel: Tunnel) -> Iterator[socket.socket]:
    with connect(tunnel) as made:
        yield made


@pytest.fixture
def far(near: socket.socket, kubelet: Kubelet) -> Iterator[socket.socket]:
    with kubelet.accept() as made:
        yield made


def connect(tunnel: Tunnel) -> socket.socket:
    return socket.create_connection((HOST, tunnel.port), PATIENCE_SECONDS)


def read_all(near: socket.socket) -> bytes:
    return b"".join(iter(lambda: near.recv(1 << 16), b""))


def messages(far: socket.socket) -> Iterator[tuple[int, bytes]]:
    """What arrives at the kubelet, until it is told goodbye."""
    reader = FrameReader()
    while received := far.recv(1 << 16):
        for kind, payload in reader.feed(received):
            yield kind, payload
            if kind == CLOSE:
                return


def send_in_the_background(where: socket.socket, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=where.sendall, args=(data,))
    thread.start()
    return thread


def how_much_fits(where: socket.socket, data: bytes) -> int:
    """Send until nobody takes any more."""
    where.settimeout(SILENT_SECONDS)
    total = 0
    try:
        while total < 2 * MOST_ON_THE_WAY:
            total += where.send(data)
    except TimeoutError:
        pass
    return total


def held() -> tuple[set[threading.Thread], int]:
    """The threads and the number of open files of this process."""
    return set(threading.enumerate()), sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_one_side_sends_before_it_ends_reaches_the_other(near: socket.socket, far: socket.socket):
    sending = send_in_the_background(near, MUCH)
    reader = messages(far)
    arrived = bytearray()
    while len(arrived) < len(MUCH):
        kind, payload = next(reader)
        assert (kind, payload[0]) == (BINARY, 0)
        arrived += payload[1:]
    sending.join()
    near.close()
    assert arrived == MUCH
    assert [kind for kind, _ in reader] == [CLOSE]


def test_what_a_pod_sends_before_it_ends_arrives(near: socket.socket, far: socket.socket):
    parts = [frame(BINARY, b"\x00" + MUCH[start : start + 50_000]) for start in range(0, len(MUCH), 50_000)]
    sending = send_in_the_background(far, b"".join(parts) + frame(CLOSE, b"\x03\xe8"))
    assert read_all(near) == MUCH
    sending.join()


def test_a_pod_that_does_not_read_holds_up_who_sends(near: socket.socket, far: socket.socket):
    assert 0 < how_much_fits(near, bytes(1 << 16)) < MOST_ON_THE_WAY


def test_who_does_not_read_holds_up_the_pod(near: socket.socket, far: socket.socket):
    assert 0 < how_much_fits(far, frame(BINARY, bytes(1 << 16))) < MOST_ON_THE_WAY


def test_a_way_that_breaks_ends_the_connection(tunnel: Tunnel, near: socket.socket, far: socket.socket):
    far.sendall(frame(BINARY, b"\x00half a sen"))
    far.close()
    assert read_all(near) == b"half a sen"
    assert "closed the connection" in str(tunnel.trouble)


def test_a_kubelets_words_are_kept(tunnel: Tunnel, near: socket.socket, far: socket.socket):
    far.sendall(frame(BINARY, b"\x01connection refused") + frame(CLOSE, b"\x03\xe8"))
    assert read_all(near) == b""
    assert tunnel.trouble == "connection refused"


def test_after_a_break_one_may_connect_again(tunnel: Tunnel, near: socket.socket, far: socket.socket, kubelet: Kubelet):
    far.close()
    assert read_all(near) == b""
    with connect(tunnel) as again, kubelet.accept() as there:
        there.sendall(frame(BINARY, b"\x00welcome back"))
        assert again.recv(100) == b"welcome back"


def test_a_refusal_ends_the_connection_and_is_kept(tunnel: Tunnel, kubelet: Kubelet):
    kubelet.refusals = [ClusterForbidden("no", verb="create", resource="pods/portforward")]
    with connect(tunnel) as near:
        assert read_all(near) == b""
    assert isinstance(tunnel.trouble, ClusterForbidden)


def test_an_api_server_that_is_away_for_a_moment_is_waited_for(tunnel: Tunnel, kubelet: Kubelet):
    kubelet.refusals = [ClusterUnreachable("away", retry_after_seconds=None)]
    with connect(tunnel) as near, kubelet.accept() as far:
        far.sendall(frame(BINARY, b"\x00here"))
        assert near.recv(100) == b"here"


def test_closing_leaves_no_thread_and_no_socket(kubelet: Kubelet):
    before = held()
    tunnel = Tunnel(kubelet, "a-pod", 7861)  # type: ignore[arg-type]
    with connect(tunnel) as busy, kubelet.accept() as far, connect(tunnel) as idle, kubelet.accept() as other:
        send_in_the_background(far, frame(BINARY, b"\x00here")).join()
        assert busy.recv(100) == b"here"
        tunnel.close()
        assert (read_all(busy), read_all(idle)) == (b"", b"")
        assert [kind for kind, _ in messages(other)] == [CLOSE]
    threads, files = held()
    assert threads - before[0] == set()
    assert files <= before[1]


def test_a_tunnel_that_is_closed_takes_no_connection(tunnel: Tunnel):
    tunnel.close()
    with pytest.raises(ConnectionRefusedError):
        connect(tunnel)
