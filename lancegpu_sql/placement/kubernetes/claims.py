"""Why a pod's resource claim has no device (Dynamic Resource Allocation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.device_selectors import meets
from lancegpu_sql.placement.kubernetes.device_views import (
    ClaimRequest,
    ClaimView,
    DeviceClassView,
    PublishedDevice,
    is_of,
)
from lancegpu_sql.placement.kubernetes.holders import holders_of, holders_words
from lancegpu_sql.placement.kubernetes.pool import Obstacle
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS
from lancegpu_sql.placement.kubernetes.wording import count, listed


def claim_verdict(case: Case) -> Verdict:
    """Say what of the pod's claims could not be allocated; the nodes themselves have nothing against it."""
    lacks = case.unreadable("resourceclaims", "resourceslices", "deviceclasses")
    if "resourceclaims" in lacks:
        return Verdict("claim", f"no device of {case.pool_words} could be allocated to the worker's claim", None, lacks)
    missing = [claim.template or claim.name for claim in case.pod.claims if claim.claim_name is None]
    if missing:
        return Verdict(
            "claim",
            f"the resource claim of the worker's pod has not been made from the template {listed(missing)}; check that "
            "the template is there and what the pod's events say",
            None,
            lacks,
        )
    claims = [claim for claim in _claims_of(case) if not claim.allocated]
    if not claims:
        return Verdict("claim", "the worker's claims have their devices, but no node can use them all", None, lacks)
    first = claims[0]
    verdicts = [_request_verdict(case, first, request, lacks) for request in first.requests]
    # Alternatives of one request come in the order of preference: what may be met soonest is what one waits for.
    order = {True: 0, None: 1, False: 2}
    fallback = Verdict("claim", f"claim {first.name} of the worker's pod asks for no device", None, lacks)
    return min(verdicts, key=lambda verdict: order[verdict.can_be_met], default=fallback)


def _claims_of(case: Case) -> list[ClaimView]:
    names = {claim.claim_name for claim in case.pod.claims}
    return [one for one in case.cluster.claims if one.namespace == case.pod.namespace and one.name in names]


def _request_verdict(case: Case, claim: ClaimView, request: ClaimRequest, lacks: tuple[str, ...]) -> Verdict:
    asked = f"request {request.name!r} of claim {claim.name}"
    known = {one.name: one for one in case.cluster.device_classes}
    device_class = known.get(request.device_class)
    if device_class is None and "deviceclasses" not in lacks:
        message = (
            f"{asked} names the DeviceClass {request.device_class!r}, which is not there; make it, or correct the class"
        )
        return Verdict("claim", message, False, lacks)
    want = request.count or 1
    if "resourceslices" in lacks:
        message = (
            f"{asked} wants {count(want, 'device')} of class {request.device_class!r}, and none could be allocated"
        )
        return Verdict("claim", message, None, lacks)
    driver = device_class.driver if device_class is not None else None
    whose = f"driver {driver}" if driver else f"class {request.device_class!r}"
    devices = devices_of_pool(case, device_class)
    if not devices:
        message = f"no node of {case.pool_words} publishes devices of {whose}; check that its DRA driver runs there"
        return Verdict("claim", message, None, lacks)
    suited = [one for one in devices if meets(one.facts, request.selectors) is not False]
    if not suited:
        message = (
            f"{case.pool_words} has {count(len(devices), 'device')} of {whose}, but none is as the claim's selectors ask"
            f"{_selectors(request)}; correct the class's device_claim"
        )
        return Verdict("claim", message, False, lacks)
    return _suited_verdict(case, request, suited, f"{asked} wants {count(want, 'device')}", whose, lacks)


