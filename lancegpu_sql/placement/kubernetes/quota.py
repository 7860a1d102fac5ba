"""Quotas that keep a pod back: ResourceQuotas, which leave none to watch, and Kueue's queues, which gate it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.quantities import words
from lancegpu_sql.placement.kubernetes.queue_views import (
    KUEUE_GATE_PREFIX,
    ClusterQueueView,
    LocalQueueView,
    WorkloadView,
)
from lancegpu_sql.placement.kubernetes.views import PodView, QuotaView
from lancegpu_sql.placement.kubernetes.wording import listed

_COUNTED = ("pods", "count/pods")


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


def quota_verdict(case: Case) -> Verdict:
    """Say which quota keeps a pod from being made."""
    if not case.can_read("resourcequotas"):
        message = f"a quota of namespace {case.pod.namespace!r} is taken to refuse the worker's pod for now"
        return Verdict("quota", message, None, ("resourcequotas",))
    found = shortages(case.pod, case.cluster.quotas)
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


def gate_verdict(case: Case) -> Verdict:
    """Say what holds a pod's scheduling gates."""
    foreign = [gate for gate in case.pod.gates if not gate.startswith(KUEUE_GATE_PREFIX)]
    if foreign:
        message = f"the worker's pod is held by the scheduling gate {listed(foreign)}; whoever set it has to remove it"
        return Verdict("quota", message)
    lacks = case.unreadable("workloads", "localqueues", "clusterqueues")
    if "workloads" in lacks:
        return Verdict("quota", "Kueue has not admitted the worker's pod yet", None, lacks)
    workload = _workload_of(case)
    if workload is None:
        message = "Kueue has made no Workload for the worker's pod yet; if this lasts, check that its controller runs"
        return Verdict("quota", message, None, lacks)
    return _workload_verdict(case, workload, lacks)


def _workload_verdict(case: Case, workload: WorkloadView, lacks: tuple[str, ...]) -> Verdict:
    queue = f"queue {workload.queue!r}"
    if not workload.active:
        return Verdict("quota", f"Kueue has deactivated the workload {workload.name}; set its spec.active again", False)
    local = next(
        (one for one in case.cluster.local_queues if (one.namespace, one.name) == (workload.namespace, workload.queue)),
        None,
    )
    if local is None and "localqueues" not in lacks:
        where = f"namespace {workload.namespace!r} has no Kueue {queue}"
        return Verdict("quota", f"{where}; make that LocalQueue, or correct the class's queue", False, lacks)
    cluster_queue = _cluster_queue_of(case, local)
    if local is not None and cluster_queue is None and "clusterqueues" not in lacks:
        where = f"Kueue's {queue} feeds the ClusterQueue {local.cluster_queue!r}, which is not there"
        return Verdict("quota", f"{where}; make it, or correct the LocalQueue", False, lacks)
    if (local is not None and local.stopped) or (cluster_queue is not None and cluster_queue.stopped):
        return Verdict(
            "quota", f"Kueue's {queue} is stopped (stopPolicy); the worker waits until it is opened", None, lacks
        )
    if cluster_queue is not None and cluster_queue.inactive:
        message = f"Kueue's {queue} is not active ({cluster_queue.inactive}); put its ClusterQueue {cluster_queue.name!r} right"
        return Verdict("quota", message, False, lacks)
    if cluster_queue is not None and (over := _over_the_most(case.pod, cluster_queue)):
        most = "; ".join(
            f"{words(name, case.pod.requests[name])}, and at most {words(name, over[name])}" for name in over
        )
        message = f"one worker needs {most} can be had in Kueue's {queue}; ask for less, or raise its quota"
        return Verdict("quota", message, False, lacks)
    return _reserved_verdict(workload, queue, cluster_queue is not None, lacks)


def _reserved_verdict(workload: WorkloadView, queue: str, queue_is_known: bool, lacks: tuple[str, ...]) -> Verdict:
    """Say what Kueue's own condition says, where the queues themselves show nothing wrong."""
    reserved = workload.conditions.get("QuotaReserved")
    if reserved is not None and reserved.status == "True":
        message = f"Kueue has reserved quota in {queue}, and waits for its admission checks to let the worker start"
        return Verdict("quota", message, None, lacks)
    match reserved.reason if reserved is not None else "":
        case "Inadmissible":
            message = f"Kueue's {queue} cannot admit the worker as things are; look at its Workload {workload.name}"
            return Verdict("quota", message, None if lacks else False, lacks)
        case "ExceedsMaxQuota":
            message = f"one worker needs more than Kueue's {queue} can ever give; ask for less, or raise its quota"
            return Verdict("quota", message, False, lacks)
        case "NoMatchingFlavor":
            message = (
                f"no flavor of Kueue's {queue} suits the worker's node selector and tolerations; correct the class"
            )
            return Verdict("quota", message, False, lacks)
        case "TopologyPlacementFailed":
            message = (
                f"Kueue finds no place for the worker in the topology of {queue}; look at its Workload {workload.name}"
            )
            return Verdict("quota", message, None, lacks)
    message = f"Kueue's {queue} has no quota left for the worker; it starts as soon as others of the queue end"
    return Verdict("quota", message, True if queue_is_known else None, lacks)


def _workload_of(case: Case) -> WorkloadView | None:
    pod = case.pod
    return next((one for one in case.cluster.workloads if pod.uid and pod.uid in one.owner_uids), None)


def _cluster_queue_of(case: Case, local: LocalQueueView | None) -> ClusterQueueView | None:
    if local is None:
        return None
    return next((one for one in case.cluster.cluster_queues if one.name == local.cluster_queue), None)


def _over_the_most(pod: PodView, queue: ClusterQueueView) -> dict[str, int]:
    return {
        name: most
        for name, most in queue.most.items()
        if most is not None and name != "pods" and pod.requests.get(name, 0) > most
    }
