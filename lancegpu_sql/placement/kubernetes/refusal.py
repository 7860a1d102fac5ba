"""Why the cluster forbids a pod: many things answer 403 with the same details, so the named objects are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.errors import ClusterForbidden, InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.client import KINDS, Cluster
from lancegpu_sql.placement.kubernetes.quota import shortages
from lancegpu_sql.placement.kubernetes.views import pod_view, quota_view

# What a pod names, by the field of its spec, and what to do where it is not there.
_NAMED = {
    "serviceAccountName": ("ServiceAccount", "make it, or name another with service_account"),
    "priorityClassName": ("PriorityClass", "make it, or correct the class's priority_class_name"),
    "runtimeClassName": ("RuntimeClass", "make it, or correct the class's runtime_class_name"),
}


def is_for_lack_of_quota(cluster: Cluster, body: Mapping[str, Any], exc: ClusterForbidden) -> bool:
    """Tell whether a refusal is for a full ResourceQuota, which may have room later."""
    try:
        quotas, _ = cluster.list("ResourceQuota")
    except ClusterForbidden:
        return "exceeded quota" in str(exc.facts["said"])
    return bool(shortages(pod_view(body), [quota_view(one) for one in quotas]))


def explain(cluster: Cluster, body: Mapping[str, Any], exc: ClusterForbidden) -> PlacementError:
    """Return what is wrong, with what to change, as far as that can be found out."""
    kind = KINDS[str(body["kind"])]
    try:
        if not cluster.can_i("create", kind.plural):
            return ClusterForbidden(
                f"this process may not create {kind.plural} in the workers' namespace: give its service account, or "
                f"user, the verb create on {kind.plural} there ({exc.facts['said']})",
                **exc.facts,
            )
        for key, (named, advice) in _NAMED.items():
            name = body.get("spec", {}).get(key)
            if name and cluster.get(named, name) is None:
                return InvalidPlacement(f"the cluster has no {named} {name!r}: {advice}", kind=named, name=name)
    except ClusterForbidden:
        pass  # without the right to look, the server's own words must do
    return InvalidPlacement(f"the cluster rejects the worker's {body['kind']}: {exc.facts['said']}", **exc.facts)
