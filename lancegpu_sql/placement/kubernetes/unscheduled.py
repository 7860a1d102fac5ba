"""Why no node takes a pod: one sentence for each obstacle, the one first that is soonest gone or most easily removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.claims import claim_verdict
from lancegpu_sql.placement.kubernetes.holders import holders_words
from lancegpu_sql.placement.kubernetes.pool import NodeFinding, Obstacle, is_being_removed
from lancegpu_sql.placement.kubernetes.quantities import resource_noun, whole, words
from lancegpu_sql.placement.kubernetes.scaling import Scaling, scaling_of
from lancegpu_sql.placement.kubernetes.views import Condition
from lancegpu_sql.placement.kubernetes.wording import count, listed, quoted

_SOON = timedelta(seconds=30)
"""The scheduler's longest back-off, 10 s by default, and time for its binding."""
_LONG_UNSEEN = timedelta(seconds=60)

STATE_WORDS: Mapping[Obstacle, str] = {
    Obstacle.NONE: "with room",
    Obstacle.STARTING: "starting",
    Obstacle.OTHER_RESOURCE: "short of other resources",
    Obstacle.IN_USE: "in use",
    Obstacle.CLAIM: "without a device for the claim",
    Obstacle.DEVICE_FAILED: "with failed devices",
    Obstacle.CORDONED: "cordoned",
    Obstacle.NOT_READY: "not ready",
    Obstacle.TAINT: "tainted",
    Obstacle.NOT_ADVERTISED: "without the resource",
    Obstacle.TOO_LARGE: "too small",
}


def unscheduled_verdict(case: Case) -> Verdict:
    """Say why a pod without gates and without a node has none."""
    scheduled = case.pod.conditions.get("PodScheduled")
    nominated = _nominated(case)
    if nominated is not None:
        return nominated
    if scheduled is None:
        return _unseen(case)
    if not case.can_read("nodes"):
        return Verdict(
            "in_use",
            f"no node of {case.pool_words} has room for the worker now, as far as can be told without seeing the nodes; "
            f"the scheduler says {quoted(scheduled.message)}",
            None,
            case.unreadable("nodes", "pods"),
        )
    groups = case.pool.groups
    if not groups:
        return _no_matching_node(case)
    main = next(iter(groups))
    if main is Obstacle.NONE:
        return _has_room(case, groups[main], scheduled)
    verdict = claim_verdict(case) if main is Obstacle.CLAIM else _SENTENCES[main](case, groups[main])
    return _with_the_rest(case, verdict, groups, main)


def _nominated(case: Case) -> Verdict | None:
    """Say what a node is being made ready for the pod by: a preemption, or an autoscaler that has named it ahead."""
    name = case.pod.nominated_node
    if not name:
        return None
    if not case.can_read("pods") or any(pod.delete_by is not None for pod in case.cluster.use_of(name).pods):
        making = f"room is being made on node {name}, where pods of lower priority are being ended"
        return Verdict("in_use", f"{making}; the worker starts as soon as they are gone", True)
    if case.can_read("nodes") and case.cluster.node(name) is None:
        return Verdict(
            "node_starting", f"node {name} is being made for the worker, which starts as soon as it is up", True
        )
    return None


def _unseen(case: Case) -> Verdict:
    age = case.now - case.pod.created_at if case.pod.created_at is not None else timedelta()
    if age < _LONG_UNSEEN:
        return Verdict("starting", "the worker's pod was made; the scheduler has yet to look at it", True)
    name = case.pod.scheduler or "default-scheduler"
    return Verdict(
        "starting", f"no scheduler has looked at the worker's pod for over a minute; check that {name!r} runs", None
    )


def _no_matching_node(case: Case) -> Verdict:
    wanted = ", ".join(f"{key}={value}" for key, value in sorted(case.pod.node_selector.items()))
    selector = f"carries {wanted}, the node selector of" if wanted else "has the labels that are asked for by"
    if not case.cluster.nodes:
        selector = "is there at all, so none for"
    nobody = f"no node {selector} {case.pool_words}{_what_nodes_carry(case)}"
    match scaling_of(case):
        case Scaling.ADDING:
            return Verdict("no_matching_node", f"{nobody}; the autoscaler is adding one", True)
        case Scaling.REFUSED:
            advice = "the autoscaler adds none for this pod: look at its event, and at the limits of the node pool"
            return Verdict("no_matching_node", f"{nobody}; {advice}", None)
        case Scaling.SILENT:
            advice = "if the pool is scaled to zero, its autoscaler has not said yet that it adds one"
            return Verdict("no_matching_node", f"{nobody}; {advice}", None, case.unreadable("events"))
        case Scaling.ABSENT:
            advice = "label the pool's nodes, correct the class, or add nodes: no autoscaler shows itself that would"
            return Verdict("no_matching_node", f"{nobody}; {advice}", False)


