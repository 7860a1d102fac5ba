"""A pod's status, as a kubelet writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Document = Mapping[str, Any]
HOST_IP = "127.0.0.1"


def now() -> str:
    """The present time, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_exactly() -> str:
    """The present time with microseconds, as leases and events have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def phase_of(states: Sequence[Document], restart_policy: str) -> str:
    """A pod's phase by the states of its containers."""
    ended = [state["terminated"]["exitCode"] for state in states if "terminated" in state]
    if len(ended) == len(states) and restart_policy != "Always":
        return "Failed" if any(ended) else "Succeeded"
    begun = ended or any("running" in state for state in states)
    return "Running" if begun or any(_crashed(state) for state in states) else "Pending"


def _crashed(state: Document) -> bool:
    return bool(state.get("waiting", {}).get("reason") == "CrashLoopBackOff")


def document(
    *,
    phase: str,
    containers: Sequence[Document],
    first: Sequence[Document] = (),
    started_at: str,
    pod_ip: str | None,
    since: dict[str, tuple[str, str]],
    reason: str | None = None,
    message: str | None = None,
    extra_conditions: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The status as a patch: what is None is taken away; `since` remembers when each condition came to be."""
    ready = phase == "Running" and all(container["ready"] for container in containers)
    ended = phase in {"Succeeded", "Failed"}
    why = None if ready else "PodCompleted" if ended else "ContainersNotReady"
    conditions = [
        condition("Initialized", True),
        condition("Ready", ready, reason=why),
        condition("ContainersReady", ready, reason=why),
        *extra_conditions,
    ]
    for each in conditions:
        status, time = since.get(each["type"], ("", ""))
        if status != each["status"]:
            time = now()
            since[each["type"]] = (each["status"], time)
        each["lastTransitionTime"] = time
    return {
        "phase": phase,
        "reason": reason,
        "message": message,
        "startTime": started_at,
        "hostIP": HOST_IP,
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}] if pod_ip else None,
        "initContainerStatuses": list(first) or None,
        "containerStatuses": list(containers),
        "conditions": conditions,
    }


def condition(kind: str, holds: bool, *, reason: str | None = None, message: str | None = None) -> dict[str, Any]:
    """One condition; a reason of earlier is taken away."""
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
