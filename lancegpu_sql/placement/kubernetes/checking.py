"""What a cluster has for each GPU class, found out without using a GPU: one look at the nodes, and a pod that is only tried."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lancegpu_sql.catalog.models import utc_now
from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, InvalidPlacement, PlacementError
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.case import Case
from lancegpu_sql.placement.kubernetes.claims import devices_of_pool, most_on_one_node
from lancegpu_sql.placement.kubernetes.client import ClusterClient
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.device_selectors import meets
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.manifest import claim_template, worker_pod
from lancegpu_sql.placement.kubernetes.names import worker_name
from lancegpu_sql.placement.kubernetes.pulling import Stock, check_image, stock_of
from lancegpu_sql.placement.kubernetes.quantities import resource_noun, whole
from lancegpu_sql.placement.kubernetes.queue_views import KUEUE_GATE_PREFIX
from lancegpu_sql.placement.kubernetes.queues import queue_of, queue_trouble
from lancegpu_sql.placement.kubernetes.refusal import explain, is_for_lack_of_quota
from lancegpu_sql.placement.kubernetes.sight import look_once
from lancegpu_sql.placement.kubernetes.views import PodView, pod_view
from lancegpu_sql.placement.kubernetes.wording import count
from lancegpu_sql.placement.pod_fields import DeviceAlternative, DeviceClaim
from lancegpu_sql.placement.request import WorkerRequest

# As the scheduler leaves a pod for which it finds no node: what would keep it from each is then said.
_UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}

# Whose pod it is that is only tried.
_CHECK = "check"


@dataclass(frozen=True)
class ClassCheck:
    """What a cluster has for one GPU class.

    Parameters
    ----------
    gpu_class
        Its name.
    usable
        Whether a worker with one GPU would start now or when others end; None where that cannot be told.
    admitted
        Whether the API server would take a worker's pod; None where none could be made of the class.
    nodes, devices
        How many nodes carry what the class selects, and the devices they offer in all; None where that cannot be seen.
    image, image_pullable, image_words
        What the worker would run, and what is known of that without pulling it: True where all nodes have it, False where a
        pod cannot have it now.
    reason, message
        What to know: why it is not usable, or what a worker would find.
    """

    gpu_class: str
    usable: bool | None
    admitted: bool | None
    nodes: int | None
    devices: int | None
    image: str | None
    reason: str
    message: str
    image_pullable: bool | None = None
    image_words: str = ""


def check_classes(
    config: KubernetesConfig, gpu_classes: Iterable[GpuClass], cluster: Cluster | None = None
) -> list[ClassCheck]:
    """Check classes against a cluster; nothing is made there.

    Raises
    ------
    ClusterUnreachable, ClusterRefused, InvalidPlacement
        The cluster does not answer, or not to us.
    """
    asked = cluster or ClusterClient(config)
    classes = tuple(gpu_classes)
    seen = look_once(asked, queues=any(one.queue for one in classes))
    stock = stock_of(asked)
    return [_with_image(asked, seen, stock, _check(asked, seen, config, one), one) for one in classes]


def _check(cluster: Cluster, seen: ClusterView, config: KubernetesConfig, gpu_class: GpuClass) -> ClassCheck:
    request = _request(gpu_class)
    try:
        pod = worker_pod(request, config, name=worker_name(request), secret_name=_CHECK, owner=None, database=_CHECK)
    except InvalidPlacement as exc:
        return ClassCheck(gpu_class.name, False, None, None, None, None, "image", exc.message)
    now = utc_now()
    case = Case(_waiting(pod, now), seen, gpu_class, request, now)
    trial = _tried(cluster, gpu_class, pod)
    if trial.problem is not None:
        return _result(case, pod, False, "refused", trial.problem.message, admitted=False)
    queue = queue_trouble(case) if trial.taken is not None else None
    if queue is not None:
        return _result(case, pod, queue.can_be_met, queue.reason, queue.words)
    found = diagnose(case.pod if trial.taken else pod_view(pod), seen, gpu_class, request, now)
    usable = found.can_be_met if case.can_read("nodes") else None
    match found.reason:
        case "starting":
            return _result(case, pod, usable, "ready", _room(case) + _queue(case, trial.taken))
        case "claim":
            return _claim(case, pod)
        case reason:
            return _result(case, pod, usable, reason, found.message, admitted=trial.taken is not None)


def _with_image(
    cluster: Cluster, seen: ClusterView, stock: Stock | None, found: ClassCheck, gpu_class: GpuClass
) -> ClassCheck:
    """Add what is known of the image, on the nodes that carry what the class selects."""
    if found.image is None:
        return found
    pool = [node.name for node in seen.nodes if gpu_class.node_selector.items() <= node.labels.items()]
    image = check_image(cluster, seen, stock, gpu_class, found.image, pool)
    usable = False if image.pullable is False else found.usable
    return replace(found, usable=usable, image_pullable=image.pullable, image_words=image.words)


@dataclass(frozen=True)
class _Trial:
    """What a dry run gave: the pod as it would be, or what is wrong; neither where a quota is full."""

    taken: PodView | None = None
    problem: PlacementError | None = None


def _tried(cluster: Cluster, gpu_class: GpuClass, pod: Mapping[str, Any]) -> _Trial:
    template = claim_template(gpu_class, 1, owner=None, database=_CHECK)
    try:
        if template is not None:
            cluster.create(str(template["kind"]), template, dry_run=True)
        return _Trial(pod_view(cluster.create("Pod", pod, dry_run=True)))
    except ClusterForbidden as exc:
        if is_for_lack_of_quota(cluster, pod, exc):
            return _Trial()
        return _Trial(problem=explain(cluster, pod, exc))
    except ClusterRefused as exc:
        if exc.facts["status"] == 401:
            raise
        problem = InvalidPlacement(f"the cluster rejects the worker's pod: {exc.facts['said']}", **exc.facts)
        return _Trial(problem=problem)


def _queue(case: Case, taken: PodView | None) -> str:
    """Say what comes of the class's queue."""
    name = queue_of(case)
    if not name or taken is None:
        return ""
    if any(gate.startswith(KUEUE_GATE_PREFIX) for gate in taken.gates):
        return f"; Kueue's queue {name!r} admits it first"
    return f"; nothing holds it for the queue {name!r}: no Kueue that takes up pods of this namespace runs here"


