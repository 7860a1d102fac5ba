"""What keeps a pod back that Kueue has to admit: a queue that is not right, quota that is in use, or too little of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.fit import tolerates
from lancegpu_sql.placement.kubernetes.holders import Holders, holders_of, holders_words
from lancegpu_sql.placement.kubernetes.names import QUEUE_LABEL
from lancegpu_sql.placement.kubernetes.quantities import amount_text, resource_noun, words
from lancegpu_sql.placement.kubernetes.queue_views import (
    KUEUE_GATE_PREFIX,
    ClusterQueueView,
    FlavorQuota,
    FlavorView,
    LocalQueueView,
    WorkloadView,
)
from lancegpu_sql.placement.kubernetes.wording import listed, quoted

_READ = ("workloads", "localqueues", "clusterqueues", "resourceflavors")
_BYTES = ("memory", "ephemeral-storage")


def gate_verdict(case: Case) -> Verdict:
    """Say what holds a pod's scheduling gates."""
    foreign = [gate for gate in case.pod.gates if not gate.startswith(KUEUE_GATE_PREFIX)]
    if foreign:
        message = f"the worker's pod is held by the scheduling gate {listed(foreign)}; whoever set it has to remove it"
        return Verdict("quota", message)
    lacks = case.unreadable(*_READ)
    workload = workload_of(case)
    if workload is not None and not workload.active:
        return Verdict("quota", f"Kueue has deactivated the workload {workload.name}; set its spec.active again", False)
    trouble = queue_trouble(case)
    if trouble is not None:
        return trouble
    if "workloads" in lacks:
        return Verdict("quota", "Kueue has not admitted the worker's pod yet", None, lacks)
    if workload is None:
        message = "Kueue has made no Workload for the worker's pod yet; if this lasts, check that its controller runs"
        return Verdict("quota", message, None, lacks)
    return _reserved_verdict(case, workload, lacks)


def queue_trouble(case: Case) -> Verdict | None:
    """Say what of the pod's queue no waiting puts right; None where others only have to end, or nothing can be told."""
    lacks = case.unreadable(*_READ)
    name = queue_of(case)
    local, queue = _local_queue_of(case), cluster_queue_of(case)
    if local is None:
        if not name or "localqueues" in lacks:
            return None
        message = f"namespace {case.pod.namespace!r} has no LocalQueue {name!r}, by which Kueue would admit the worker"
        return Verdict(
            "quota", f"{message}; make it, or correct the queue of the class or of the refresh", False, lacks
        )
    if queue is None and "clusterqueues" not in lacks:
        message = f"Kueue's queue {name!r} feeds the ClusterQueue {local.cluster_queue!r}, which is not there"
        return Verdict("quota", f"{message}; make it, or correct the LocalQueue", False, lacks)
    if local.stopped or (queue is not None and queue.stopped):
        message = f"Kueue's queue {name!r} is stopped (stopPolicy); the worker waits until it is opened"
        return Verdict("quota", message, None, lacks)
    if queue is None:
        return None
    if queue.inactive:
        message = f"Kueue's queue {name!r} is not active ({queue.inactive}); put its ClusterQueue {queue.name!r} right"
        return Verdict("quota", message, False, lacks)
    return _never(case, name, queue, lacks)


def queue_evidence(case: Case) -> dict[str, Any] | None:
    """Return the pod's queue with its quota and what of it is reserved, as JSON; None where it has none."""
    name, queue = queue_of(case), cluster_queue_of(case)
    if not name:
        return None
    quota = [
        {
            "flavor": one.flavor,
            "resource": resource,
            "quota": amount_text(resource, nominal),
            "reserved": amount_text(resource, one.reserved.get(resource, 0)),
        }
        for group in (queue.groups if queue is not None else ())
        for one in group
        for resource, nominal in one.nominal.items()
        if _asked(case).get(resource, 0)
    ]
    return {"name": name, "cluster_queue": queue.name if queue is not None else None, "quota": quota}


def queue_of(case: Case) -> str:
    """Return the name of the LocalQueue that a pod stands in; empty where it stands in none."""
    workload = workload_of(case)
    return workload.queue if workload is not None else case.pod.labels.get(QUEUE_LABEL, "")


