"""Which ways to a worker are tried, and what is remembered of them."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lancegpu_sql.errors import ClusterForbidden, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes import KubernetesConfig
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.door import NoAnswer
from lancegpu_sql.placement.kubernetes.reach import Reach

POD, POD_IP, NOBODY = "a-pod", "127.0.0.1", "127.0.0.2"
AUTHORITY = Authority()


class FakeCluster:
    """Lets nobody through, and counts who tried."""

    def __init__(self, *, inside: bool = False) -> None:
        self.inside = inside
        self.tried = self.asked = 0
        self.may: bool | PlacementError = True

    def forward(self, pod: str, port: int) -> Any:
        self.tried += 1
        raise ClusterForbidden("no", verb="create", resource="pods/portforward", said="no")

    def can_i(self, verb: str, resource: str) -> bool:
        self.asked += 1
        if isinstance(self.may, PlacementError):
            raise self.may
        return self.may


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port at which the pod's worker answers, at its address."""
    issued = AUTHORITY.issue(POD)
    (tmp_path / "chain").write_text(issued.key_pem + issued.certificate_pem)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(tmp_path / "chain")
    with socket.create_server((POD_IP, 0)) as listener:
        threading.Thread(target=_show, args=(listener, trust), daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def _show(listener: socket.socket, trust: ssl.SSLContext) -> None:
    while True:
        try:
            trust.wrap_socket(listener.accept()[0], server_side=True).close()
        except ssl.SSLError:
            continue
        except OSError:
            return


def reach(cluster: FakeCluster, port: int = 7861, choice: str = "auto") -> Reach:
    return Reach(cluster, KubernetesConfig("here", worker_port=port, reach=choice))  # type: ignore[arg-type]


def look(found: Reach, pod_ip: str, timeout_seconds: float = 30.0) -> str | None:
    return found.open(
        POD, pod_ip, root_pem=AUTHORITY.root_pem, given_up=threading.Event(), timeout_seconds=timeout_seconds
    )


@pytest.mark.parametrize("inside", [True, False])
def test_an_address_that_answers_is_used(port: int, inside: bool):
    cluster = FakeCluster(inside=inside)
    assert look(reach(cluster, port), POD_IP) == f"{POD_IP}:{port}"
    assert cluster.tried == 0


def test_what_was_found_is_remembered_until_it_fails(port: int):
    cluster = FakeCluster()
    found = reach(cluster, port)
    look(found, POD_IP)
    with pytest.raises(NoAnswer):
        look(found, NOBODY, 0.1)
    assert cluster.tried == 0
    with pytest.raises((NoAnswer, ClusterForbidden)):
        look(found, NOBODY, 1.5)
    assert cluster.tried == 1


def test_an_api_server_that_refuses_is_told_with_what_it_needs():
    with pytest.raises(ClusterForbidden, match="create and get on pods/portforward in namespace 'here'"):
        look(reach(FakeCluster(), choice="port_forward"), NOBODY)


def test_no_way_stays_open_after_a_refusal():
    before = set(threading.enumerate())
    found = reach(FakeCluster(), choice="port_forward")
    with pytest.raises(ClusterForbidden):
        look(found, NOBODY)
    assert set(threading.enumerate()) - before == set()


def test_a_pod_nobody_waits_for_any_more_is_not_knocked_at():
    given_up = threading.Event()
    given_up.set()
    found = reach(FakeCluster(), choice="port_forward")
    assert found.open(POD, NOBODY, root_pem=AUTHORITY.root_pem, given_up=given_up) is None
    assert found._tunnels == {}


def test_a_right_that_is_missing_is_told_before_a_pod_waits():
    cluster = FakeCluster()
    cluster.may = False
    with pytest.raises(ClusterForbidden, match="the verbs create and get"):
        reach(cluster, choice="port_forward").check()


@pytest.mark.parametrize("may", [True, ClusterUnreachable("away", retry_after_seconds=None)])
def test_a_right_that_is_there_or_cannot_be_seen_is_no_trouble(may: bool | PlacementError):
    cluster = FakeCluster()
    cluster.may = may
    found = reach(cluster, choice="port_forward")
    found.check()
    found.check()
    assert cluster.asked == (1 if may is True else 2)


def test_where_addresses_may_do_no_right_is_asked_for():
    cluster = FakeCluster()
    reach(cluster).check()
    assert cluster.asked == 0
