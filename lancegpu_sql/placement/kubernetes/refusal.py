"""Why the cluster forbids a pod: many things answer 403 with the same details, so the named objects are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.errors import ClusterForbidden, InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.api import KINDS, Cluster
from lancegpu_sql.placement.kubernetes.quota import object_shortages, shortages
from lancegpu_sql.placement.kubernetes.views import pod_view, quota_view

# What a pod names, by the field of its spec, and what to do where it is not there.
_NAMED = {
    "serviceAccountName": ("ServiceAccount", "make it, or name another with service_account"),
    "priorityClassName": ("PriorityClass", "make it, or correct the class's priority_class_name"),
    "runtimeClassName": ("RuntimeClass", "make it, or correct the class's runtime_class_name"),
}


def is_for_lack_of_quota(cluster: Cluster, body: Mapping[str, Any], exc: ClusterForbidden) -> bool:
    """Tell whether a refusal is for a full ResourceQuota, which may have room later.

    `body` is the pod; what was refused may as well be what is made before it.
    """
    try:
        quotas, _ = cluster.list("ResourceQuota")
    except ClusterForbidden:
        return "exceeded quota" in str(exc.facts["said"])
    seen = [quota_view(one) for one in quotas]
    refused = _refused(body, exc)
    if refused == KINDS["Pod"].plural:
        return bool(shortages(pod_view(body), seen))
    return bool(object_shortages(refused, seen)) and cluster.can_i("create", refused)


def explain(cluster: Cluster, body: Mapping[str, Any], exc: ClusterForbidden) -> PlacementError:
    """Return what is wrong, with what to change, as far as that can be found out."""
    verb, refused = str(exc.facts.get("verb") or "create"), _refused(body, exc)
    try:
        if not cluster.can_i(verb, refused):
            return ClusterForbidden(
                f"this process may not {verb} {refused} in the workers' namespace: give its service account, or user, the "
                f"verb {verb} on {refused} there ({exc.facts['said']})",
                **exc.facts,
            )
        for key, (named, advice) in _NAMED.items():
            name = body.get("spec", {}).get(key)
            if name and cluster.get(named, name) is None:
                return InvalidPlacement(f"the cluster has no {named} {name!r}: {advice}", kind=named, name=name)
    except ClusterForbidden:
        pass  # without the right to look, the server's own words must do
    what = "pod" if refused == KINDS["Pod"].plural else refused
    return InvalidPlacement(f"the cluster rejects the worker's {what}: {exc.facts['said']}", **exc.facts)


def _refused(body: Mapping[str, Any], exc: ClusterForbidden) -> str:
    """Return what the call was about, as the API names it."""
    return str(exc.facts.get("resource") or KINDS[str(body["kind"])].plural)
