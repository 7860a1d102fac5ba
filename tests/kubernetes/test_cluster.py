"""The test cluster itself: it schedules, runs, refuses and lets wait as Kubernetes does."""

from __future__ import annotations

import pytest
from cluster.api import ApiError, Object
from cluster.kwok import AddKwokNodes
from cluster.pods import ended, pod, running, unschedulable
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster


def test_a_pod_on_a_process_node_finds_its_gpus_in_its_environment(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode
):
    process_node("gpu-1", gpus=2)
    api = cluster.client()
    api.create(pod("one", "echo visible=$NVIDIA_VISIBLE_DEVICES at $POD_IP", gpus=2), namespace)
    found = api.until("Pod", "one", ended, namespace)
    assert found["status"]["phase"] == "Succeeded"
    assert api.logs("one", namespace) == f"visible=0,1 at {found['status']['podIP']}\n"


def test_a_pod_waits_for_room_and_starts_when_another_goes(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode
):
    process_node("gpu-1", gpus=1)
    api = cluster.client()
    api.create(pod("first", "sleep 600", gpus=1), namespace)
    api.until("Pod", "first", running, namespace)
    api.create(pod("second", "sleep 600", gpus=1), namespace)
    waits = api.until("Pod", "second", unschedulable, namespace)
    assert waits["status"]["phase"] == "Pending"
    api.delete("Pod", "first", namespace)
    api.until("Pod", "second", running, namespace)


def test_a_restricted_namespace_refuses_a_pod_that_is_root(cluster: RunningCluster, namespace: str):
    root: Object = pod("root", "true")
    root["spec"]["securityContext"] = {"runAsUser": 0}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.client().create(root, namespace)


def test_pods_are_scheduled_to_kwok_nodes(cluster: RunningCluster, namespace: str, kwok_node: AddKwokNodes):
    kwok_node("kwok-1", "kwok-2", gpus=1, labels={"pool": "many"})
    api = cluster.client()
    for name in ("a", "b"):
        api.create(pod(name, "true", gpus=1, node_selector={"pool": "many"}), namespace)
    nodes = {api.until("Pod", name, running, namespace)["spec"]["nodeName"] for name in ("a", "b")}
    assert nodes == {"kwok-1", "kwok-2"}
