"""A large cluster is looked at once for all pods that are alike."""

from __future__ import annotations

from datetime import UTC, datetime

from placement_suite import request_for

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.pool import look_at_pool
from lancegpu_sql.placement.kubernetes.views import PodView, node_view, pod_view
from lancegpu_sql.placement.request import WorkerRequest

A100 = GpuClass(name="a100")
REQUEST = WorkerRequest("r", "j", "job j", "embed", 1, A100, 1, 1, {}, 0.0)
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CLUSTER = ClusterView(nodes=tuple(node_view({"metadata": {"name": f"n{number}"}}) for number in range(3)))


def waiting(name: str, gpus: int) -> object:
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container]}}


def claiming(name: str) -> PodView:
    """A pod that the scheduler has refused, with a claim that has its name."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    status = {"conditions": [condition], "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
    return pod_view({"metadata": {"name": name, "uid": name}, "spec": spec, "status": status})


def claimed(pods: list[PodView], nodes: int) -> ClusterView:
    """A cluster of nodes with a device each, in which each pod's claim chooses the same ones."""
    asked = {"deviceClassName": "d", "selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}
    names = [f"n{number}" for number in range(nodes)]
    slices = [{"spec": {"driver": "d", "nodeName": name, "devices": [{"name": "gpu-0"}]}} for name in names]
    status = {"allocatable": {"pods": "9"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return ClusterView(
        nodes=tuple(node_view({"metadata": {"name": name}, "status": status}) for name in names),
        claims=tuple(claim_view({"metadata": {"name": pod.name}, "spec": spec}) for pod in pods),
        devices=tuple(device for one in slices for device in published_devices(one)),
        device_classes=(device_class_view({"metadata": {"name": "d"}}),),
    )


def test_claims_that_are_alike_share_one_look_at_the_devices() -> None:
    pods = [claiming(name) for name in ("a", "b", "c")]
    cluster = claimed(pods, nodes=3)
    looks = []
    for pod in pods:
        assert "3 of class 'd' are free" in diagnose(pod, cluster, A100, REQUEST, NOW).message
        looks.append(len(cluster.remembered))
    assert looks[0] == looks[1] == looks[2]


def test_pods_that_are_alike_share_one_look_and_others_have_their_own() -> None:
    first, second, other = (
        look_at_pool(pod_view(waiting(name, gpus)), "nvidia.com/gpu", CLUSTER, NOW)
        for name, gpus in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first is second
    assert other is not first


def test_what_is_told_of_the_nodes_is_kept_once_for_pods_that_are_alike() -> None:
    gpus = GpuClass(name="l4")
    first, second = (
        diagnose(pod_view(waiting(name, 1)), CLUSTER, gpus, request_for(gpus), NOW).detail for name in ("a", "b")
    )
    assert first["nodes"] is second["nodes"]
    assert len(first["nodes"]) == 3
