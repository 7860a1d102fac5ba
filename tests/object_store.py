"""An S3 server of the tests' own (moto, in its own process), and a way to it that fails as it is told to."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from skips import Skip

# In an environment of its own: what it needs is older than what this package needs.
PACKAGES = ("moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5")
ENVIRONMENT = Path(sys.prefix) / "s3-server"
INSTALL_SECONDS = 300
START_SECONDS = 60

# moto looks whether an object is there and puts it in two steps. A store takes one conditional put after the other.
SERVER = """
import os, sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

def app(environ, start_response):
    if environ["REQUEST_METHOD"] != "PUT":
        return moto(environ, start_response)
    with turn:
        return [b"".join(moto(environ, start_response))]

def end_with_parent():
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=end_with_parent, daemon=True).start()
run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
"""

ACCESS_KEY = "AKIAHUSHHUSHHUSH"
SECRET = "hush/hush/hush/hush"


class S3Server:
    """A server on a free port of this machine, with one bucket."""

    bucket = "shop-bucket"

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def uri(self) -> str:
        """A place that no other test has."""
        return f"s3://{self.bucket}/{uuid.uuid4().hex}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """How it is reached, directly or by another way."""
        return {
            "aws_endpoint": endpoint or self.endpoint,
            "allow_http": "true",
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_virtual_hosted_style_request": "false",
        }


def installed(say: Callable[[str], None]) -> Path:
    """Return the Python that has moto; install it where that can be done, or skip the test."""
    python = ENVIRONMENT / "bin" / "python"
    if (ENVIRONMENT / ".ready").exists():
        return python
    say("S3: installing moto")
    uv = str(Path(sys.executable).parent / "uv")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(ENVIRONMENT)],
        [uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
        if done.returncode:
            pytest.skip(f"{Skip.NEEDS_NETWORK}: moto could not be installed: {done.stderr.strip()[-200:]}")
    (ENVIRONMENT / ".ready").touch()
    return python


@contextmanager
def running(python: Path) -> Iterator[S3Server]:
    """Start a server that is gone afterwards, with all that was in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-c", SERVER, str(port)]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    # It reads the pipe to its end, which comes with this process's own, however that ends.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        _make_bucket(port, process)
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.communicate(timeout=START_SECONDS)


def _make_bucket(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the S3 server ended"
        with suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
            connection.request("PUT", f"/{S3Server.bucket}")
            assert connection.getresponse().status == 200
            return
        assert time.monotonic() < deadline, "the S3 server does not answer"
        time.sleep(0.05)


@dataclass(frozen=True)
class Request:
    """What was asked of the store: a method, and a path such as ``/bucket/prefix/t.lance/data/x.lance``."""

    method: str
    path: str
    at: int


@dataclass
class FaultyWay:
    """A way to the store: `fault` says of each request whether the store is to refuse it, with which status and code.

    `seen` are all requests so far; `delay_seconds` passes before each is sent on. `lost` says of which the store does what
    is asked, and its reply is lost.
    """

    endpoint: str
    fault: Callable[[Request], tuple[int, str] | None] = lambda request: None
    lost: Callable[[Request], bool] = lambda request: False
    delay_seconds: float = 0.0
    seen: list[Request] = field(default_factory=list)


@contextmanager
def faulty_way(server: S3Server) -> Iterator[FaultyWay]:
    """Open one to a server."""
    target = urllib.parse.urlsplit(server.endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, urllib.parse.unquote(self.path), len(way.seen))
            way.seen.append(request)
            time.sleep(way.delay_seconds)
            fault = way.fault(request)
            if fault is not None:
                status, code = fault
                words = f"<Error><Code>{code}</Code><Message>{ACCESS_KEY} is refused</Message></Error>".encode()
                self.answer(status, [("Content-Type", "application/xml")], words)
                return
            connection = http.client.HTTPConnection(target, timeout=60)
            headers = {name: text for name, text in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            found = connection.getresponse()
            length = found.getheader("Content-Length")
            content = found.read()
            connection.close()
            if way.lost(request):
                self.close_connection = True
                return
            kept = [(name, text) for name, text in found.getheaders() if name.lower() not in _OF_A_CONNECTION]
            self.answer(found.status, kept, content, length)

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None) -> None:
            self.send_response_only(status)
            for name, text in headers:
                self.send_header(name, text)
            self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *of: object) -> None:
            pass  # a client that goes away

    with Server(("127.0.0.1", 0), Handler) as front:
        way = FaultyWay(f"http://127.0.0.1:{front.server_address[1]}")
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield way
        finally:
            front.shutdown()
            thread.join()


_OF_A_CONNECTION = ("connection", "content-length", "transfer-encoding", "server", "date")
