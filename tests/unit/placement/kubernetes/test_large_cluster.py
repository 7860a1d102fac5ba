"""A large cluster is looked at once for all pods that are alike."""

from __future__ import annotations

from datetime import UTC, datetime

from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.pool import look_at_pool
from lancegpu_sql.placement.kubernetes.views import node_view, pod_view

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CLUSTER = ClusterView(nodes=tuple(node_view({"metadata": {"name": f"n{number}"}}) for number in range(3)))


def waiting(name: str, gpus: int) -> object:
    container = {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container]}}


def test_pods_that_are_alike_share_one_look_and_others_have_their_own() -> None:
    first, second, other = (
        look_at_pool(pod_view(waiting(name, gpus)), "nvidia.com/gpu", CLUSTER, NOW)
        for name, gpus in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first is second
    assert other is not first
