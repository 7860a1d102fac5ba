"""The worker process on a network: TLS, tokens, silence, and the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import worker_functions
from applied import need_for, numbers

from lancegpu_sql.errors import WorkerLost
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.workers import WorkerClient
from lancegpu_sql.workers.greeter import Greeter

END_SECONDS = 20
NAME = "worker-1.lancegpu"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class NetworkWorker:
    """A worker that listens on the loopback interface."""

    def __init__(self, authority: Authority, orphan_seconds: float = 60) -> None:
        self.authority = authority
        self.address = f"127.0.0.1:{free_port()}"
        issued = authority.issue(NAME)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lancegpu_sql.workers", "--listen", self.address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "LANCEGPU_WORKER_TOKEN": "open sesame",
                "LANCEGPU_WORKER_CERTIFICATE": issued.certificate_pem,
                "LANCEGPU_WORKER_KEY": issued.key_pem,
                "LANCEGPU_WORKER_ORPHAN_SECONDS": str(orphan_seconds),
            },
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        self.clients: list[WorkerClient] = []

    def connect(self, *, root: bytes | None = None, name: str = NAME, token: str = "open sesame") -> WorkerClient:
        client = WorkerClient(f"grpc+tls://{self.address}", token, root or self.authority.root_pem, name)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def worker() -> Iterator[NetworkWorker]:
    started = NetworkWorker(Authority())
    yield started
    started.close()


@pytest.fixture
def forsaken() -> Iterator[NetworkWorker]:
    started = NetworkWorker(Authority(), orphan_seconds=1.0)
    yield started
    started.close()


def test_a_call_over_tls_gives_its_values(worker):
    client = worker.connect()
    assert client.load(need_for(worker_functions.double).load).failure is None
    stream = client.open_stream()
    stream.send(1, numbers([1, 2]))
    assert stream.receive().values.to_pylist() == [2, 4]
    stream.close()


def test_a_worker_of_another_authority_is_not_spoken_to(worker):
    with pytest.raises(WorkerLost):
        worker.connect(root=Authority().root_pem).health(5)


def test_a_worker_of_another_name_is_not_spoken_to(worker):
    with pytest.raises(WorkerLost):
        worker.connect(name="worker-2.lancegpu").health(5)


def test_a_wrong_token_is_refused(worker):
    with pytest.raises(WorkerLost, match="owner only"):
        worker.connect(token="guessed").health(5)


def test_user_code_sees_nothing_of_token_and_key(worker):
    client = worker.connect()
    client.load(need_for(worker_functions.secret).load)
    stream = client.open_stream()
    stream.send(1, numbers([1]))
    assert stream.receive().values.to_pylist() == ["none"]
    stream.close()


def test_a_worker_that_hears_nobody_ends_itself(forsaken):
    assert forsaken.process.wait(END_SECONDS) == 0


def test_a_stranger_does_not_keep_a_worker_alive(forsaken):
    stranger = forsaken.connect(token="guessed")
    while forsaken.process.poll() is None:
        with pytest.raises(WorkerLost):
            stranger.health(5)
    assert forsaken.process.returncode == 0


def test_greetings_keep_a_worker_alive_while_it_computes(forsaken):
    client = forsaken.connect()
    greeter = Greeter(every_seconds=0.2)
    greeter.add(client)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert forsaken.process.poll() is None
        time.sleep(0.05)
    greeter.discard(client)
    assert forsaken.process.wait(END_SECONDS) == 0


def test_sigterm_hands_back_the_call_that_runs(worker, tmp_path):
    client = worker.connect()
    client.load(need_for(worker_functions.Notes, bound={"path": str(tmp_path / "notes")}).load)
    stream = client.open_stream()
    for call_id in range(3):
        stream.send(call_id, numbers([1]))
    while client.health(5).state != "computing":
        pass
    worker.process.send_signal(signal.SIGTERM)
    assert stream.receive().call_id == 0
    assert worker.process.wait(END_SECONDS) == 0
    assert (tmp_path / "notes").read_text().split("\n") == ["init", "call 1", "called", "close", ""]
    stream.close()


def test_without_certificate_no_worker_listens():
    environment = {**os.environ, "LANCEGPU_WORKER_TOKEN": "open sesame"}
    command = [sys.executable, "-m", "lancegpu_sql.workers", "--listen", "127.0.0.1:0"]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == 2
    assert b"LANCEGPU_WORKER_CERTIFICATE" in ended.stderr
