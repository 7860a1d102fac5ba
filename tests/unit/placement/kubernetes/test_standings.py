"""How requests of other processes stand, as their pods tell."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from placement_suite import request_for

from lancegpu_sql.placement import GpuClass
from lancegpu_sql.placement.kubernetes.api import JsonObject
from lancegpu_sql.placement.kubernetes.charge import charge_for
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.fairness import Held, Stage, Standing
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.marks import Mark, Marks
from lancegpu_sql.placement.kubernetes.standings import standings_elsewhere, why_held
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


@pytest.mark.parametrize("busy", [True, False])
def test_a_pod_tells_whether_its_worker_is_idle(busy: bool):
    (found,) = seen(merged(pod_there(), Marks().change(Mark("j1", "job j1", 7.5, busy=busy))))
    assert found.idle is not busy


def test_who_is_held_back_by_a_limit_is_told_of_the_workers_of_other_processes():
    ticket = ticket_here()
    (there,) = seen(pod_there(metadata={"labels": {"lancegpu.dev/job": "j1"}}))
    told = why_held(ticket, Held(by_limit=True, older=(), older_count=0), {"mine": ticket}, [there])
    assert "3 workers at a time, in use by job j1 of another process; the worker starts" in told.message


def test_who_is_held_back_by_an_older_request_of_another_process_is_told_whose_it_is():
    (there,) = seen(pod_there(metadata={"labels": {"lancegpu.dev/job": "j1"}}))
    told = why_held(ticket_here(), Held(by_limit=False, older=(there.id,), older_count=1), {}, [there])
    assert "needs more GPUs at once (job j1 of another process)" in told.message


def test_what_has_ended_and_what_is_of_another_class_does_not_count():
    assert seen(pod_there(status={"phase": "Failed"})) == []
    assert seen(pod_there(), gpu_class=GpuClass(name="a100")) == []
