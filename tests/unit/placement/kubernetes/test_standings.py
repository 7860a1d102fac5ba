"""How requests of other processes stand, as their pods tell."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from placement_suite import request_for

from lancegpu_sql.placement import GpuClass
from lancegpu_sql.placement.kubernetes.charge import charge_for
from lancegpu_sql.placement.kubernetes.client import JsonObject
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.fairness import Stage, Standing
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.standings import standings_elsewhere
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket
from lancegpu_sql.placement.kubernetes.views import pod_view
from lancegpu_sql.placement.merge_patch import merged

L4 = GpuClass(name="l4", max_workers=3)
CONFIG = KubernetesConfig("work", image="worker:test")
HERE, THERE = (Household(FakeCluster(), "music") for _ in range(2))
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def ticket_here(gpu_class: GpuClass = L4) -> KubernetesTicket:
    request = request_for(gpu_class)
    return KubernetesTicket(None, request, print, charge_for(request, CONFIG, HERE, "music", 0))  # type: ignore[arg-type]


def pod_there(asked_at: float = 7.5, **more: Any) -> JsonObject:
    charge = charge_for(request_for(L4, gpus=2, asked_at=asked_at), CONFIG, THERE, "music", 0)
    return merged(merged(charge.body, {"metadata": {"uid": "u1"}}), more)


def seen(*pods: JsonObject, gpu_class: GpuClass = L4) -> list[Standing]:
    return standings_elsewhere([pod_view(one) for one in pods], [ticket_here(gpu_class)], HERE.placement)


def test_a_pod_tells_how_old_its_request_is_and_what_it_holds():
    (found,) = seen(pod_there())
    assert (found.asked_at, found.gpus, found.max_workers) == (7.5, 2, 3)


def test_a_pod_without_a_word_of_its_age_is_as_old_as_itself():
    made = {"labels": {"lancegpu.dev/asked-at": None}, "creationTimestamp": "2026-11-30T12:00:00Z"}
    (found,) = seen(pod_there(metadata=made))
    assert found.asked_at == 1796040000.0


@pytest.mark.parametrize(
    ("more", "stage"),
    [
        ({}, Stage.PLACING),
        ({"status": {"conditions": [UNSCHEDULED]}}, Stage.WAITING),
        ({"spec": {"nodeName": "n1"}}, Stage.PLACED),
        ({"spec": {"nodeName": "n1"}, "metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}}, Stage.LEAVING),
    ],
)
def test_a_pod_tells_how_far_its_request_is(more: dict[str, Any], stage: Stage):
    assert [one.stage for one in seen(pod_there(**more))] == [stage]


def test_what_has_ended_and_what_is_of_another_class_does_not_count():
    assert seen(pod_there(status={"phase": "Failed"})) == []
    assert seen(pod_there(), gpu_class=GpuClass(name="a100")) == []
