"""What the thinking reads of pods, nodes, events and quotas: frozen values made of an API server's JSON.

Amounts of resources are in thousandths, as `quantities.parse_quantity` gives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from lancegpu_sql.placement.kubernetes.fields import entries, mapping, moment, number, text, texts
from lancegpu_sql.placement.kubernetes.names import MANAGER
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS, parse_quantity
from lancegpu_sql.placement.pod_fields import MANAGED_BY


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object. `status` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node or of a device."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class PodToleration:
    """One toleration as a pod carries it, those included that the API server added."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container: where it is, and how its last run ended.

    `state` is ``waiting``, ``running``, ``terminated`` or, before the kubelet has said a word, None; `reason`, `message`,
    `exit_code` and `signal` are those of the state. `unhealthy_devices` are the resources of which one failed.
    """

    name: str
    image: str
    state: Literal["waiting", "running", "terminated"] | None
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    ready: bool = False
    init: bool = False
    unhealthy_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One resource claim of a pod: `claim_name` is None until it has been made from its template."""

    name: str
    claim_name: str | None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod, or a manifest that the API server refused: such a one has no `uid`.

    `delete_by` is when it should be gone: set once somebody asked for its end. `required_terms` are the node selector
    terms of its required node affinity, None where it has none.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    delete_by: datetime | None = None
    owner_kind: str = ""
    node: str = ""
    nominated_node: str = ""
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_terms: tuple[Mapping[str, Any], ...] | None = None
    tolerations: tuple[PodToleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    claims: tuple[PodClaim, ...] = ()
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    containers: tuple[ContainerView, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it holds nothing of its node any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ours(self) -> bool:
        """Whether it is a worker of this program, of any database."""
        return self.labels.get(MANAGED_BY) == MANAGER

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it serves."""
        return "Ready" in self.conditions and self.conditions["Ready"].status == "True"


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    being_deleted: bool = False
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def ready(self) -> Literal["True", "False", "Unknown"]:
        """What its kubelet says of it; ``Unknown`` where it has fallen silent or never spoken."""
        status = self.conditions["Ready"].status if "Ready" in self.conditions else ""
        return "True" if status == "True" else "False" if status == "False" else "Unknown"


@dataclass(frozen=True, slots=True)
class EventView:
    """One event; `kind` and `name` tell whom it is about, `source` who says it."""

    kind: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    source: str
    at: datetime | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class QuotaView:
    """One ResourceQuota. `scoped` ones hold for some pods only."""

    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    scoped: bool = False


def pod_view(obj: object) -> PodView:
    """Read a pod, or a pod's manifest."""
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    controllers = [one for one in entries(metadata.get("ownerReferences")) if one.get("controller") is True]
    affinity = mapping(spec, "affinity", "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    return PodView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        uid=text(metadata.get("uid")),
        labels=texts(metadata.get("labels")),
        created_at=moment(metadata.get("creationTimestamp")),
        delete_by=moment(metadata.get("deletionTimestamp")),
        owner_kind=text(controllers[0].get("kind")) if controllers else "",
        node=text(spec.get("nodeName")),
        nominated_node=text(status.get("nominatedNodeName")),
        gates=tuple(text(gate.get("name")) for gate in entries(spec.get("schedulingGates"))),
        scheduler=text(spec.get("schedulerName")),
        node_selector=texts(spec.get("nodeSelector")),
        required_terms=tuple(entries(affinity.get("nodeSelectorTerms"))) if isinstance(affinity, Mapping) else None,
        tolerations=tuple(_toleration(one) for one in entries(spec.get("tolerations"))),
        requests=pod_requests(spec),
        claims=_claims(spec, status),
        phase=text(status.get("phase")),
        reason=text(status.get("reason")),
        message=text(status.get("message")),
        pod_ip=text(status.get("podIP")),
        conditions=conditions_of(status),
        containers=(
            *(_container(one, init=True) for one in entries(status.get("initContainerStatuses"))),
            *(_container(one, init=False) for one in entries(status.get("containerStatuses"))),
        ),
    )


def node_view(obj: object) -> NodeView:
    """Read a node."""
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    taints = [
        Taint(text(one.get("key")), text(one.get("value")), text(one.get("effect")))
        for one in entries(spec.get("taints"))
    ]
    return NodeView(
        name=text(metadata.get("name")),
        labels=texts(metadata.get("labels")),
        created_at=moment(metadata.get("creationTimestamp")),
        being_deleted=metadata.get("deletionTimestamp") is not None,
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(taints),
        capacity=amounts(status.get("capacity")),
        allocatable=amounts(status.get("allocatable")),
        conditions=conditions_of(status),
    )


def event_view(obj: object) -> EventView:
    """Read an event, of the core group or of events.k8s.io."""
    event = mapping(obj)
    about = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
    times = (mapping(event, "series").get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return EventView(
        kind=text(about.get("kind")),
        name=text(about.get("name")),
        uid=text(about.get("uid")),
        type=text(event.get("type")),
        reason=text(event.get("reason")),
        message=text(event.get("message")) or text(event.get("note")),
        source=(
            text(event.get("reportingComponent"))
            or text(event.get("reportingController"))
            or text(mapping(event, "source").get("component"))
        ),
        at=next((read for read in map(moment, times) if read is not None), None),
        namespace=text(about.get("namespace")),
    )


def quota_view(obj: object) -> QuotaView:
    """Read a ResourceQuota."""
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    return QuotaView(
        name=text(mapping(obj, "metadata").get("name")),
        hard=amounts(status.get("hard")) or amounts(spec.get("hard")),
        used=amounts(status.get("used")),
        scoped=bool(spec.get("scopes") or spec.get("scopeSelector")),
    )


def amounts(value: object) -> dict[str, int]:
    """Read a mapping of quantities; what is no quantity is left out."""
    read = {str(name): parse_quantity(one) for name, one in mapping(value).items()}
    return {name: amount for name, amount in read.items() if amount is not None}


def pod_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return what the scheduler takes a pod to need.

    Containers and side-cars (init containers that restart) add up, other init containers run one at a time beside the
    side-cars that stand before them; overhead comes on top. Limits stand in for requests that a manifest leaves out.
    """
    together: Counter[str] = Counter()
    for container in entries(spec.get("containers")):
        together.update(_needs(container))
    highest: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    for container in entries(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            sidecars.update(_needs(container))
            highest |= sidecars
        else:
            highest |= sidecars + Counter(_needs(container))
    needs = (together + sidecars) | highest
    needs.update(amounts(spec.get("overhead")))
    whole_pod = _needs(spec)
    return {**needs, **whole_pod, "pods": THOUSANDTHS}


def _needs(holder: Mapping[str, Any]) -> dict[str, int]:
    resources = mapping(holder, "resources")
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _toleration(one: Mapping[str, Any]) -> PodToleration:
    return PodToleration(
        key=text(one.get("key")),
        operator=text(one.get("operator")) or "Equal",
        value=text(one.get("value")),
        effect=text(one.get("effect")),
    )


def _claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    made = {
        text(one.get("name")): text(one.get("resourceClaimName"))
        for one in entries(status.get("resourceClaimStatuses"))
    }
    claims = [
        PodClaim(
            name=text(one.get("name")),
            claim_name=text(one.get("resourceClaimName")) or made.get(text(one.get("name"))) or None,
            template=text(one.get("resourceClaimTemplateName")) or None,
        )
        for one in entries(spec.get("resourceClaims"))
    ]
    return tuple(claims)


def conditions_of(status: Mapping[str, Any]) -> dict[str, Condition]:
    """Read the conditions of an object's status, by their types."""
    return {
        text(one.get("type")): Condition(
            type=text(one.get("type")),
            status=text(one.get("status")),
            reason=text(one.get("reason")),
            message=text(one.get("message")),
            changed_at=moment(one.get("lastTransitionTime")),
        )
        for one in entries(status.get("conditions"))
    }


def _container(one: Mapping[str, Any], *, init: bool) -> ContainerView:
    state: Literal["waiting", "running", "terminated"] | None = None
    facts: Mapping[str, Any] = {}
    for known in ("terminated", "running", "waiting"):
        if isinstance(mapping(one, "state").get(known), Mapping):
            state, facts = known, mapping(one, "state", known)
            break
    return ContainerView(
        name=text(one.get("name")),
        image=text(one.get("image")),
        state=state,
        reason=text(facts.get("reason")),
        message=text(facts.get("message")),
        exit_code=number(facts.get("exitCode")),
        signal=number(facts.get("signal")) or None,
        ready=one.get("ready") is True,
        init=init,
        unhealthy_devices=tuple(
            text(resource.get("name"))
            for resource in entries(one.get("allocatedResourcesStatus"))
            if any(device.get("health") == "Unhealthy" for device in entries(resource.get("resources")))
        ),
    )