def _suited_verdict(
    case: Case, request: ClaimRequest, suited: list[PublishedDevice], asked: str, whose: str, lacks: tuple[str, ...]
) -> Verdict:
    """Say what keeps devices back that are as the claim asks: faults, others, or what is not known here."""
    want = request.count or 1
    if most_on_one_node(suited) < want:
        where = " on one node" if len({one.node for one in suited}) > 1 else ""
        has = f"the pool has {most_on_one_node(suited)} of {whose}{_as_asked(request)}"
        return Verdict("claim", f"{asked}{where}, and {has}; ask for fewer", False, lacks)
    if most_on_one_node(_healthy(suited)) < want:
        return Verdict("device_failed", _tainted(suited, whose), None, lacks)
    open_nodes = {finding.node.name for finding in case.pool.groups.get(Obstacle.CLAIM, ())} | {""}
    healthy = _healthy(one for one in suited if one.node in open_nodes)
    if most_on_one_node(healthy) < want:
        message = f"the devices of {whose}{_as_asked(request)} are on nodes that the worker may not use as they are"
        return Verdict("claim", message, None, lacks)
    free = [one for one in healthy if one.key not in case.cluster.device_holders]
    if most_on_one_node(free) < want:
        return Verdict("claim", _in_use(case, request, healthy, free, whose), True, lacks)
    message = f"{asked}; {len(free)} of {whose} {'is' if len(free) == 1 else 'are'} free"
    if all(meets(one.facts, request.selectors) for one in free):
        what = "it" if len(free) == 1 else "them"
        return Verdict("claim", f"{message}, and the scheduler has yet to allocate {what}", None, lacks)
    advice = "correct them, or wait for others to be freed"
    message += f", but perhaps not as the claim's selectors ask{_selectors(request)}; {advice}"
    return Verdict("claim", message, None, lacks)


def _healthy(devices: Iterable[PublishedDevice]) -> list[PublishedDevice]:
    return [one for one in devices if not one.taints]


def devices_of_pool(case: Case, device_class: DeviceClassView | None) -> list[PublishedDevice]:
    """Return the devices of a class on the pool's nodes, and those that are tied to no node."""
    pool = {finding.node.name for finding in case.pool.findings} | {""}
    there = (one for one in case.cluster.devices if one.node in pool)
    return [one for one in there if device_class is None or is_of(one, device_class)]


def most_on_one_node(devices: Iterable[PublishedDevice]) -> int:
    """Return how many devices one node can give; those that are tied to none count for each."""
    nodes = Counter(one.node for one in devices)
    anywhere = nodes.pop("", 0)
    return max(nodes.values(), default=0) + anywhere


def _tainted(suited: list[PublishedDevice], whose: str) -> str:
    taints = sorted({str(taint) for device in suited for taint in device.taints})
    broken = sum(1 for device in suited if device.taints)
    are = "is" if broken == 1 else "are"
    message = (
        f"{count(broken, 'device')} of {whose} {are} tainted ({listed(taints)}), and too few are left for a worker"
    )
    return f"{message}; repair them, or remove the taints"


def _in_use(
    case: Case, request: ClaimRequest, healthy: list[PublishedDevice], free: list[PublishedDevice], whose: str
) -> str:
    held_by = ((pod, THOUSANDTHS) for one in healthy for pod in case.cluster.device_holders.get(one.key, ()))
    who = holders_words(holders_of(held_by), "device", mine=case.job, unseen=not case.can_read("pods"))
    held = len(healthy) - len(free)
    which = "the only device" if len(healthy) == 1 else f"{'all ' if not free else f'{held} of '}{len(healthy)} devices"
    needs = "one is free" if (request.count or 1) == 1 else f"{request.count} of one node are free"
    are = "is" if len(healthy) == 1 else "are"
    message = f"{which} of {whose}{_as_asked(request)} {are} allocated {who}"
    return f"{message}; the worker starts as soon as {needs}"


def _as_asked(request: ClaimRequest) -> str:
    return " that the claim's selectors choose" if request.selectors else ""


def _selectors(request: ClaimRequest) -> str:
    return f" ({' and '.join(request.selectors)[:200]})" if request.selectors else ""
