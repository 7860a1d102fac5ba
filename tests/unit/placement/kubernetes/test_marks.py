"""What pods say of themselves, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_cluster import FakeCluster
from placement_suite import Asked, request_for

from lancegpu_sql.errors import ClusterUnreachable
from lancegpu_sql.placement import GpuClass
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.marks import Mark, Marks, annotations_of

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
L4 = GpuClass(name="l4")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def asked(cluster: FakeCluster) -> Iterator[Asked]:
    """A request of job 7 whose pod was made."""
    placement = KubernetesPlacement("work", database="a test's", image="worker:test", cluster=cluster)
    asked = Asked(placement, request_for(L4, owner="job 7"))
    cluster.until(lambda: cluster.objects("Pod"))
    yield asked
    placement.close()


def said(cluster: FakeCluster) -> dict[str, str]:
    return dict(cluster.objects("Pod")[0]["metadata"]["annotations"])


def test_an_idle_worker_is_marked_and_a_job_that_takes_it_unmarks_it(cluster: FakeCluster, asked: Asked):
    asked.ticket.idle()
    cluster.until(lambda: said(cluster)[SAFE] == "true")
    asked.ticket.assign("8", "job 8")
    cluster.until(lambda: said(cluster)[SAFE] == "false")
    assert said(cluster)["lancegpu.dev/owner"] == "job 8"
    assert cluster.count("patch", "Pod") == 2


def test_a_worker_that_is_used_again_at_once_costs_no_call(cluster: FakeCluster, asked: Asked):
    for _ in range(5):
        asked.ticket.idle()
        asked.ticket.assign(asked.ticket.request.job_id, "job 7")
    asked.ticket.assign("8", "job 8")
    cluster.until(lambda: said(cluster)["lancegpu.dev/owner"] == "job 8")
    assert cluster.count("patch", "Pod") == 1


def test_what_could_not_be_said_is_said_the_next_time(cluster: FakeCluster):
    cluster.add("Pod", "w")
    marks = Marks(Mark("7", "job 7", 5.0))
    marks.wanted = Mark("7", "job 7", 5.0, busy=False)
    cluster.troubles["patch", "Pod"] = [ClusterUnreachable("away")]
    with pytest.raises(ClusterUnreachable):
        marks.send(cluster, "w")
    marks.wanted = Mark("7", "job 7", 5.0)
    marks.send(cluster, "w")
    assert said(cluster)[SAFE] == "false"


def test_what_an_operator_says_of_evictions_is_left_alone():
    own = GpuClass(name="l4", annotations={SAFE: "false"}, pod_overrides={"metadata": {"annotations": {"a": "b"}}})
    change = Marks(kept=annotations_of(own)).change(Mark("7", "job 7", 5.0, busy=False))
    assert annotations_of(own) == {SAFE, "a"}
    assert SAFE not in change["metadata"]["annotations"]
    assert change["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "false"
