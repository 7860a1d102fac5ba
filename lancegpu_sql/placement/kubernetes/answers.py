"""An API server's answers, and their lack, as this program's errors."""

from __future__ import annotations

from typing import Any

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable
from lancegpu_sql.placement.kubernetes.api import JsonObject


def unreachable(where: str, host: str, exc: BaseException) -> ClusterUnreachable:
    """Return the error for a call that got no answer."""
    text = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
    at = f" at {host}" if host else ""
    return ClusterUnreachable(
        f"the cluster's API server{at} does not answer ({where}): {text}", host=host, retry_after_seconds=None
    )


def refusal(
    status: int, body: JsonObject, verb: str, resource: str, response: Any
) -> ClusterUnreachable | ClusterRefused:
    """Return the error for an answer with a status from 400 on."""
    message = str(body.get("message") or f"HTTP status {status}")
    if status == 429 or status >= 500:
        after = response.getheader("Retry-After") or ""
        return ClusterUnreachable(
            f"the cluster's API server asks to come back later ({verb} {resource}): {message}",
            status=status,
            retry_after_seconds=float(after) if after.isdigit() else None,
        )
    facts = {
        "status": status,
        "reason": str(body.get("reason") or ""),
        "details": body.get("details") or {},
        "verb": verb,
        "resource": resource,
        "said": message,
    }
    if status == 401:
        words = "does not accept this process's credentials; they may have expired"
        return ClusterRefused(f"the cluster {words} ({verb} {resource}): {message}", **facts)
    kind = ClusterForbidden if status == 403 else ClusterRefused
    return kind(f"the cluster refused to {verb} {resource}: {message}", **facts)
