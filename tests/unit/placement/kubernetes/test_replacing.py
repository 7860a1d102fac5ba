"""Pods that come to nothing before they serve are replaced, and the request stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster, Object
from placement_suite import Asked, request_for

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement import GpuClass, Lost, Refused, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.replacing import LATE_STARTS, pause_seconds

L4 = GpuClass(name="l4", node_selector={"pool": "l4"})
HASTY = GpuClass(name="l4", node_selector={"pool": "l4"}, start_timeout_seconds=0.05)
ADMISSION_ERROR = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    for name in ("n1", "n2"):
        labels = {"pool": "l4", "kubernetes.io/hostname": name}
        made.add("Node", name, metadata={"labels": labels}, status={"allocatable": {"nvidia.com/gpu": "8"}})
    return made


@pytest.fixture
def placement(cluster: FakeCluster) -> Iterator[KubernetesPlacement]:
    made = KubernetesPlacement("work", database="a test's", image="worker:test", cluster=cluster)
    yield made
    made.close()


def until_pod(cluster: FakeCluster, wanted: Callable[[Object], object] = bool) -> Object:
    """Wait for a pod that is as wanted."""
    cluster.until(lambda: any(wanted(one) for one in cluster.objects("Pod")))
    return next(one for one in cluster.objects("Pod") if wanted(one))


def bind(cluster: FakeCluster, pod: Object, node: str = "n1", **status: Any) -> None:
    """Give a pod a node, and a status."""
    change = {"spec": {"nodeName": node}, "status": {"phase": "Pending", **status}}
    cluster.change("Pod", pod["metadata"]["name"], change)


def another(than: Object) -> Callable[[Object], object]:
    return lambda one: one["metadata"]["uid"] != than["metadata"]["uid"]


def avoided(pod: Object) -> list[str]:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return [name for term in terms for one in term["matchExpressions"] for name in one["values"]]


def fail_a_pod(cluster: FakeCluster, placement: KubernetesPlacement) -> tuple[Asked, str]:
    """Let a request's first pod fail on n1; return what the request is told."""
    asked = Asked(placement, request_for(L4))
    first = until_pod(cluster, lambda one: "nodeName" not in one["spec"])
    bind(cluster, first, **ADMISSION_ERROR)
    while (waiting := asked.next(Waiting)).reason != "device_failed":
        pass
    return asked, waiting.message


def test_a_pod_that_was_not_given_its_devices_is_replaced(cluster: FakeCluster, placement: KubernetesPlacement):
    _, message = fail_a_pod(cluster, placement)
    assert "n1 is avoided if this happens there again" in message
    assert "another pod is made in 0.5 s" in message
    assert avoided(until_pod(cluster, lambda one: "nodeName" not in one["spec"])) == []
    cluster.until(lambda: len(cluster.objects("Pod")) == 1)


def test_a_node_that_failed_two_pods_is_avoided(cluster: FakeCluster, placement: KubernetesPlacement):
    fail_a_pod(cluster, placement)[0].release()
    asked, message = fail_a_pod(cluster, placement)
    assert "this happened twice there, so n1 is avoided for 10 minutes" in message
    assert avoided(until_pod(cluster, lambda one: "nodeName" not in one["spec"])) == ["n1"]
    asked.release()


def test_a_pod_that_was_evicted_before_it_served_is_no_loss(cluster: FakeCluster, placement: KubernetesPlacement):
    asked = Asked(placement, request_for(L4))
    first = until_pod(cluster)
    bind(cluster, first, phase="Failed", reason="Evicted", message="The node was low on resource: memory")
    while "low on resource" not in asked.next(Waiting).message:
        pass
    until_pod(cluster, another(first))
    assert not any(isinstance(event, Lost) for event in asked.events.taken())


def test_a_pod_that_came_and_went_while_nobody_watched_is_replaced(
    cluster: FakeCluster, placement: KubernetesPlacement
):
    placement.free_workers(L4, gpus=1, cpus=1)
    cluster.until(lambda: cluster.count("watch", "Pod"))
    cluster.deaf = True
    Asked(placement, request_for(L4))
    first = until_pod(cluster)
    cluster.remove("Pod", first["metadata"]["name"])
    cluster.deaf = False
    cluster.forget_history()
    until_pod(cluster, another(first))


def test_a_worker_that_cannot_start_is_a_loss(cluster: FakeCluster, placement: KubernetesPlacement):
    asked = Asked(placement, request_for(L4))
    ended = {"name": "worker", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no module"}}}
    bind(cluster, until_pod(cluster), phase="Failed", containerStatuses=[ended])
    assert "no module" in asked.next(Lost).message


def test_a_pod_that_waits_for_its_node_has_all_the_time_of_the_world(
    cluster: FakeCluster, placement: KubernetesPlacement
):
    asked = Asked(placement, request_for(HASTY))
    other = Asked(placement, request_for(HASTY))
    bind(cluster, until_pod(cluster))  # whoever's it was, it goes to the older request
    while "did not serve within 0.05 seconds of getting node n1" not in asked.next(Waiting).message:
        pass
    assert other.ticket.attempt == 0


def test_a_request_whose_pods_never_serve_in_time_is_refused(cluster: FakeCluster, placement: KubernetesPlacement):
    cluster.printed = "loading weights\n"
    asked = Asked(placement, request_for(HASTY))
    waiting = {"name": "worker", "state": {"waiting": {"reason": "ContainerCreating", "message": "no volume 'models'"}}}
    for _ in range(LATE_STARTS):
        bind(cluster, until_pod(cluster, lambda one: "nodeName" not in one["spec"]), containerStatuses=[waiting])
    error = asked.next(Refused).error
    assert isinstance(error, InvalidPlacement)
    assert "no volume 'models'" in error.message
    assert "raise start_timeout_seconds of GPU class 'l4'" in error.message
    assert "the last it has printed is “loading weights”" in error.message
    cluster.until(lambda: cluster.objects("Pod") == [])


def test_pauses_grow_and_have_an_end():
    pauses = [pause_seconds(number) for number in range(1, 12)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1
    assert pauses[-1] == pauses[-2] == 60


def test_an_image_that_cannot_be_pulled_is_told_though_the_pods_way_to_its_node_was_not_seen(
    cluster: FakeCluster, placement: KubernetesPlacement
):
    """As where a watch begins, or begins anew, after the pod was made."""
    asked = Asked(placement, request_for(L4))
    pod = until_pod(cluster)
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    bind(cluster, pod, containerStatuses=[{"name": "worker", "image": "worker:test", "state": {"waiting": waiting}}])
    assert asked.next(Waiting).reason == "image"
