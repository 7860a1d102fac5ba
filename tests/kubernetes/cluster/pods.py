"""Small pods for tests, and what to wait for in them."""

from __future__ import annotations

from typing import Any

from cluster.api import Object
from cluster.process_node import GPU

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str, script: str, *, gpus: int = 0, node_selector: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod that runs a shell script, as the restricted standard wants it."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "securityContext": RESTRICTED,
        "resources": {"limits": {GPU: str(gpus)}} if gpus else {},
    }
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "nodeSelector": node_selector or {},
            "containers": [container],
            **spec,
        },
    }


def phase(found: Object | None) -> str | None:
    """A pod's phase; None where there is no pod."""
    return None if found is None else str(found["status"]["phase"])


def running(found: Object | None) -> bool:
    """It runs and is ready."""
    return phase(found) == "Running" and condition(found, "Ready").get("status") == "True"


def ended(found: Object | None) -> bool:
    """It ran to its end, well or not."""
    return phase(found) in {"Succeeded", "Failed"}


def unschedulable(found: Object | None) -> bool:
    """The scheduler has said that there is no room."""
    return condition(found, "PodScheduled").get("reason") == "Unschedulable"


def condition(found: Object | None, kind: str) -> Object:
    """One condition of an object's status; empty where it has none such."""
    conditions = found["status"].get("conditions", ()) if found else ()
    return next((one for one in conditions if one["type"] == kind), {})
