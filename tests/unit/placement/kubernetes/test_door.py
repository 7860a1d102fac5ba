"""Which of several doors opens, and when knocking ends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lancegpu_sql.errors import ClusterForbidden
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.door import Closed, Door, NoAnswer, await_door

HOST = "127.0.0.1"
AUTHORITY = Authority()
Serve = Callable[..., int]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start what shows the certificate of a name, or, without one, takes connections and says nothing."""
    listeners: list[socket.socket] = []

    def start(name: str | None = "worker") -> int:
        listeners.append(socket.create_server((HOST, 0)))
        if name is not None:
            threading.Thread(target=_show, args=(listeners[-1], _trust(name, tmp_path)), daemon=True).start()
        return int(listeners[-1].getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _trust(name: str, folder: Path) -> ssl.SSLContext:
    issued = AUTHORITY.issue(name)
    (folder / name).write_text(issued.key_pem + issued.certificate_pem)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(folder / name)
    return trust


def _show(listener: socket.socket, trust: ssl.SSLContext) -> None:
    while True:
        try:
            knock, _ = listener.accept()
        except OSError:
            return
        try:
            trust.wrap_socket(knock, server_side=True).close()
        except OSError:
            knock.close()


def knock(*doors: Door, timeout_seconds: float = 30.0, given_up: threading.Event | None = None) -> Door | None:
    return await_door(
        doors,
        root_pem=AUTHORITY.root_pem,
        name="worker",
        given_up=given_up or threading.Event(),
        timeout_seconds=timeout_seconds,
    )


def closed_port() -> int:
    with socket.create_server((HOST, 0)) as one:
        return int(one.getsockname()[1])


def refuse() -> str:
    raise Closed(ClusterForbidden("no way", verb="create", resource="pods/portforward"))


def test_a_door_opens_that_shows_the_workers_certificate(serve: Serve):
    door = Door(HOST, serve())
    assert knock(door) is door


def test_another_workers_certificate_opens_nothing(serve: Serve):
    with pytest.raises(NoAnswer, match="mismatch"):
        knock(Door(HOST, serve("another")), timeout_seconds=0.1)


def test_the_door_that_opens_is_taken(serve: Serve):
    opens = Door(HOST, serve())
    assert knock(Door(HOST, closed_port()), opens) is opens


def test_of_two_that_open_the_first_named_is_taken(serve: Serve):
    first, second = Door(HOST, serve(), quiet_seconds=20.0), Door(HOST, serve())
    assert knock(first, second) is first


def test_a_silent_door_keeps_nobody_from_the_next(serve: Serve):
    opens = Door(HOST, serve(), quiet_seconds=0.05)
    assert knock(Door(HOST, serve(None), knock_seconds=0.1), opens) is opens


def test_where_one_is_closed_and_the_other_leads_nowhere_it_ends_at_once(serve: Serve):
    nowhere = Door(HOST, serve(None), knock_seconds=0.05)
    with pytest.raises(Closed, match="no way"):
        knock(nowhere, Door(HOST, closed_port(), meet=refuse))


def test_where_one_is_closed_the_other_may_still_open(serve: Serve):
    refused, opens = Door(HOST, closed_port(), meet=refuse), Door(HOST, serve(), quiet_seconds=0.05)
    assert knock(opens, refused) is opens


def test_no_answer_says_what_was_met_at_each_door():
    with pytest.raises(NoAnswer, match=r"refused.*the kubelet's words"):
        knock(
            Door(HOST, closed_port()),
            Door(HOST, closed_port(), meet=lambda: "the kubelet's words"),
            timeout_seconds=0.1,
        )


def test_who_gives_up_knocks_no_more():
    given_up = threading.Event()
    given_up.set()
    assert knock(Door(HOST, closed_port()), given_up=given_up) is None
