"""The evidence of a diagnosis, as it is kept with the job, in JSON: the pod, its pool's nodes, and how to look at them."""

from __future__ import annotations

import heapq
import re
import shlex
from collections.abc import Mapping
from typing import Any

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.cluster import RIGHTS
from lancegpu_sql.placement.kubernetes.holders import Holding, holders_of
from lancegpu_sql.placement.kubernetes.pool import NodeFinding, Obstacle
from lancegpu_sql.placement.kubernetes.quantities import amount_text, whole
from lancegpu_sql.placement.kubernetes.queue_views import KUEUE_GATE_PREFIX
from lancegpu_sql.placement.kubernetes.queues import cluster_queue_of, queue_evidence, workload_of

MOST_NODES = 50
"""Rows of nodes that are kept with a job; its record is read and written as a whole."""

_MOST_EVENTS = 5
_MOST_CHARACTERS = 500


def evidence(case: Case, verdict: Verdict) -> dict[str, Any]:
    """Return what a diagnosis rests on, as JSON: the pod, its pool's nodes, what was said, the kubectl lines."""
    pod = case.pod
    findings = () if pod.node or not pod.uid or pod.gates else case.pool.findings
    return {
        "pod": {
            "name": pod.name,
            "namespace": pod.namespace,
            "node": pod.node or None,
            "phase": pod.phase or None,
            "created_at": pod.created_at.isoformat() if pod.created_at is not None else None,
            "gates": list(pod.gates),
            "needs": {name: amount_text(name, amount) for name, amount in sorted(pod.requests.items())},
            "conditions": [
                {"type": one.type, "status": one.status, "reason": one.reason, "message": _cut(one.message)}
                for one in pod.conditions.values()
                if one.status != "True" or one.type == "DisruptionTarget"
            ],
        },
        "resource": case.resource,
        "queue": queue_evidence(case),
        "nodes": _nodes(case) if findings else [],
        "nodes_in_pool": len(findings),
        "events": [
            {
                "reason": event.reason,
                "message": _cut(event.message),
                "source": event.source,
                "at": event.at.isoformat() if event.at is not None else None,
            }
            for event in case.cluster.events_of(pod)[:_MOST_EVENTS]
        ],
        "missing_rights": [RIGHTS[one] for one in verdict.lacks],
        "kubectl": kubectl_lines(case, verdict),
    }


def kubectl_lines(case: Case, verdict: Verdict) -> list[str]:
    """Return the commands that show an operator what the diagnosis rests on."""
    pod = case.pod
    here = f"kubectl -n {shlex.quote(pod.namespace or 'default')}"
    lines = [f"{here} describe pod {shlex.quote(pod.name)}"] if pod.uid else []
    if verdict.reason == "quota" and any(gate.startswith(KUEUE_GATE_PREFIX) for gate in pod.gates):
        lines += _queue_lines(case, here)
    elif verdict.reason == "quota":
        lines.append(f"{here} describe resourcequota")
    if verdict.reason == "claim":
        lines += [f"{here} get resourceclaims -o wide", "kubectl get resourceslices,deviceclasses"]
    if pod.node:
        lines.append(f"kubectl describe node {shlex.quote(pod.node)}")
    elif pod.uid and not pod.gates:
        lines += _node_lines(case)
    return lines + [f"kubectl auth can-i {_can_i(right)}" for right in verdict.lacks]


def _nodes(case: Case) -> list[dict[str, Any]]:
    """Return a row for each node of the pool, or for the first of many; of pods that are alike, all have the same rows."""
    key = ("rows of nodes", id(case.pool))
    if key not in case.cluster.remembered:
        shown = heapq.nsmallest(MOST_NODES, case.findings, key=_rank)
        case.cluster.remembered[key] = [_node(finding) for finding in shown]
    rows: list[dict[str, Any]] = case.cluster.remembered[key]
    return rows


def _node(finding: NodeFinding) -> dict[str, Any]:
    held = holders_of(finding.holders)
    return {
        "name": finding.node.name,
        "state": _state(finding),
        "devices": whole(finding.total),
        "used": whole(finding.taken),
        "free": whole(finding.free),
        "failed": whole(finding.failed),
        "jobs": [{"job": job, **_holding(one)} for job, one in list(held.jobs.items())[:8]],
        "others": _holding(held.others) if held.others.pods else None,
    }


def _holding(held: Holding) -> dict[str, Any]:
    named = {"function": held.function} if held.function else {}
    return {**named, "pods": held.pods, "devices": held.devices}


def _state(finding: NodeFinding) -> str:
    match finding.obstacle:
        case Obstacle.TAINT:
            return f"taint {', '.join(map(str, finding.taints))}"[:_MOST_CHARACTERS]
        case Obstacle.OTHER_RESOURCE:
            return f"short of {', '.join(finding.lacking)}"
        case Obstacle.TOO_LARGE:
            return f"too small: {', '.join(finding.lacking)}"
        case Obstacle.NOT_ADVERTISED:
            return f"offers no {', '.join(finding.lacking)}"
        case obstacle:
            return _STATES[obstacle]


_STATES: Mapping[Obstacle, str] = {
    Obstacle.NONE: "has room",
    Obstacle.STARTING: "starting",
    Obstacle.IN_USE: "in use",
    Obstacle.CLAIM: "no device for the claim",
    Obstacle.DEVICE_FAILED: "failed devices",
    Obstacle.CORDONED: "cordoned",
    Obstacle.NOT_READY: "not ready",
}


_RANKS = {obstacle: rank for rank, obstacle in enumerate(Obstacle)}


def _rank(finding: NodeFinding) -> tuple[int, str]:
    return _RANKS[finding.obstacle], finding.node.name


def _node_lines(case: Case) -> list[str]:
    selector = ",".join(f"{key}={value}" for key, value in sorted(case.pod.node_selector.items()))
    chosen = f" -l {shlex.quote(selector)}" if selector else ""
    columns = ["NAME:.metadata.name", "CORDONED:.spec.unschedulable", "TAINTS:.spec.taints[*].key"]
    if case.resource is not None:
        path = re.sub(r"([.])", r"\\\1", case.resource)
        columns.append(f"DEVICES:.status.allocatable.{path}")
    return [f"kubectl get nodes{chosen} -o {shlex.quote('custom-columns=' + ','.join(columns))}"]


def _queue_lines(case: Case, here: str) -> list[str]:
    # By their full names: Kubernetes itself has a kind called Workload.
    kinds = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
    lines, workload, queue = [f"{here} get {kinds}"], workload_of(case), cluster_queue_of(case)
    if workload is not None:
        lines.append(f"{here} describe workloads.kueue.x-k8s.io {shlex.quote(workload.name)}")
    if queue is not None:
        lines.append(f"kubectl describe clusterqueues.kueue.x-k8s.io {shlex.quote(queue.name)}")
    return lines


def _can_i(right: str) -> str:
    words = RIGHTS[right]
    everywhere = " --all-namespaces" if "all namespaces" in words else ""
    return f"list {words.split()[1]}{everywhere}"


def _cut(message: str) -> str:
    return message if len(message) <= _MOST_CHARACTERS else message[:_MOST_CHARACTERS] + "…"
