"""A token in a file that is replaced while it is used."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lancegpu_sql.placement.kubernetes import KubernetesConfig
from lancegpu_sql.placement.kubernetes.client import ClusterClient


class OneToken:
    """An API server that takes one token at a time; watches that have begun go on, whatever becomes of theirs."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.refused = 0
        self.events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.headers.get("Authorization") != f"Bearer {server.token}":
                    server.refused += 1
                    self.send_error(401)
                    return
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if "watch=true" not in self.path:
                    self._write_chunk(b"{}")
                else:
                    while (event := server.events.get()) is not None:
                        self._write_chunk(json.dumps(event).encode() + b"\n")
                self._write_chunk(b"")

            def _write_chunk(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[OneToken]:
    made = OneToken("old")
    yield made
    made.events.put(None)
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("old")
    return tmp_path / "token"


@pytest.fixture
def client(server: OneToken, token: Path, tmp_path: Path) -> ClusterClient:
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.http.server_address[1]}"}}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(access))
    return ClusterClient(KubernetesConfig("here", kubeconfig=str(tmp_path / "kubeconfig")))


def test_a_token_that_is_refused_is_read_anew_and_a_watch_goes_on(server: OneToken, token: Path, client: ClusterClient):
    watch = iter(client.watch("Pod", "1"))
    server.events.put({"type": "ADDED", "object": {}})
    assert next(watch)["type"] == "ADDED"
    token.write_text("new")
    server.token = "new"
    assert client.get("Pod", "p") == {}
    assert client.get("Pod", "p") == {}
    assert server.refused == 1
    server.events.put({"type": "DELETED", "object": {}})
    assert next(watch)["type"] == "DELETED"
