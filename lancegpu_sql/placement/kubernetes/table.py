"""The evidence of a diagnosis, as it is shown: the pool's nodes as rows, the pod as lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.placement.kubernetes.fields import entries, mapping, text, text_list
from lancegpu_sql.placement.kubernetes.quantities import resource_noun


def pool_table(detail: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Return the titles and rows that show the pool's nodes of a kept detail; no rows where it has none."""
    noun = resource_noun(text(detail.get("resource")) or "device")
    titles = ["node", "state", f"{noun}s", "used", "free", "failed", "used by"]
    rows = [
        [
            text(node.get("name")),
            text(node.get("state")),
            *(node.get(key) for key in ("devices", "used", "free", "failed")),
            _used_by(node),
        ]
        for node in entries(detail.get("nodes"))
    ]
    return titles, rows


def evidence_lines(detail: Mapping[str, Any]) -> list[str]:
    """Return the pod, its conditions and what was said of it, a line each, from a kept detail."""
    pod = mapping(detail, "pod")
    if not pod:
        return []
    where = f" on node {text(pod.get('node'))}" if pod.get("node") else ""
    name = f"{text(pod.get('namespace'))}/{text(pod.get('name'))}"
    lines = [f"pod {name}: {text(pod.get('phase')) or 'not made'}{where}"]
    needs = ", ".join(f"{key} {text(amount)}" for key, amount in mapping(pod, "needs").items())
    lines += [f"needs {needs}"] if needs else []
    lines += [f"gate {gate}" for gate in text_list(pod.get("gates"))]
    lines += _queue_lines(mapping(detail, "queue"))
    for one in entries(pod.get("conditions")):
        lines.append(_said(f"condition {text(one.get('type'))}={text(one.get('status'))}", one))
    for one in entries(detail.get("events")):
        lines.append(_said(f"event of {text(one.get('source')) or 'the cluster'}", one))
    return lines + [f"missing right: {right}" for right in text_list(detail.get("missing_rights"))]


def shell_lines(detail: Mapping[str, Any]) -> list[str]:
    """Return the kubectl lines of a kept detail."""
    return list(text_list(detail.get("kubectl")))


def _used_by(node: Mapping[str, Any]) -> str:
    parts = []
    for one in entries(node.get("jobs")):
        function = f" ({text(one.get('function'))})" if one.get("function") else ""
        parts.append(f"job {text(one.get('job'))}{function}: {one.get('devices')}")
    others = mapping(node, "others")
    if others:
        parts.append(f"others: {others.get('devices')}")
    return ", ".join(parts)


def _queue_lines(queue: Mapping[str, Any]) -> list[str]:
    if not queue:
        return []
    feeds = f" of ClusterQueue {text(queue.get('cluster_queue'))}" if queue.get("cluster_queue") else ""
    quotas = [
        f"quota {text(one.get('resource'))} of flavor {text(one.get('flavor'))}: {text(one.get('reserved'))} of "
        f"{text(one.get('quota'))} reserved"
        for one in entries(queue.get("quota"))
    ]
    return [f"queue {text(queue.get('name'))}{feeds}", *quotas]


def _said(head: str, one: Mapping[str, Any]) -> str:
    message = f": {text(one.get('message'))}" if one.get("message") else ""
    return f"{head} ({text(one.get('reason'))}){message}" if one.get("reason") else f"{head}{message}"
