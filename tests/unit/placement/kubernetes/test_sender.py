"""Pods are made and ended, whatever the API server says meanwhile."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster, forbidden, refused

from lancegpu_sql.errors import ClusterUnreachable, InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.marks import Mark
from lancegpu_sql.placement.kubernetes.sender import Sender

PATIENCE_SECONDS = 20


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def sender(cluster: FakeCluster, authority: Authority) -> Iterator[Sender]:
    made = Sender(cluster, Household(cluster, "music"), authority)
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def charge(name: str = "w") -> Charge:
    return Charge(name, {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": []}}, "a shape")


def unreachable() -> ClusterUnreachable:
    return ClusterUnreachable("nobody answers", retry_after_seconds=0.01)


class Sent:
    """Begins to make a pod, and keeps what is told of it."""

    def __init__(self, sender: Sender, charge: Charge) -> None:
        self.told: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        sender.begin(
            charge,
            on_sent=lambda pod: self.told.put(("sent", pod)),
            on_held_up=lambda exc: self.told.put(("held up", exc)),
            on_refused=lambda exc: self.told.put(("refused", exc)),
        )

    def next(self) -> tuple[str, Any]:
        return self.told.get(timeout=PATIENCE_SECONDS)


def test_a_secret_is_there_before_its_pod(cluster: FakeCluster, sender: Sender):
    assert Sent(sender, charge()).next()[0] == "sent"
    assert [(verb, kind) for verb, kind, _ in cluster.calls] == [
        ("create", "ConfigMap"),
        ("create", "Secret"),
        ("create", "Pod"),
    ]


def test_a_pod_belongs_to_the_databases_object(cluster: FakeCluster, sender: Sender):
    Sent(sender, charge()).next()
    pod = cluster.find("Pod", "w")
    assert pod is not None
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["kind"] == "ConfigMap"
    assert owner["controller"] is True


def test_a_server_that_is_away_is_asked_again_and_that_is_told(cluster: FakeCluster, sender: Sender):
    cluster.troubles["create", "Pod"] = [unreachable(), unreachable()]
    sent = Sent(sender, charge())
    assert [sent.next()[0] for _ in range(3)] == ["held up", "held up", "sent"]
    assert cluster.count("create", "Secret") == 1


def test_a_pod_whose_making_was_not_answered_is_known_again(cluster: FakeCluster, sender: Sender):
    cluster.add("Pod", "w")
    assert Sent(sender, charge()).next()[0] == "sent"


def test_a_full_quota_is_waited_for_until_something_changes(cluster: FakeCluster, sender: Sender):
    cluster.troubles["create", "Pod"] = [forbidden("exceeded quota")]
    cluster.lasting["list", "ResourceQuota"] = forbidden()
    mine = charge()
    sent = Sent(sender, mine)
    assert sent.next()[0] == "held up"
    mine.retry.set()
    assert sent.next()[0] == "sent"


@pytest.mark.parametrize("error", [forbidden("violates PodSecurity"), refused(422, "no such field")])
def test_what_is_refused_for_good_is_told_and_leaves_no_secret(
    cluster: FakeCluster, sender: Sender, error: PlacementError
):
    cluster.lasting["create", "Pod"] = error
    kind, told = Sent(sender, charge()).next()
    assert kind == "refused"
    assert isinstance(told, InvalidPlacement)
    assert cluster.objects("Secret") == []


def test_a_pod_that_nobody_wants_any_more_is_not_made(cluster: FakeCluster, sender: Sender):
    cluster.lasting["create", "Pod"] = unreachable()
    mine = charge()
    assert Sent(sender, mine).next()[0] == "held up"
    sender.begin_end(mine, grace_seconds=0)
    cluster.lasting.clear()
    assert mine.sent.is_set()
    cluster.until(lambda: cluster.objects("Secret") == [])
    assert cluster.objects("Pod") == []


def test_an_end_is_asked_for_until_the_server_has_heard(cluster: FakeCluster, sender: Sender):
    mine = charge()
    Sent(sender, mine).next()
    cluster.troubles["delete", "Pod"] = [unreachable(), unreachable()]
    sender.begin_end(mine, grace_seconds=1)
    assert cluster.count("delete", "Pod") == 3
    assert cluster.objects("Pod") == []


def test_a_pod_that_is_gone_by_then_is_not_waited_for(cluster: FakeCluster, sender: Sender):
    mine = charge()
    Sent(sender, mine).next()
    cluster.remove("Pod", "w")
    sender.begin_end(mine, grace_seconds=1)
    assert mine.gone.is_set()


def test_a_pod_says_for_whom_it_works(cluster: FakeCluster, sender: Sender):
    mine = charge()
    Sent(sender, mine).next()
    sender.mark(mine, Mark("0193", "job 0193 (refresh of t.x)", 5.0))
    cluster.until(lambda: cluster.count("patch", "Pod") == 1)
    pod = cluster.find("Pod", "w")
    assert pod is not None
    assert pod["metadata"]["annotations"]["lancegpu.dev/owner"] == "job 0193 (refresh of t.x)"
