"""ResourceQuotas, which keep a pod from being made and leave none to watch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS, words
from lancegpu_sql.placement.kubernetes.views import PodView, QuotaView

_COUNTED = ("pods", "count/pods")

BESIDE_PODS = ("secrets", "configmaps", "resourceclaimtemplates")
"""What is made beside a worker's pod, and counted by quotas of objects."""


@dataclass(frozen=True)
class Shortage:
    """One resource that a quota does not leave for a pod; amounts in thousandths."""

    quota: str
    resource: str
    need: int
    used: int
    hard: int

    @property
    def can_be_met(self) -> bool:
        """Whether it would fit if nobody else used the quota."""
        return self.need <= self.hard


def shortages(pod: PodView, quotas: Iterable[QuotaView]) -> tuple[Shortage, ...]:
    """Return what quotas do not leave for a pod. Those with scopes are taken to hold for it."""
    found = []
    for quota in quotas:
        for key, hard in quota.hard.items():
            resource = "pods" if key in _COUNTED else key.removeprefix("requests.").removeprefix("limits.")
            need, used = pod.requests.get(resource, 0), quota.used.get(key, 0)
            if need > 0 and used + need > hard:
                found.append(Shortage(quota.name, resource, need, used, hard))
    return tuple(found)


def object_shortages(resource: str, quotas: Iterable[QuotaView]) -> tuple[Shortage, ...]:
    """Return which quotas do not leave room for one more object of a kind."""
    found = []
    for quota in quotas:
        for key, hard in quota.hard.items():
            counted = key.removeprefix("count/").partition(".")[0]
            used = quota.used.get(key, 0)
            if counted == resource and (key == resource or key.startswith("count/")) and used + THOUSANDTHS > hard:
                found.append(Shortage(quota.name, resource, THOUSANDTHS, used, hard))
    return tuple(found)


def quota_verdict(case: Case) -> Verdict:
    """Say which quota keeps a pod from being made."""
    if not case.can_read("resourcequotas"):
        message = f"a quota of namespace {case.pod.namespace!r} is taken to refuse the worker's pod for now"
        return Verdict("quota", message, None, ("resourcequotas",))
    quotas = case.cluster.quotas
    found = shortages(case.pod, quotas)
    if not found:
        found = tuple(one for resource in BESIDE_PODS for one in object_shortages(resource, quotas))
    if not found:
        return Verdict(
            "quota",
            "the API server refused the worker's pod, though what its quotas show would leave room; it is asked again",
            None,
        )
    never = [one for one in found if not one.can_be_met]
    worst = (never or list(found))[0]
    name = f"quota {worst.quota!r} of namespace {case.pod.namespace!r}"
    if never:
        allows = f"allows {words(worst.resource, worst.hard)} in all, and one worker needs {words(worst.resource, worst.need)}"
        return Verdict("quota", f"{name} {allows}; raise the quota, or ask for less", False)
    left = words(worst.resource, max(worst.hard - worst.used, 0))
    return Verdict(
        "quota",
        f"{name} is used up: {words(worst.resource, worst.used)} of {words(worst.resource, worst.hard)}, {left} left, and "
        f"one worker needs {words(worst.resource, worst.need)}; it starts as soon as others end, or the quota is raised",
        True,
    )
