"""Situations of a cluster, one file each: what a diagnosis says of them, and what it says when they change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.case import REASONS
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.device_views import claim_view, device_class_view, published_devices
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.evidence import MOST_NODES
from lancegpu_sql.placement.kubernetes.queue_views import (
    cluster_queue_view,
    flavor_view,
    local_queue_view,
    workload_view,
)
from lancegpu_sql.placement.kubernetes.views import event_view, node_view, pod_view, quota_view
from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.request import Waiting, WorkerRequest

HERE = Path(__file__).parent
BASE = yaml.safe_load((HERE / "base.yaml").read_text())
FILES = sorted((HERE / "situations").glob("*.yaml"))


def steps(situation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the situation after each of its steps: what a step does not name stays, its pod is a patch on the last."""
    states: list[dict[str, Any]] = []
    state: dict[str, Any] = {"now": BASE["now"], "pod": BASE["pod"], "class": situation.get("class", BASE["class"])}
    for step in situation["steps"]:
        state = {**state, **step, "pod": merged(state["pod"], step.get("pod", {}))}
        states.append(state)
    return states


def diagnosed(state: Mapping[str, Any]) -> Waiting:
    gpu_class = None if state["class"] is None else GpuClass.model_validate(state["class"])
    request = WorkerRequest("r", "j-mine", "job j-mine", "embed", 1, gpu_class, 1, 4, {}, 0.0)
    now = datetime.fromisoformat(state["now"])
    return diagnose(pod_view(state["pod"]), cluster(state), gpu_class, request, now)


def cluster(state: Mapping[str, Any]) -> ClusterView:
    def patched(kind: str, base: str) -> list[Any]:
        return [merged(BASE[base], one) for one in state.get(kind, [])]

    return ClusterView(
        nodes=tuple(map(node_view, patched("nodes", "node"))),
        pods=tuple(map(pod_view, [*patched("pods", "held"), state["pod"]])),
        events=tuple(map(event_view, patched("events", "event"))),
        quotas=tuple(map(quota_view, state.get("quotas", []))),
        claims=tuple(map(claim_view, state.get("claims", []))),
        devices=tuple(device for one in state.get("slices", []) for device in published_devices(one)),
        device_classes=tuple(map(device_class_view, state.get("device_classes", []))),
        workloads=tuple(map(workload_view, state.get("workloads", []))),
        local_queues=tuple(map(local_queue_view, state.get("local_queues", []))),
        cluster_queues=tuple(map(cluster_queue_view, state.get("cluster_queues", []))),
        flavors=tuple(map(flavor_view, state.get("flavors", []))),
        unreadable=frozenset(state.get("unreadable", [])),
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_situation_is_told_as_its_file_says_at_every_step(path: Path) -> None:
    situation = yaml.safe_load(path.read_text())
    told = [diagnosed(state) for state in steps(situation)]
    assert [{"reason": one.reason, "message": one.message, "can_be_met": one.can_be_met} for one in told] == [
        step["expect"] for step in situation["steps"]
    ]


def test_the_situations_cover_every_reason() -> None:
    expected = {step["expect"]["reason"] for path in FILES for step in yaml.safe_load(path.read_text())["steps"]}
    assert expected == set(REASONS)


def test_the_words_of_the_scheduler_decide_nothing() -> None:
    state = steps(yaml.safe_load((HERE / "situations" / "cordoned.yaml").read_text()))[0]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said = [
        diagnosed(
            {**state, "pod": merged(state["pod"], {"status": {"conditions": [{**condition, "message": message}]}})}
        )
        for message in ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", "0/2 nodes: untolerated taint", "")
    ]
    assert len({one.message for one in said}) == 1


def test_the_evidence_of_a_large_pool_stays_small() -> None:
    state = {**steps({"steps": [{}]})[0], "nodes": [{"metadata": {"name": f"n{number}"}} for number in range(500)]}
    detail = diagnosed(state).detail
    assert len(detail["nodes"]) == MOST_NODES
    assert detail["nodes_in_pool"] == 500
    assert len(json.dumps(detail)) < 20_000