def _what_nodes_carry(case: Case) -> str:
    near = sorted(
        {
            f"{key}={node.labels[key]}"
            for node in case.cluster.nodes
            for key, value in case.pod.node_selector.items()
            if node.labels.get(key, value) != value
        }
    )
    return f" (there are nodes with {listed(near)})" if near else ""


def _has_room(case: Case, found: Sequence[NodeFinding], scheduled: Condition) -> Verdict:
    names = listed([finding.node.name for finding in found])
    if not case.can_read("pods"):
        return Verdict(
            "in_use",
            f"no node of {case.pool_words} has room now: what can be seen of {names} would leave some, so pods of other "
            "namespaces take it",
            True,
            ("pods",),
        )
    changed = scheduled.changed_at or case.pod.created_at
    claims = _volume_claims(case)
    if changed is None or case.now - changed < _SOON:
        # A volume claim may be what keeps it; that shows when the scheduler has had its time.
        met = None if claims else True
        return Verdict("starting", f"there is room on {names}; the scheduler is about to place the worker's pod", met)
    what = "volumes, pod affinity or a delay of its own"
    if claims:
        what = f"check that the class's volume claims are there and bound: {listed(claims)}"
    return Verdict(
        "other_resource",
        f"{names} would have room by what is requested there, but the scheduler does not place the pod ({what}); it says "
        f"{quoted(scheduled.message)}",
        None,
    )


def _volume_claims(case: Case) -> list[str]:
    volumes = () if case.gpu_class is None else case.gpu_class.volumes
    sources = (one.source.get("persistentVolumeClaim") for one in volumes)
    return [str(one.get("claimName")) for one in sources if isinstance(one, dict)]


