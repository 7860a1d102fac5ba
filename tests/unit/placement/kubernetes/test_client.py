"""Calls to an API server that answers as the test says: what they become."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable, InvalidPlacement
from lancegpu_sql.placement.kubernetes import KubernetesConfig
from lancegpu_sql.placement.kubernetes.client import ClusterClient


class Answers:
    """An HTTP server that gives the answers it was told, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[str] = []
        self.headers: list[tuple[str, str]] = []
        answers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answers.asked.append(f"{self.command} {self.path}")
                status, body = answers.answers.pop(0) if len(answers.answers) > 1 else answers.answers[0]
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                for name, value in answers.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = do_PATCH = _answer

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def answers() -> Iterator[Answers]:
    started = Answers()
    yield started
    started.server.shutdown()
    started.server.server_close()


@pytest.fixture
def client(answers: Answers, tmp_path: Path) -> ClusterClient:
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{answers.server.server_address[1]}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(access))
    return ClusterClient(KubernetesConfig("here", kubeconfig=str(tmp_path / "kubeconfig")))


def create(client: ClusterClient) -> Any:
    return client.create("Pod", {"metadata": {"name": "p"}})


REFUSALS = [(403, ClusterForbidden), (409, ClusterRefused), (422, ClusterRefused), (401, ClusterRefused)]


@pytest.mark.parametrize(("status", "kind"), REFUSALS)
def test_a_refusal_says_what_was_asked_and_what_the_server_said(
    answers: Answers, client: ClusterClient, status: int, kind: type[ClusterRefused]
):
    answers.answers = [(status, {"message": "because", "reason": "Because"})]
    with pytest.raises(kind, match="because") as raised:
        create(client)
    assert raised.value.facts["status"] == status
    assert (raised.value.facts["verb"], raised.value.facts["resource"]) == ("create", "pods")
    assert not raised.value.retryable


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_may_be_asked_again(answers: Answers, client: ClusterClient, status: int):
    answers.answers = [(status, {"message": "later"})]
    answers.headers = [("Retry-After", "7")]
    with pytest.raises(ClusterUnreachable) as raised:
        create(client)
    assert raised.value.retryable
    assert raised.value.facts["retry_after_seconds"] == 7


def test_a_server_that_is_gone_may_be_asked_again(answers: Answers, client: ClusterClient):
    answers.server.shutdown()
    answers.server.server_close()
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        create(client)


def test_credentials_that_have_expired_are_read_anew_once(answers: Answers, client: ClusterClient):
    answers.answers = [(401, {}), (201, {"made": True})]
    assert create(client) == {"made": True}
    assert len(answers.asked) == 2


def test_what_is_not_there_is_none(answers: Answers, client: ClusterClient):
    answers.answers = [(404, {})]
    assert client.get("Pod", "p") is None
    assert client.patch("Pod", "p", {}) is None
    assert client.delete("Pod", "p") is False


def test_bodies_are_checked_strictly(answers: Answers, client: ClusterClient):
    answers.answers = [(201, {})]
    create(client)
    assert answers.asked == ["POST /api/v1/namespaces/here/pods?fieldValidation=Strict"]


def test_calls_go_out_no_faster_than_the_configuration_allows(answers: Answers, client: ClusterClient):
    answers.answers = [(200, {})]
    slow = replace(client._config, queries_per_second=50, query_burst=2)
    paced, began = ClusterClient(slow), time.monotonic()
    for _ in range(7):
        paced.get("Pod", "w")
    assert time.monotonic() - began >= 5 / 50


def test_long_lists_come_in_pages(answers: Answers, client: ClusterClient):
    answers.answers = [
        (200, {"items": [{"a": 1}], "metadata": {"resourceVersion": "7", "continue": "more"}}),
        (200, {"items": [{"b": 2}], "metadata": {"resourceVersion": "7"}}),
    ]
    assert client.list("Pod", everywhere=True) == ([{"a": 1}, {"b": 2}], "7")
    assert answers.asked[1] == "GET /api/v1/pods?limit=100&continue=more"


def test_without_credentials_the_message_says_where_they_are_looked_for(tmp_path: Path):
    client = ClusterClient(KubernetesConfig("here", kubeconfig=str(tmp_path / "none")))
    with pytest.raises(InvalidPlacement, match="KUBECONFIG"):
        client.get("Pod", "p")


def test_kinds_that_an_older_release_serves_in_an_older_version_are_found_there(
    client: ClusterClient, answers: Answers
) -> None:
    answers.answers = [(404, {}), (200, {"items": [], "metadata": {"resourceVersion": "7"}})]
    client.list("LocalQueue")
    client.list("LocalQueue")
    where = "GET /apis/kueue.x-k8s.io/{}/namespaces/here/localqueues?limit=100"
    assert answers.asked == [where.format(version) for version in ("v1beta2", "v1beta1", "v1beta1")]
