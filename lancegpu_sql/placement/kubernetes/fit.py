"""Whether a pod may stand on a node: its selectors, its tolerations. Pure copies of what the scheduler does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.placement.kubernetes.fields import entries, text, text_list
from lancegpu_sql.placement.kubernetes.views import NodeView, PodToleration, PodView, Taint

_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def selects(pod: PodView, node: NodeView) -> bool:
    """Tell whether the node carries what the pod's node selector and required node affinity ask for."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.required_terms is None or any(_term_holds(term, node) for term in pod.required_terms)


def untolerated(pod: PodView, node: NodeView) -> tuple[Taint, ...]:
    """Return the taints that keep the pod from the node."""
    return tuple(
        taint
        for taint in node.taints
        if taint.effect in _BLOCKING_EFFECTS and not any(tolerates(one, taint) for one in pod.tolerations)
    )


def tolerates(toleration: PodToleration, taint: Taint) -> bool:
    """Tell whether a toleration covers a taint; an empty key or effect covers any."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(toleration.operator, taint.value, toleration.value)
        case _:
            return toleration.key != "" and toleration.value == taint.value


def _term_holds(term: Mapping[str, Any], node: NodeView) -> bool:
    on_labels, on_fields = entries(term.get("matchExpressions")), entries(term.get("matchFields"))
    if not (on_labels or on_fields):
        return False
    return all(_holds(one, node.labels) for one in on_labels) and all(
        _holds(one, {"metadata.name": node.name}) for one in on_fields
    )


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    found, wanted = values.get(text(expression.get("key"))), text_list(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return found is not None and found in wanted
        case "NotIn":
            return found is None or found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return found is not None and len(wanted) == 1 and _compares(operator, found, wanted[0])
        case _:
            return False


def _compares(operator: str, left: str, right: str) -> bool:
    try:
        return int(left) > int(right) if operator == "Gt" else int(left) < int(right)
    except ValueError:
        return False
