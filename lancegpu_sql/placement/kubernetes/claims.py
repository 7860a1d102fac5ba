"""Why a pod's resource claim has no device (Dynamic Resource Allocation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.device_selectors import meets
from lancegpu_sql.placement.kubernetes.device_views import (
    ClaimRequest,
    ClaimView,
    DeviceClassView,
    PublishedDevice,
    is_of,
)
from lancegpu_sql.placement.kubernetes.holders import Holders, holders_of, holders_words
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
    claims = [claim for claim in case.cluster.claims_of(case.pod) if not claim.allocated]
    if not claims:
        return Verdict("claim", "the worker's claims have their devices, but no node can use them all", None, lacks)
    first = claims[0]
    verdicts = [_request_verdict(case, first, request, lacks) for request in first.requests]
    # Alternatives of one request come in the order of preference: what may be met soonest is what one waits for.
    order = {True: 0, None: 1, False: 2}
    fallback = Verdict("claim", f"claim {first.name} of the worker's pod asks for no device", None, lacks)
    return min(verdicts, key=lambda verdict: order[verdict.can_be_met], default=fallback)


@dataclass(frozen=True)
class _Devices:
    """What the pool has for a request: devices of its class, those that its selectors choose, and of these the ones on
    nodes that the worker may use: the healthy ones, and those of them that nobody holds.

    `understood` tells whether all selectors are, for those.
    """

    of_class: int
    suited: list[PublishedDevice]
    healthy: list[PublishedDevice]
    free: list[PublishedDevice]
    holders: Holders
    understood: bool

    @cached_property
    def most(self) -> tuple[int, int, int, int]:
        """The most that one node has of them: chosen, and healthy, and where the worker may be, and free."""
        sound = (one for one in self.suited if not one.taints)
        return (
            most_on_one_node(self.suited),
            most_on_one_node(sound),
            most_on_one_node(self.healthy),
            most_on_one_node(self.free),
        )


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
    devices = _devices(case, request, device_class)
    if not devices.of_class:
        message = f"no node of {case.pool_words} publishes devices of {whose}; check that its DRA driver runs there"
        return Verdict("claim", message, None, lacks)
    if not devices.suited:
        message = (
            f"{case.pool_words} has {count(devices.of_class, 'device')} of {whose}, but none is as the claim's selectors "
            f"ask{_selectors(request)}; correct the class's device_claim"
        )
        return Verdict("claim", message, False, lacks)
    return _suited_verdict(case, request, devices, f"{asked} wants {count(want, 'device')}", whose, lacks)


def _devices(case: Case, request: ClaimRequest, device_class: DeviceClassView | None) -> _Devices:
    """Look at the pool's devices, once for all requests that are alike."""
    key = ("devices", id(case.pool), request.device_class, request.selectors)
    found: _Devices | None = case.cluster.remembered.get(key)
    if found is None:
        devices = devices_of_pool(case, device_class)
        suited = [one for one in devices if meets(one.facts, request.selectors) is not False]
        open_nodes = {finding.node.name for finding in case.pool.groups.get(Obstacle.CLAIM, ())} | {""}
        healthy = [one for one in suited if one.node in open_nodes and not one.taints]
        held_by = case.cluster.device_holders
        free = [one for one in healthy if one.key not in held_by]
        holders = holders_of((pod, THOUSANDTHS) for one in healthy for pod in held_by.get(one.key, ()))
        understood = all(meets(one.facts, request.selectors) for one in free)
        found = _Devices(len(devices), suited, healthy, free, holders, understood)
        case.cluster.remembered[key] = found
    return found


def _suited_verdict(
    case: Case, request: ClaimRequest, devices: _Devices, asked: str, whose: str, lacks: tuple[str, ...]
) -> Verdict:
    """Say what keeps devices back that are as the claim asks: faults, others, or what is not known here."""
    want = request.count or 1
    suited, sound, within_reach, free = devices.most
    if suited < want:
        where = " on one node" if len({one.node for one in devices.suited}) > 1 else ""
        has = f"the pool has {suited} of {whose}{_as_asked(request)}"
        return Verdict("claim", f"{asked}{where}, and {has}; ask for fewer", False, lacks)
    if sound < want:
        return Verdict("device_failed", _tainted(devices.suited, whose), None, lacks)
    if within_reach < want:
        message = f"the devices of {whose}{_as_asked(request)} are on nodes that the worker may not use as they are"
        return Verdict("claim", message, None, lacks)
    if free < want:
        return Verdict("claim", _in_use(case, request, devices, whose), True, lacks)
    number = len(devices.free)
    message = f"{asked}; {number} of {whose} {'is' if number == 1 else 'are'} free"
    if devices.understood:
        what = "it" if number == 1 else "them"
        return Verdict("claim", f"{message}, and the scheduler has yet to allocate {what}", None, lacks)
    advice = "correct them, or wait for others to be freed"
    message += f", but perhaps not as the claim's selectors ask{_selectors(request)}; {advice}"
    return Verdict("claim", message, None, lacks)


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


def _in_use(case: Case, request: ClaimRequest, devices: _Devices, whose: str) -> str:
    who = holders_words(devices.holders, "device", mine=case.job, unseen=not case.can_read("pods"))
    total, free = len(devices.healthy), len(devices.free)
    which = "the only device" if total == 1 else f"{'all ' if not free else f'{total - free} of '}{total} devices"
    needs = "one is free" if (request.count or 1) == 1 else f"{request.count} of one node are free"
    message = f"{which} of {whose}{_as_asked(request)} {'is' if total == 1 else 'are'} allocated {who}"
    return f"{message}; the worker starts as soon as {needs}"


def _as_asked(request: ClaimRequest) -> str:
    return " that the claim's selectors choose" if request.selectors else ""


def _selectors(request: ClaimRequest) -> str:
    return f" ({' and '.join(request.selectors)[:200]})" if request.selectors else ""
