"""Diagnoses hold for a while only, also where nothing happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fake_cluster import FakeCluster
from placement_suite import Asked, request_for

from lancegpu_sql.placement import GpuClass, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.charge import charge_for
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.fairness import Stage
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.lookout import Lookout
from lancegpu_sql.placement.kubernetes.loop import Loop
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket

CONFIG = KubernetesConfig("work", image="worker:test")
PATIENCE_SECONDS = 20.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop("test")
    yield made
    made.close()


def test_who_waits_is_looked_at_again_though_nothing_changes(loop: Loop):
    cluster, request = FakeCluster(), request_for(GpuClass(name="l4"))
    ticket = KubernetesTicket(None, request, print, charge_for(request, CONFIG, Household(cluster, "d"), "d", 0))  # type: ignore[arg-type]
    ticket.stage = Stage.WAITING
    looks = threading.Semaphore(0)
    lookout = Lookout(
        cluster,
        CONFIG,
        loop,
        tickets=lambda: (ticket,),
        seen_pods=tuple,
        on_look=lambda: looks.release(),
        on_change=lambda: None,
        give_up=lambda ticket, error: None,
        again_seconds=0.05,
    )
    lookout.look_soon()
    # Watches tell what there is once or twice, and no more.
    assert all(looks.acquire(timeout=PATIENCE_SECONDS) for _ in range(6))
    lookout.close()


def test_an_older_request_is_counted_though_the_scheduler_has_not_looked_at_it_yet():
    cluster = FakeCluster()
    room = {"cpu": "8", "pods": "110", "nvidia.com/gpu": "1"}
    ready = [{"type": "Ready", "status": "True"}]
    cluster.add("Node", "n1", status={"allocatable": room, "capacity": room, "conditions": ready})
    holds = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    cluster.add("Pod", "other", spec={"nodeName": "n1", "containers": holds}, status={"phase": "Running"})
    placement = KubernetesPlacement("work", database="d", image="worker:test", cluster=cluster)
    _, younger = (Asked(placement, request_for(GpuClass(name="l4"))) for _ in range(2))
    cluster.until(lambda: len(cluster.objects("Pod")) == 3)
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    cluster.change("Pod", younger.ticket.pod_name, {"status": {"phase": "Pending", "conditions": [unscheduled]}})
    assert "1 older request before it" in younger.next(Waiting).message
    placement.close()
