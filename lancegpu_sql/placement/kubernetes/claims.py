"""Why a pod's resource claim has no device (Dynamic Resource Allocation)."""

from __future__ import annotations

from lancegpu_sql.placement.kubernetes.case import Case, Verdict
from lancegpu_sql.placement.kubernetes.device_views import ClaimRequest, ClaimView, PublishedDevice
from lancegpu_sql.placement.kubernetes.holders import holders_of, holders_words
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
    if request.device_class not in known and "deviceclasses" not in lacks:
        message = (
            f"{asked} names the DeviceClass {request.device_class!r}, which is not there; make it, or correct the class"
        )
        return Verdict("claim", message, False, lacks)
    driver = known[request.device_class].driver if request.device_class in known else None
    devices = _devices(case, driver)
    want = request.count or 1
    if "resourceslices" in lacks:
        message = (
            f"{asked} wants {count(want, 'device')} of class {request.device_class!r}, and none could be allocated"
        )
        return Verdict("claim", message, None, lacks)
    whose = f"driver {driver}" if driver else f"class {request.device_class!r}"
    if not devices:
        message = f"no node of {case.pool_words} publishes devices of {whose}; check that its DRA driver runs there"
        return Verdict("claim", message, None, lacks)
    healthy = [device for device in devices if not device.taints]
    free = [device for device in healthy if device.key not in case.cluster.device_holders]
    if len(healthy) < want <= len(devices):
        taints = sorted({str(taint) for device in devices for taint in device.taints})
        broken = len(devices) - len(healthy)
        are = "is" if broken == 1 else "are"
        message = (
            f"{count(broken, 'device')} of {whose} {are} tainted ({listed(taints)}), and too few are left for a worker"
        )
        return Verdict("device_failed", f"{message}; repair them, or remove the taints", None, lacks)
    if len(healthy) < want:
        message = f"{asked} wants {count(want, 'device')}, and the pool has {len(healthy)} of {whose}; ask for fewer"
        return Verdict("claim", message, False, lacks)
    if len(free) < want:
        held_by = ((pod, THOUSANDTHS) for one in healthy for pod in case.cluster.device_holders.get(one.key, ()))
        who = holders_words(holders_of(held_by), "device", mine=case.job, unseen=not case.can_read("pods"))
        held = len(healthy) - len(free)
        all_of = (
            "the only device" if len(healthy) == 1 else f"{'all ' if not free else f'{held} of '}{len(healthy)} devices"
        )
        needs = "one is free" if want == 1 else f"{want} of one node are free"
        message = f"{all_of} of {whose} {'is' if len(healthy) == 1 else 'are'} allocated {who}"
        return Verdict("claim", f"{message}; the worker starts as soon as {needs}", True, lacks)
    selectors = f" ({' and '.join(request.selectors)[:200]})" if request.selectors else ""
    message = (
        f"{asked} wants {count(want, 'device')}; {len(free)} of {whose} {'is' if len(free) == 1 else 'are'} free, but not as its selectors and "
        f"constraints ask{selectors}, or not on one node"
    )
    return Verdict("claim", f"{message}; correct them, or wait for others to be freed", None, lacks)


def _devices(case: Case, driver: str | None) -> list[PublishedDevice]:
    pool = {finding.node.name for finding in case.pool.findings}
    return [
        device
        for device in case.cluster.devices
        if (device.node == "" or device.node in pool) and driver in (None, device.driver)
    ]