def _starting(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    names = listed([finding.node.name for finding in found])
    lacks = " and its devices are still being installed" if all(one.lacking for one in found) else ""
    verb = "is" if len(found) == 1 else "are"
    nodes = "node" if len(found) == 1 else "nodes"
    return Verdict(
        "node_starting",
        f"{nodes} {names} of {case.pool_words} {verb} new{lacks}; the worker starts as soon as it is ready",
        True,
    )


def _other_resource(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    lacking = Counter(resource for finding in found for resource in finding.lacking)
    what = " and ".join(words(name, case.pod.requests[name]) for name, _ in lacking.most_common(3))
    where = listed([finding.node.name for finding in found])
    if case.resource is None:
        head = f"no node of {case.pool_words} has {what} free ({where})"
    else:
        free = sum(whole(finding.free) for finding in found)
        noun = count(free, resource_noun(case.resource))
        head = f"{noun} of {case.pool_words} {'is' if free == 1 else 'are'} free on {where}, but not the {what} that a worker needs beside"
    advice = "end or move pods that take them there, or let the class ask for less"
    return Verdict("other_resource", f"{head}; {advice}", True, case.unreadable("pods"))


def _in_use(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    noun = resource_noun(str(case.resource))
    total, need = sum(whole(finding.total) for finding in found), whole(case.need)
    free, failed = sum(whole(finding.free) for finding in found), sum(whole(finding.failed) for finding in found)
    lacks = case.unreadable("pods") if free else ()
    nodes = f"node {found[0].node.name}" if len(found) == 1 else f"the {len(found)} nodes"
    who = holders_words(case.pool.holders[Obstacle.IN_USE], noun, mine=case.job, unseen=bool(lacks))
    broken = f", and {count(failed, noun)} more {'is' if failed == 1 else 'are'} reported unhealthy" if failed else ""
    if free:
        head = f"{free} of {count(total, noun)} of {nodes} of {case.pool_words} {'is' if free == 1 else 'are'} free"
        tail = f"but one worker needs {need}{' on one node' if len(found) > 1 else ''}"
        return Verdict("in_use", f"{head}, {tail}; in use {who}{broken}", True, lacks)
    subject = f"the only {noun}" if total == 1 else f"all {total} {noun}s"
    head = f"{subject} of {nodes} of {case.pool_words} {'is' if total == 1 else 'are'} in use {who}{broken}"
    needs = "one is free" if need == 1 else f"{need} of one node are free"
    return Verdict("in_use", f"{head}; the worker starts as soon as {needs}", True)


def _device_failed(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    noun = resource_noun(str(case.resource))
    failed = sum(whole(finding.failed) for finding in found)
    names = [finding.node.name for finding in found]
    nodes = f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({listed(names)})"
    return Verdict(
        "device_failed",
        f"{count(failed, noun)} of {nodes} of {case.pool_words} {'is' if failed == 1 else 'are'} reported unhealthy, and "
        "too few are left for a worker; look at the device plugin's log there, then reset or replace them",
    )


def _cordoned(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    names = [finding.node.name for finding in found]
    nodes = f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({listed(names)})"
    verb = "is" if len(names) == 1 else "are"
    if all(finding.node.being_deleted or is_being_removed(finding) for finding in found):
        advice = "the worker starts on another once the pool has one"
        return Verdict("cordoned", f"{nodes} of {case.pool_words} {verb} being taken out of the cluster; {advice}")
    return Verdict(
        "cordoned",
        f"{nodes} of {case.pool_words} {verb} cordoned and {'takes' if len(names) == 1 else 'take'} no new pods; "
        f"when the work there is done: kubectl uncordon {' '.join(names[:3])}",
    )


def _not_ready(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    names = [finding.node.name for finding in found]
    silent = [finding.node.name for finding in found if finding.node.ready == "Unknown"]
    pressed = sorted({taint.key.rpartition("/")[2] for finding in found for taint in finding.taints})
    why = "; its kubelet has fallen silent" if silent and len(names) == 1 else ""
    if silent and len(names) > 1:
        why = f"; the kubelet of {listed(silent)} has fallen silent"
    if not silent and pressed:
        why = f" ({', '.join(pressed)})"
    nodes, verb = (f"node {names[0]}", "is") if len(names) == 1 else (f"{len(names)} nodes ({listed(names)})", "are")
    return Verdict(
        "not_ready",
        f"{nodes} of {case.pool_words} {verb} not ready{why}; kubectl describe node says more: repair it, or replace it",
    )


def _tainted(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    taints = sorted({str(taint) for finding in found for taint in finding.taints})
    nodes = f"node {found[0].node.name}" if len(found) == 1 else f"{len(found)} nodes"
    has = "has" if len(found) == 1 else "have"
    noun = "the taint" if len(taints) == 1 else "taints"
    return Verdict(
        "untolerated_taint",
        f"{nodes} of {case.pool_words} {has} {noun} {listed(taints)}, which the class does not tolerate; add to its "
        "tolerations, or remove the taint from the nodes",
        False,
    )


def _not_advertised(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    missing = sorted({resource for finding in found for resource in finding.lacking})
    nodes = f"node {found[0].node.name}" if len(found) == 1 else f"{len(found)} nodes"
    verb = "offers" if len(found) == 1 else "offer"
    return Verdict(
        "resource_not_advertised",
        f"{nodes} of {case.pool_words} {verb} no {listed(missing)}: check that the device plugin runs there, and that the "
        "class's resource_name is what it offers",
        None,
        case.unreadable("deviceclasses", "resourceslices"),
    )


def _too_large(case: Case, found: Sequence[NodeFinding]) -> Verdict:
    lacking = Counter(resource for finding in found for resource in finding.lacking)
    parts = []
    for name, _ in lacking.most_common(3):
        most = max(_offered(case, finding, name) for finding in found)
        parts.append(f"{words(name, case.pod.requests[name])} (the largest has {words(name, most)})")
    grows = scaling_of(case) is Scaling.ADDING
    advice = "the autoscaler is adding a node" if grows else "ask for less (gpus, or the class's cpu and memory_bytes)"
    return Verdict(
        "too_large", f"no node of {case.pool_words} has {', nor '.join(parts)}; {advice} or add larger nodes", grows
    )


def _offered(case: Case, finding: NodeFinding, resource: str) -> int:
    if resource == case.resource:
        return finding.total + finding.failed
    fixed = case.cluster.use_of(finding.node.name).fixed.get(resource, 0)
    return max(finding.node.allocatable.get(resource, 0) - fixed, 0)


_SENTENCES: Mapping[Obstacle, Callable[[Case, Sequence[NodeFinding]], Verdict]] = {
    Obstacle.STARTING: _starting,
    Obstacle.OTHER_RESOURCE: _other_resource,
    Obstacle.IN_USE: _in_use,
    Obstacle.DEVICE_FAILED: _device_failed,
    Obstacle.CORDONED: _cordoned,
    Obstacle.NOT_READY: _not_ready,
    Obstacle.TAINT: _tainted,
    Obstacle.NOT_ADVERTISED: _not_advertised,
    Obstacle.TOO_LARGE: _too_large,
}


def _with_the_rest(
    case: Case, verdict: Verdict, groups: Mapping[Obstacle, Sequence[NodeFinding]], main: Obstacle
) -> Verdict:
    rest = {obstacle: len(found) for obstacle, found in groups.items() if obstacle is not main}
    message = verdict.message
    if rest and main is not Obstacle.CLAIM:
        message += f"; {_rest_words(rest)}"
    if main is not Obstacle.TOO_LARGE and scaling_of(case) is Scaling.ADDING:
        return Verdict(verdict.reason, f"{message}; the autoscaler is adding a node", True, verdict.lacks)
    return Verdict(verdict.reason, message, verdict.can_be_met, verdict.lacks)


def _rest_words(rest: Mapping[Obstacle, int]) -> str:
    total = count(sum(rest.values()), "further node")
    if len(rest) == 1:
        (obstacle,) = rest
        return f"{total} {'is' if rest[obstacle] == 1 else 'are'} {STATE_WORDS[obstacle]}"
    return f"{total}: " + ", ".join(f"{number} {STATE_WORDS[obstacle]}" for obstacle, number in sorted(rest.items()))
