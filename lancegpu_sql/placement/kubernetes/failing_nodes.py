"""Nodes that could not give pods their devices, and are avoided for a while. Pure but for the clock it is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from lancegpu_sql.placement.kubernetes.fields import entries
from lancegpu_sql.placement.kubernetes.views import PodView

FAILURES = 2
"""One may be chance: a device that was being reset, a plugin that restarted."""

REMEMBERED_SECONDS = 3600.0
AVOIDED_SECONDS = 600.0
"""A device plugin that was repaired by then serves again; one that was not fails two more pods in an hour at most."""

HOSTNAME = "kubernetes.io/hostname"


class FailingNodes:
    """Counts the failures of each node; times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._failures: dict[str, list[float]] = defaultdict(list)
        self._avoided_until: dict[str, float] = {}

    def note(self, node: str, now: float) -> None:
        """Take note that a pod was not given its devices on a node."""
        recent = [at for at in self._failures[node] if now - at < REMEMBERED_SECONDS]
        self._failures[node] = recent = [*recent, now]
        if len(recent) >= FAILURES:
            self._avoided_until[node] = now + AVOIDED_SECONDS

    def failures(self, node: str) -> int:
        """Return how often a node has failed of late."""
        return len(self._failures[node]) if node in self._failures else 0

    def avoided(self, now: float) -> Mapping[str, float]:
        """Return the nodes to keep off, and until when."""
        return {node: until for node, until in self._avoided_until.items() if until > now}


def keeping_off(pod: Mapping[str, Any], nodes: Iterable[str]) -> dict[str, Any]:
    """Return a pod that stays off these nodes, whatever else it says of where it may stand."""
    kept: dict[str, Any] = deepcopy(dict(pod))
    names = sorted(nodes)
    if not names:
        return kept
    affinity = kept["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    # Of several terms one is enough: each must say it. By the label, which autoscalers understand, and fields not.
    for term in required["nodeSelectorTerms"]:
        term["matchExpressions"] = [
            *term.get("matchExpressions", ()),
            {"key": HOSTNAME, "operator": "NotIn", "values": names},
        ]
    return kept


def preferring_others(pod: Mapping[str, Any], nodes: Iterable[str]) -> dict[str, Any]:
    """Return a pod that goes elsewhere than to these nodes, where there is room elsewhere: a device of them failed."""
    kept: dict[str, Any] = deepcopy(dict(pod))
    names = sorted(nodes)
    if names:
        affinity = kept["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": names}]}
        affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
            {"weight": 100, "preference": term}
        )
    return kept


def not_keeping_off(pod: PodView) -> PodView:
    """Return a pod as if it kept off no node by name."""
    if pod.required_terms is None:
        return pod
    terms = [
        {**term, "matchExpressions": [one for one in entries(term.get("matchExpressions")) if not _keeps_off(one)]}
        for term in pod.required_terms
    ]
    # A term that said nothing else selects no node in Kubernetes; here it is one that was added.
    selecting = tuple(one for one in terms if one["matchExpressions"] or one.get("matchFields"))
    return replace(pod, required_terms=selecting or None)


def _keeps_off(expression: Mapping[str, Any]) -> bool:
    return expression.get("key") == HOSTNAME and expression.get("operator") == "NotIn"
