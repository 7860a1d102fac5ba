"""How requests stand, in words and in numbers: those of other processes, as far as their pods tell, and those held back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.fairness import MOST_NAMED, Held, Stage, Standing
from lancegpu_sql.placement.kubernetes.household import PLACEMENT_LABEL
from lancegpu_sql.placement.kubernetes.marks import ASKED_LABEL, IDLE_LABEL
from lancegpu_sql.placement.kubernetes.names import CLASS_LABEL, JOB_LABEL, label_value
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS
from lancegpu_sql.placement.kubernetes.ticket import ROOM_REASONS, KubernetesTicket
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.request import Waiting


def scheduler_spoke(view: PodView) -> bool:
    """Tell whether a pod without a node is known to have none."""
    condition = view.conditions.get("PodScheduled")
    return bool(view.gates) or (condition is not None and condition.status == "False")


def standings_elsewhere(pods: Iterable[PodView], tickets: Iterable[KubernetesTicket], placement: str) -> list[Standing]:
    """Return how the requests of other placements of this database stand, for the classes that are asked for here."""
    classes = {
        label_value(gpu_class.name): gpu_class
        for ticket in tickets
        if (gpu_class := ticket.request.gpu_class) is not None
    }
    found = []
    for view in pods:
        gpu_class = classes.get(view.labels.get(CLASS_LABEL, ""))
        mine = view.labels.get(PLACEMENT_LABEL) == placement
        if gpu_class is not None and not mine and not view.ended:
            found.append(_standing_of(view, gpu_class))
    return found


def why_held(
    ticket: KubernetesTicket, held: Held, tickets: Mapping[str, KubernetesTicket], elsewhere: Iterable[Standing] = ()
) -> Waiting:
    """Say why a request has no pod yet."""
    gpu_class = ticket.request.gpu_class
    assert gpu_class is not None
    others = {one.id: _other_owner(one) for one in elsewhere if one.gpu_class == gpu_class.name}
    named = others | {one: found.owner for one, found in tickets.items()}
    older = [named[one] for one in held.older if one in named]
    queue = queue_words(held.older_count)
    if held.by_limit:
        number = gpu_class.max_workers or 0
        owners = {one.owner for one in tickets.values() if of_same_class(one, ticket) and one.stage is not Stage.HELD}
        owners |= set(others.values())
        message = (
            f"GPU class {gpu_class.name!r} allows {number} worker{'' if number == 1 else 's'} at a time, in use by "
            f"{', '.join(sorted(owners)) or 'nobody'}; the worker starts as soon as one ends{queue}"
        )
        return Waiting("max_workers", message, {"older_requests": older}, can_be_met=True)
    message = (
        f"an older request for GPU class {gpu_class.name!r} needs more GPUs at once ({', '.join(older)}); this one is "
        f"asked for as soon as that one has its room{queue}"
    )
    return Waiting("older_request", message, {"older_requests": older}, can_be_met=True)


class Queues:
    """The order of requests that have no node, in each class."""

    def __init__(self, waiting: Iterable[KubernetesTicket]) -> None:
        self._before: dict[str, tuple[str, int]] = {}
        self._owners: dict[str, list[str]] = defaultdict(list)
        for standing, owner in sorted(((one.standing(), one.owner) for one in waiting), key=lambda one: one[0].age):
            if standing.gpu_class:
                owners = self._owners[standing.gpu_class]
                self._before[standing.id] = standing.gpu_class, len(owners)
                owners.append(owner)

    def told(self, ticket: KubernetesTicket, found: Waiting) -> Waiting:
        """Return why a request waits, with those that are served before it."""
        gpu_class, older = self._before.get(ticket.request.request_id, ("", 0))
        if found.reason not in ROOM_REASONS or not older:
            return found
        detail = {**found.detail, "older_requests": self._owners[gpu_class][: min(older, MOST_NAMED)]}
        return replace(found, message=f"{found.message}{queue_words(older)}", detail=detail)


def queue_words(older: int) -> str:
    """Say how many older requests are served first."""
    return f"; {older} older request{'' if older == 1 else 's'} before it" if older else ""


def of_same_class(one: KubernetesTicket, other: KubernetesTicket) -> bool:
    """Tell whether two requests are for one GPU class."""
    return (
        one.request.gpu_class is not None
        and other.request.gpu_class is not None
        and one.request.gpu_class.name == other.request.gpu_class.name
    )


def _other_owner(standing: Standing) -> str:
    return f"job {standing.job_id} of another process" if standing.job_id else "another process"


def _asked_at(view: PodView) -> float:
    try:
        return float(view.labels[ASKED_LABEL])
    except (KeyError, ValueError):
        return view.created_at.timestamp() if view.created_at else 0.0


def _standing_of(view: PodView, gpu_class: GpuClass) -> Standing:
    stage = Stage.LEAVING if view.delete_by else Stage.PLACED if view.node else Stage.PLACING
    if stage is Stage.PLACING and scheduler_spoke(view):
        stage = Stage.WAITING
    amount = view.requests.get(gpu_class.resource_name, 0)
    return Standing(
        id=view.uid,
        job_id=view.labels.get(JOB_LABEL, ""),
        gpu_class=gpu_class.name,
        gpus=amount // THOUSANDTHS or 1,
        asked_at=_asked_at(view),
        stage=stage,
        shape=f"another process's: {view.uid}",
        idle=view.labels.get(IDLE_LABEL) == "true",
        max_workers=gpu_class.max_workers,
    )