def workload_of(case: Case) -> WorkloadView | None:
    """Return what Kueue knows of the pod."""
    return case.cluster.workloads_by_owner.get(case.pod.uid)


def cluster_queue_of(case: Case) -> ClusterQueueView | None:
    """Return the ClusterQueue that the pod's queue feeds, if it can be seen."""
    local = _local_queue_of(case)
    name = "" if local is None else local.cluster_queue
    return next((one for one in case.cluster.cluster_queues if one.name == name), None)


def _local_queue_of(case: Case) -> LocalQueueView | None:
    wanted = (case.pod.namespace, queue_of(case))
    return next((one for one in case.cluster.local_queues if (one.namespace, one.name) == wanted), None)


def _never(case: Case, name: str, queue: ClusterQueueView, lacks: tuple[str, ...]) -> Verdict | None:
    """Say that no flavor suits the pod, or that none may ever have as much as it needs."""
    for group in queue.groups:
        needs = _needs(case, group)
        suitable = [one for one in group if _suits(case, one, group)]
        if needs and not suitable:
            message = f"no flavor of Kueue's queue {name!r} suits the worker's node selector and tolerations"
            return Verdict("quota", f"{message}; correct the class", False, lacks)
        over = [
            {
                resource: most
                for resource, need in needs.items()
                if (most := one.most.get(resource, 0)) is not None and need > most
            }
            for one in suitable
        ]
        if over and all(over):
            least = min(over, key=len)
            parts = [f"{words(one, needs[one])}, and at most {words(one, most)}" for one, most in least.items()]
            message = f"one worker needs {'; '.join(parts)} can be had in Kueue's queue {name!r}"
            return Verdict("quota", f"{message}; ask for less, or raise its quota", False, lacks)
    return None


def _reserved_verdict(case: Case, workload: WorkloadView, lacks: tuple[str, ...]) -> Verdict:
    """Say what is in use, and what Kueue's own condition says where the queues themselves show nothing."""
    queue, reserved = f"queue {workload.queue!r}", workload.conditions.get("QuotaReserved")
    if reserved is not None and reserved.status == "True":
        message = f"Kueue has reserved quota in {queue}, and waits for its admission checks to let the worker start"
        return Verdict("quota", message, None, lacks)
    said = f"; it says {quoted(reserved.message)}" if reserved is not None and reserved.message else ""
    match reserved.reason if reserved is not None else "":
        case "Inadmissible":
            message = (
                f"Kueue's {queue} cannot admit the worker as things are: look at its Workload {workload.name}{said}"
            )
            return Verdict("quota", message, None if lacks else False, lacks)
        case "ExceedsMaxQuota":
            message = f"one worker needs more than Kueue's {queue} can ever give; ask for less, or raise its quota"
            return Verdict("quota", message, False, lacks)
        case "NoMatchingFlavor":
            message = f"no flavor of Kueue's {queue} suits the worker's node selector and tolerations"
            return Verdict("quota", f"{message}; correct the class", False, lacks)
        case "TopologyPlacementFailed":
            message = (
                f"Kueue finds no place for the worker in the topology of {queue}: look at its Workload {workload.name}"
            )
            return Verdict("quota", f"{message}{said}", None, lacks)
    found = cluster_queue_of(case)
    if found is None:
        message = f"Kueue's {queue} has no quota left for the worker; it starts as soon as others of the queue end"
        return Verdict("quota", message, None, lacks)
    return _full(case, workload.queue, found, lacks)


