"""Pods that have their node and do not come to serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.pods import pod, running
from cluster.process_kubelet.simulation import SIMULATE, Simulation
from cluster.process_node import GPU, AddProcessNode
from cluster.running import RunningCluster
from placement_suite import Asked, request_for

from lancegpu_sql.placement import GpuClass, Ready, Refused, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

STAND_IN = str(Path(__file__).parent / "stand_in_worker.py")

Place = Callable[..., KubernetesPlacement]


@pytest.fixture
def place(cluster: RunningCluster, namespace: str) -> Iterator[Place]:
    """Make a placement in the test's own namespace."""
    made: list[KubernetesPlacement] = []

    def make(**more: Any) -> KubernetesPlacement:
        options = {"kubeconfig": str(cluster.kubeconfig), "image": "worker:test", "python": STAND_IN, **more}
        made.append(KubernetesPlacement(namespace, database="a test's", **options))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture
def l4(process_node: AddProcessNode) -> None:
    """A pool of one node with one GPU."""
    process_node("l4-1", gpus=1, labels={"pool": "l4"})


def l4_class(simulate: Simulation = Simulation.NONE, **more: Any) -> GpuClass:
    return GpuClass(name="l4", node_selector={"pool": "l4"}, annotations={SIMULATE: str(simulate)}, **more)


def waiting_until(asked: Asked, says: str) -> Waiting:
    """Return the first message that says so."""
    while says not in (told := asked.next(Waiting)).message:
        pass
    return told


@pytest.mark.usefixtures("l4")
def test_an_image_that_cannot_be_pulled_for_long_is_refused_with_the_registrys_message(place: Place):
    asked = Asked(place(image_pull_grace_seconds=0.5), request_for(l4_class(Simulation.IMAGE_ERROR)))
    assert asked.next(Waiting).reason == "image"
    message = asked.next(Refused).error.message
    assert "'worker:test'" in message
    assert "failed to pull and unpack image" in message


@pytest.mark.usefixtures("l4")
def test_an_image_that_comes_in_time_is_only_waited_for(cluster: RunningCluster, namespace: str, place: Place):
    asked = Asked(place(), request_for(l4_class(Simulation.IMAGE_ERROR)))
    assert asked.next(Waiting).reason == "image"
    cluster.client().patch("Pod", asked.ticket.pod_name, {"metadata": {"annotations": {SIMULATE: ""}}}, namespace)
    asked.next(Ready)


@pytest.mark.usefixtures("l4")
def test_a_pod_that_is_not_up_in_time_is_replaced(cluster: RunningCluster, namespace: str, place: Place):
    asked = Asked(place(), request_for(l4_class(Simulation.CREATING, start_timeout_seconds=0.5)))
    assert "did not serve within 0.5 seconds of getting node l4-1" in waiting_until(asked, "did not serve").message
    second = asked.ticket.pod_name
    cluster.client().until("Pod", second, bool, namespace)
    cluster.client().patch("Pod", second, {"metadata": {"annotations": {SIMULATE: ""}}}, namespace)
    asked.next(Ready)


@pytest.mark.usefixtures("l4")
def test_a_worker_that_never_serves_is_refused_with_its_last_words(
    cluster: RunningCluster, namespace: str, place: Place
):
    silent = place(python=str(Path(__file__).parent / "silent_worker.py"))
    error = Asked(silent, request_for(l4_class(start_timeout_seconds=1))).next(Refused).error
    assert "did not serve within 1 seconds of getting node l4-1" in error.message
    assert "the last it has printed is “still loading”" in error.message
    cluster.client().until("Pod", error.facts["pod"], lambda found: found is None, namespace)


def test_a_node_that_twice_did_not_give_its_devices_is_avoided(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, place: Place
):
    """The node promises devices that its device plugin has given away."""
    process_node("l4-1", gpus=1, labels={"pool": "l4"})
    api = cluster.client()
    api.create(pod("foreign", "sleep 600", gpus=1), namespace)
    api.until("Pod", "foreign", running, namespace)
    api.patch("Node", "l4-1", {"status": {"capacity": {GPU: "9"}, "allocatable": {GPU: "9"}}}, part="status")
    asked = Asked(place(), request_for(l4_class()))
    waiting = waiting_until(asked, "no node of GPU class 'l4' is left to try")
    assert waiting.reason == "device_failed"
    process_node("l4-2", gpus=1, labels={"pool": "l4"})
    assert asked.next(Ready).devices[0].startswith("l4-2/")
