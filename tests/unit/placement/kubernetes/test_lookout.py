"""Diagnoses hold for a while only, also where nothing happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fake_cluster import FakeCluster
from placement_suite import request_for

from lancegpu_sql.placement import GpuClass
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