def _full(case: Case, name: str, queue: ClusterQueueView, lacks: tuple[str, ...]) -> Verdict:
    """Say which quota is in use, and by whom; or that the queue has none of something."""
    ends = "it starts as soon as others of the queue end"
    for group in queue.groups:
        needs = _needs(case, group)
        short = [(one, _lacking(one, needs)) for one in group if _suits(case, one, group)]
        if short and all(lacking and one.reserved.get(lacking[0]) for one, lacking in short):
            quota, lacking = min(short, key=lambda one: len(one[1]))
            resource = lacking[0]
            has, held = quota.nominal.get(resource, 0), quota.reserved.get(resource, 0)
            head = f"Kueue's queue {name!r} has not enough quota left for the worker, which needs {words(resource, needs[resource])}"
            used = f"{amount_text(resource, held)} of {words(resource, has)} of the ClusterQueue {queue.name!r}"
            flavor = f" in flavor {quota.flavor}" if len(group) > 1 else ""
            are = "is" if held == has == 1000 else "are"
            who = _who(case, queue, resource, held)
            return Verdict("quota", f"{head}: {used}{flavor} {are} in use{who}; {ends}", True, lacks)
    covered = {resource for group in queue.groups for one in group for resource in one.nominal}
    beyond = [one for one, need in _asked(case).items() if need and one not in covered and one != "pods"]
    if beyond and queue.groups:
        message = f"Kueue's queue {name!r} has no quota at all of {listed(beyond)}, which the worker needs"
        return Verdict("quota", f"{message}; add it to the ClusterQueue {queue.name!r}, or ask for none", False, lacks)
    return Verdict("quota", f"Kueue's queue {name!r} has no quota left for the worker; {ends}", True, lacks)


def _who(case: Case, queue: ClusterQueueView, resource: str, held: int) -> str:
    """Return who has a queue's quota, as far as their workloads and pods can be seen."""
    if resource in _BYTES:
        return ""
    key = ("quota", queue.name, resource)
    if key not in case.cluster.remembered:
        case.cluster.remembered[key] = _holders(case, queue, resource)
    holders, seen = case.cluster.remembered[key]
    others = "by workloads that cannot be seen from here"
    if not seen:
        return f" {others}" if held else ""
    return f" {holders_words(holders, resource_noun(resource), mine=case.job)}" + (f", {others}" if seen < held else "")


def _holders(case: Case, queue: ClusterQueueView, resource: str) -> tuple[Holders, int]:
    """Return who has how much of a queue's quota, and how much that is in all."""
    pods = case.cluster.pods_by_uid
    holding = [one for one in case.cluster.workloads if one.reserved_in == queue.name]
    seen = [(pods[uid], one) for one in holding for uid in one.owner_uids if uid in pods]
    amounts = [(pod, one.requests.get(resource, pod.requests.get(resource, 0))) for pod, one in seen]
    return holders_of((pod, amount) for pod, amount in amounts if amount), sum(amount for _, amount in amounts)


def _needs(case: Case, group: tuple[FlavorQuota, ...]) -> dict[str, int]:
    covered = {resource for one in group for resource in one.nominal}
    return {one: need for one, need in _asked(case).items() if need and one in covered and one != "pods"}


def _asked(case: Case) -> Mapping[str, int]:
    """Return what a pod asks of the quota: as Kueue has it, else what it requests."""
    workload = workload_of(case)
    return workload.requests if workload is not None and workload.requests else case.pod.requests


def _lacking(quota: FlavorQuota, needs: Mapping[str, int]) -> list[str]:
    """Return what a flavor has not left of its own quota, devices first."""
    left = {one: quota.nominal.get(one, 0) - quota.reserved.get(one, 0) for one in needs}
    return sorted((one for one, need in needs.items() if need > left[one]), key=lambda one: "/" not in one)


def _suits(case: Case, quota: FlavorQuota, group: tuple[FlavorQuota, ...]) -> bool:
    """Tell whether a pod may be on the nodes of a flavor; of its selector only what tells flavors apart counts."""
    flavors = {one.name: one for one in case.cluster.flavors}
    flavor = flavors.get(quota.flavor, FlavorView(quota.flavor))
    telling = {key for one in group for key in flavors.get(one.flavor, FlavorView("")).node_labels}
    selector = {key: value for key, value in case.pod.node_selector.items() if key in telling}
    if any(flavor.node_labels.get(key) != value for key, value in selector.items()):
        return False
    barring = [one for one in flavor.taints if one.effect in ("NoSchedule", "NoExecute")]
    return all(any(tolerates(toleration, taint) for toleration in case.pod.tolerations) for taint in barring)