def _room(case: Case) -> str:
    noun = resource_noun(str(case.resource)) if case.resource is not None else "device"
    free = sum(whole(finding.free) for finding in case.findings)
    return f"a worker would start now: {count(free, noun)} {'is' if free == 1 else 'are'} free"


def _claim(case: Case, pod: Mapping[str, Any]) -> ClassCheck:
    """Tell what can be told of devices that no claim has asked for yet, of alternatives by the one that is nearest."""
    assert case.gpu_class is not None
    claim = case.gpu_class.device_claim
    assert claim is not None
    found = [_choice(case, pod, one) for one in claim.first_available or (claim,)]
    order = {True: 0, None: 1, False: 2}
    return min(found, key=lambda one: order[one.usable])


def _choice(case: Case, pod: Mapping[str, Any], asked: DeviceAlternative | DeviceClaim) -> ClassCheck:
    name, want = str(asked.device_class), asked.count
    device_class = next((one for one in case.cluster.device_classes if one.name == name), None)
    if device_class is None and case.can_read("deviceclasses"):
        message = f"the cluster has no DeviceClass {name}: make it, or correct the class"
        return _result(case, pod, False, "claim", message)
    if not case.can_read("resourceslices"):
        return _result(case, pod, None, "claim", "the devices of its nodes cannot be seen from here")
    devices = devices_of_pool(case, device_class)
    suited = [one for one in devices if meets(one.facts, asked.selectors) is not False]
    surely = all(meets(one.facts, asked.selectors) for one in suited)
    here = f"{count(len(devices), 'device')} of class {name}"
    if not devices:
        message = (
            f"no node of {case.pool_words} publishes a device of class {name}: check that its DRA driver runs there"
        )
        return _result(case, pod, False, "claim", message, devices=0)
    if most_on_one_node(suited) < want:
        has = f"{most_on_one_node(suited)} on one node" if suited else "none"
        message = f"its nodes publish {here}, {has} as its selectors ask, and a worker needs {want}"
        return _result(case, pod, False, "claim", message, devices=len(suited))
    if not surely:
        message = f"its nodes publish {here}; whether the class's selectors choose any of them is not tried"
        return _result(case, pod, None, "claim", message, devices=len(suited))
    free = [one for one in suited if one.key not in case.cluster.device_holders and not one.taints]
    if most_on_one_node(free) < want:
        message = f"{len(suited) - len(free)} of {count(len(suited), 'device')} as it asks are allocated or tainted now"
        return _result(case, pod, True, "claim", message, devices=len(suited))
    are = "is" if len(free) == 1 else "are"
    message = f"a worker would start now: {count(len(free), 'device')} {are} free"
    return _result(case, pod, True, "ready", message, devices=len(suited))


def _result(
    case: Case,
    pod: Mapping[str, Any],
    usable: bool | None,
    reason: str,
    message: str,
    *,
    admitted: bool = True,
    devices: int | None = None,
) -> ClassCheck:
    assert case.gpu_class is not None
    visible = case.can_read("nodes")
    if visible and case.resource is not None:
        devices = sum(whole(finding.total) for finding in case.findings)
    return ClassCheck(
        gpu_class=case.gpu_class.name,
        usable=usable,
        admitted=admitted,
        nodes=len(case.findings) if visible else None,
        devices=devices,
        image=pod["spec"]["containers"][0]["image"],
        reason=reason,
        message=message,
    )


def _waiting(pod: Mapping[str, Any], now: datetime) -> PodView:
    """Return the pod as if it had been made and found no node."""
    metadata = {**pod["metadata"], "uid": _CHECK, "creationTimestamp": now.isoformat()}
    return pod_view({**pod, "metadata": metadata, "status": {"phase": "Pending", "conditions": [_UNSCHEDULED]}})


def _request(gpu_class: GpuClass) -> WorkerRequest:
    return WorkerRequest(
        request_id=_CHECK,
        job_id=_CHECK,
        owner="lancegpu classes check",
        function=_CHECK,
        version=1,
        gpu_class=gpu_class,
        gpus=1,
        cpus=1,
        env={},
        asked_at=time.time(),
    )
