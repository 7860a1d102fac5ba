"""Turns what happens in the cluster into events of requests, and requests into pods: on one thread, for one placement."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from lancegpu_sql.errors import ClusterForbidden, InvalidPlacement, PlacementError
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.client import Cluster, JsonObject
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.door import NoAnswer, await_door
from lancegpu_sql.placement.kubernetes.fairness import Held, Stage, Standing, held_back, rightful, wanted
from lancegpu_sql.placement.kubernetes.household import BEAT_SECONDS, PLACEMENT_LABEL, Household, placement_selector
from lancegpu_sql.placement.kubernetes.lifecycle import LOADING, Leaving, Running, Unplaced
from lancegpu_sql.placement.kubernetes.loop import Loop
from lancegpu_sql.placement.kubernetes.names import (
    CLASS_LABEL,
    JOB_LABEL,
    OWNER_LABEL,
    database_labels,
    job_labels,
    label_value,
    selector,
)
from lancegpu_sql.placement.kubernetes.quantities import THOUSANDTHS
from lancegpu_sql.placement.kubernetes.sender import Sender
from lancegpu_sql.placement.kubernetes.sight import Sight
from lancegpu_sql.placement.kubernetes.ticket import ROOM_REASONS, KubernetesTicket
from lancegpu_sql.placement.kubernetes.views import PodView, QuotaView, pod_view
from lancegpu_sql.placement.kubernetes.watch import Watch
from lancegpu_sql.placement.request import Lost, Ready, Refused, RequestState, Starting, Waiting

_DOOR_SECONDS = 120.0
"""How long a worker may take from its container's start to answering; it imports Arrow, and no model."""

_DIAGNOSIS_EVERY_SECONDS = 0.2
_SILENT_SCHEDULER_SECONDS = 2.0

_SCHEDULING_SECONDS = 5.0
"""How long the scheduler may take to give away what a worker has freed, before another one is asked to go."""

_LINGER_SECONDS = 30.0
"""How long the cluster is still watched when nothing waits any more."""

_FULL_SECONDS = 30.0
"""How long a class that had no room is not tried for more workers than a job needs."""


class Dispatch:
    """Everything that is going on for one placement.

    What happens, happens on its loop; `release` alone waits for the cluster in the thread that calls it.
    """

    def __init__(self, cluster: Cluster, config: KubernetesConfig, database: str) -> None:
        self.config = config
        self.database = database
        self._cluster = cluster
        self._lock = threading.RLock()
        self._tickets: dict[str, KubernetesTicket] = {}
        self._charges: dict[str, Charge] = {}  # by name
        self._held: dict[str, Held] = {}
        self._beating = False
        self._trouble: PlacementError | None = None
        self._quotas: tuple[QuotaView, ...] = ()
        self._full_until: dict[str, float] = {}
        self._waited_at = 0.0
        self._freed: list[tuple[Standing, float]] = []
        self._image_trouble_since: dict[str, float] = {}
        self._closed = False
        self._process_id = os.getpid()
        self.authority = Authority()
        self.household = Household(cluster, database)
        self.sender = Sender(cluster, self.household, self.authority)
        self.loop = Loop("lancegpu-kubernetes")
        self._sight = Sight(cluster, self._look_soon)
        self._pods: Watch[PodView] = Watch(cluster, "Pod", pod_view, self, labels=selector(database_labels(database)))

    # From any thread.

    def enter(self, ticket: KubernetesTicket) -> None:
        """Take up a request."""
        with self._lock:
            self._tickets[ticket.request.request_id] = ticket
        self.loop.call(self._review)

    def begin_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Tell a request's pod to end; what it holds is about to be free."""
        if self._process_id != os.getpid():
            return  # a process that forked off holds a copy of this, not the worker
        self.loop.call(self._review)
        # Under the lock pods change hands: not any more, once a ticket is closing.
        with self._lock:
            charge = ticket.charge
        if ticket.stage is not Stage.HELD:
            self.sender.begin_end(charge, grace_seconds)

    def finish_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Return when a request's pod is gone."""
        if self._process_id != os.getpid():
            return
        charge = ticket.charge
        if ticket.stage is not Stage.HELD:
            self.sender.finish_end(charge, grace_seconds)
        with self._lock:
            self._tickets.pop(ticket.request.request_id, None)
            self._charges.pop(charge.name, None)
            if ticket.stage is Stage.PLACED and ticket.request.gpu_class is not None:
                self._freed.append((ticket.standing(), time.monotonic() + _SCHEDULING_SECONDS))
        self.loop.call(self._review)
        self.loop.call_in(_SCHEDULING_SECONDS + 0.1, "freed", self._review)

    def relabel(self, ticket: KubernetesTicket) -> None:
        """Say anew for whom a ticket's pod works."""
        self._label(ticket)
        self._look_soon()

    def tickets(self) -> tuple[KubernetesTicket, ...]:
        """All requests that are not over."""
        with self._lock:
            return tuple(self._tickets.values())

    def was_full(self, gpu_class: str) -> bool:
        """Whether a worker of that class waited for room a moment ago."""
        return self._full_until.get(gpu_class, 0.0) > time.monotonic()

    def seen_pods(self) -> tuple[PodView, ...]:
        """All pods of the database, those of other processes too."""
        return self._pods.objects

    def close(self) -> None:
        """Stop; whoever has tickets has released them."""
        with self._lock:
            self._closed = True
        if self._beating:
            with suppress(PlacementError):
                self._cluster.delete_all("Secret", placement_selector(self.database, self.household.placement))
                self.household.leave()
        self.sender.close()
        self._pods.stop()
        self._sight.close()
        self.loop.close()

    # From the watch's thread.

    def changed(self, uid: str, obj: JsonObject | None) -> None:
        """A pod of this database is new, has changed or is gone."""
        view = None if obj is None else pod_view(obj)
        with self._lock:
            charges = self._charges.values()
            charge = (
                next((one for one in charges if one.uid == uid), None) if view is None else self._charges.get(view.name)
            )
        if charge is None:
            return
        if view is None:
            charge.gone.set()  # whoever waits for that must not wait for the loop
        self.loop.call(partial(self._observe, charge, view))

    def listed(self) -> None:
        """All pods have been told once; some may be left from others that died."""
        self.loop.call(self._look_for_leftovers)

    def troubled(self, problem: PlacementError | None) -> None:
        """The cluster cannot be watched at present."""
        with self._lock:
            self._trouble = None if problem is None or problem.retryable else problem
        if self._trouble is not None:
            self.loop.call(self._review)

    # On the loop.

    def _review(self) -> None:
        """Decide who may have a pod, and who must give one up."""
        with self._lock:
            if self._closed:
                return
            tickets = dict(self._tickets)
            forbidden = self._trouble
        if forbidden is not None:
            self._refuse_all(forbidden)
            return
        self._held = dict(held_back(self._standings(tickets)))
        for ticket in sorted(tickets.values(), key=lambda one: one.request.asked_at):
            if ticket.is_over:
                continue
            held = self._held.get(ticket.request.request_id)
            if ticket.stage is Stage.HELD and held is None:
                self._begin(ticket)
            elif held is not None:
                ticket.wait(_why_held(ticket, held, tickets))
        chosen = wanted(self._standings(tickets))
        for name, ticket in tickets.items():
            if ticket.stage is Stage.PLACED and not ticket.is_over:
                ticket.want(name in chosen or ticket.charge.leaving)
        self._mind_the_sight(tickets)

    def _standings(self, tickets: dict[str, KubernetesTicket]) -> list[Standing]:
        with self._lock:
            self._freed = [one for one in self._freed if one[1] > time.monotonic()]
            freed = [standing for standing, _ in self._freed]
        own = [ticket.standing() for ticket in tickets.values() if ticket.request.gpu_class is not None]
        return own + self._standings_elsewhere(tickets) + freed

    def _begin(self, ticket: KubernetesTicket) -> None:
        charge = ticket.charge
        with self._lock:
            if ticket.is_over:
                charge.sent.set()
                return
            ticket.stage = Stage.PLACING
            self._charges[charge.name] = charge
        self.sender.begin(
            charge,
            on_sent=lambda pod: self.loop.call(partial(self._note_sent, charge, pod_view(pod))),
            on_held_up=lambda exc: self.loop.call(partial(self._hold_up, charge, exc)),
            on_refused=lambda exc: self.loop.call(partial(self._refuse, charge, exc)),
        )
        if not self._beating:
            self._beating = True
            self.loop.call_in(BEAT_SECONDS, "beat", self._beat)

    def _note_sent(self, charge: Charge, view: PodView) -> None:
        # The watch may have been faster, and know more than the answer to the call does.
        if charge.view is None:
            self._observe(charge, view)

    def _observe(self, charge: Charge, view: PodView | None) -> None:
        ticket = self._ticket_of(charge)
        if ticket is None or (view is not None and charge.view is not None and charge.uid and view.uid != charge.uid):
            return
        if view is not None:
            charge.view = view
            charge.uid = charge.uid or view.uid
        for event in charge.story.observe(view, now=datetime.now(UTC)):
            match event:
                case Unplaced():
                    self._unplaced(charge, ticket)
                case Starting():
                    ticket = self._placed(charge, ticket)
                    ticket.tell(event)
                case Running(pod_ip):
                    ticket = self._placed(charge, ticket)
                    self._knock(charge, ticket, pod_ip)
                case Leaving():
                    # Who has it should take it no new work; it finishes the call that runs, or hands it back.
                    charge.leaving = True
                    ticket.want(True)
                case Lost():
                    self._lose(charge, ticket, event)
        if charge.story.look_again_at is not None:
            self.loop.call_in(30.0, f"stuck {charge.name}", lambda: self._observe(charge, charge.view))
        if ticket.stage is Stage.PLACING and view is not None and not view.node and _scheduler_spoke(view):
            self._unplaced(charge, ticket)

    def _unplaced(self, charge: Charge, ticket: KubernetesTicket) -> None:
        assert charge.view is not None
        if charge.view.node or _scheduler_spoke(charge.view):
            ticket.stage = Stage.WAITING
            self._look_soon()
            self.loop.call(self._review)
        else:
            self.loop.call_in(_SILENT_SCHEDULER_SECONDS, f"silent {charge.name}", lambda: self._still(charge))

    def _still(self, charge: Charge) -> None:
        ticket = self._ticket_of(charge)
        if ticket is not None and ticket.stage is Stage.PLACING and charge.view is not None and not charge.view.node:
            ticket.stage = Stage.WAITING
            self._look_soon()

    def _placed(self, charge: Charge, ticket: KubernetesTicket) -> KubernetesTicket:
        """Note that a pod got a node, and give it to the request that has waited longest for one like it."""
        if charge.placed:
            ticket.stage = Stage.PLACED
            return ticket
        charge.placed = True
        with self._lock:
            # What had become free may be what it got.
            gpu_class = ticket.standing().gpu_class
            found = next((one for one in self._freed if one[0].gpu_class == gpu_class), None)
            if found is not None:
                self._freed.remove(found)
            standings = [one.standing() for one in self._tickets.values() if not one.is_over]
            heir = self._tickets[rightful(standings, ticket.request.request_id)] if not ticket.is_over else ticket
            if heir is not ticket:
                heir.charge, ticket.charge = ticket.charge, heir.charge
                heir.stage, ticket.stage = Stage.PLACED, heir.stage
            else:
                ticket.stage = Stage.PLACED
        if heir is not ticket:
            self._label(heir)
            self._label(ticket)
        self.loop.call(self._review)
        return heir

    def _knock(self, charge: Charge, ticket: KubernetesTicket, pod_ip: str) -> None:
        if charge.knocking:
            return
        charge.knocking = True
        ticket.tell(Starting(LOADING))
        port = self.config.worker_port

        def knock() -> None:
            try:
                await_door(
                    pod_ip,
                    port,
                    root_pem=self.authority.root_pem,
                    name=charge.name,
                    given_up=charge.given_up,
                    timeout_seconds=_DOOR_SECONDS,
                )
            except NoAnswer as exc:
                self.loop.call(partial(self._out_of_reach, charge, str(exc)))
            else:
                self.loop.call(partial(self._open, charge, pod_ip))

        threading.Thread(target=knock, name="lancegpu-knock", daemon=True).start()

    def _open(self, charge: Charge, pod_ip: str) -> None:
        ticket = self._ticket_of(charge)
        if ticket is None or ticket.state is not RequestState.STARTING or charge.view is None:
            return
        self.sender.drop_secret(charge)
        host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
        ticket.tell(
            Ready(
                address=f"grpc+tls://{host}:{self.config.worker_port}",
                token=charge.token,
                devices=_devices(ticket, charge.view),
                tls_root=self.authority.root_pem,
                tls_name=charge.name,
            )
        )

    def _out_of_reach(self, charge: Charge, what: str) -> None:
        ticket = self._ticket_of(charge)
        if ticket is None:
            return
        if self._cluster.inside:
            self._lose(charge, ticket, Lost("unreachable", f"the worker's pod {charge.name} does not answer: {what}"))
            return
        error = InvalidPlacement(
            f"the worker's pod {charge.name} runs, but its address is out of reach from here ({what}). Pods can be "
            "reached from inside the cluster: submit the job with wait=False and run `lancegpu agent` there",
            pod=charge.name,
        )
        self._give_up(charge, ticket, error)

    def _hold_up(self, charge: Charge, exc: PlacementError) -> None:
        ticket = self._ticket_of(charge)
        if ticket is None:
            return
        if isinstance(exc, ClusterForbidden):
            charge.view = None
            ticket.stage = Stage.WAITING
            self._look_soon()
        else:
            ticket.wait(Waiting("api_server", f"{exc.message}; the worker is asked for again as soon as it does"))

    def _refuse(self, charge: Charge, exc: PlacementError) -> None:
        ticket = self._ticket_of(charge)
        if ticket is not None:
            self._give_up(charge, ticket, exc)

    def _give_up(self, charge: Charge, ticket: KubernetesTicket, error: PlacementError) -> None:
        self._forget(charge, ticket)
        ticket.tell(Refused(error))

    def _lose(self, charge: Charge, ticket: KubernetesTicket, lost: Lost) -> None:
        self._forget(charge, ticket)
        ticket.tell(lost)

    def _forget(self, charge: Charge, ticket: KubernetesTicket) -> None:
        with self._lock:
            self._tickets.pop(ticket.request.request_id, None)
            self._charges.pop(charge.name, None)
        if charge.uid and not charge.gone.is_set():
            self.sender.end_soon(charge)
        else:
            charge.given_up.set()
            self.sender.drop_secret(charge)
        self.loop.call(self._review)

    def _ticket_of(self, charge: Charge) -> KubernetesTicket | None:
        with self._lock:
            return next((one for one in self._tickets.values() if one.charge is charge and not one.is_over), None)

    def _label(self, ticket: KubernetesTicket) -> None:
        if ticket.charge.uid:
            labels = job_labels(ticket.job_id, ticket.owner)
            self.sender.relabel(ticket.charge, labels, {OWNER_LABEL: ticket.owner})

    # Diagnosis.

    def _look_soon(self) -> None:
        self.loop.call_in(_DIAGNOSIS_EVERY_SECONDS, "look", self._look)

    def _mind_the_sight(self, tickets: dict[str, KubernetesTicket]) -> None:
        waiting = [one for one in tickets.values() if one.stage is Stage.WAITING and not one.is_over]
        if waiting:
            classes = [one.request.gpu_class for one in waiting]
            self._sight.open(queues=any(one is not None and one.queue is not None for one in classes))
            self._waited_at = time.monotonic()
        elif self._sight.is_open:
            # Others may come to wait soon; to look anew costs two calls for each kind of object.
            left = self._waited_at + _LINGER_SECONDS - time.monotonic()
            if left <= 0:
                self._sight.close()
            else:
                self.loop.call_in(left, "sight", self._review)

    def _look(self) -> None:
        with self._lock:
            tickets = dict(self._tickets)
        waiting = [one for one in tickets.values() if one.stage is Stage.WAITING and not one.is_over]
        self._mind_the_sight(tickets)
        if not waiting or not self._sight.is_clear:
            return
        cluster, now = self._sight.view(self.seen_pods()), datetime.now(UTC)
        quotas_changed, self._quotas = cluster.quotas != self._quotas, cluster.quotas
        for ticket in waiting:
            # A pod that a quota keeps from being made is looked at as it would be.
            pod = ticket.charge.view or pod_view(ticket.charge.body)
            before = ticket.standing()
            found = diagnose(pod, cluster, ticket.request.gpu_class, ticket.request, now)
            ticket.wait(self._with_queue(ticket, found, waiting))
            self._mind_the_image(ticket, found)
            if quotas_changed:
                ticket.charge.retry.set()
            if found.reason in ROOM_REASONS and ticket.request.gpu_class is not None:
                self._full_until[ticket.request.gpu_class.name] = time.monotonic() + _FULL_SECONDS
            if ticket.standing() != before:
                self.loop.call(self._review)

    def _with_queue(self, ticket: KubernetesTicket, found: Waiting, waiting: list[KubernetesTicket]) -> Waiting:
        older = [one for one in waiting if _same_class(one, ticket) and one.standing().age < ticket.standing().age]
        if found.reason not in ROOM_REASONS or not older:
            return found
        detail = {**found.detail, "older_requests": [one.owner for one in older]}
        return replace(found, message=f"{found.message}{_queue_words(len(older))}", detail=detail)

    def _mind_the_image(self, ticket: KubernetesTicket, found: Waiting) -> None:
        """An image that cannot be pulled for long is no matter of waiting."""
        name = ticket.charge.name
        if found.reason != "image":
            self._image_trouble_since.pop(name, None)
            return
        since = self._image_trouble_since.setdefault(name, time.monotonic())
        left = self.config.image_pull_grace_seconds - (time.monotonic() - since)
        if left > 0:
            self.loop.call_in(left + 0.05, f"image {name}", self._look)
        else:
            del self._image_trouble_since[name]
            self._give_up(ticket.charge, ticket, InvalidPlacement(found.message, pod=name))

    def _refuse_all(self, problem: PlacementError) -> None:
        """Nothing can be had from a cluster whose pods cannot be watched."""
        for ticket in self.tickets():
            if not ticket.is_over and ticket.stage is not Stage.PLACED:
                self._give_up(ticket.charge, ticket, problem)

    def _standings_elsewhere(self, tickets: dict[str, KubernetesTicket]) -> list[Standing]:
        """Return how the requests of other processes on this database stand, as far as their pods tell."""
        classes = {
            label_value(gpu_class.name): gpu_class
            for ticket in tickets.values()
            if (gpu_class := ticket.request.gpu_class) is not None
        }
        found = []
        for view in self.seen_pods():
            gpu_class = classes.get(view.labels.get(CLASS_LABEL, ""))
            mine = view.labels.get(PLACEMENT_LABEL) == self.household.placement
            if gpu_class is not None and not mine and not view.ended:
                found.append(_standing_of(view, gpu_class))
        return found

    # Life and death of placements.

    def _beat(self) -> None:
        self.sender.submit(self.household.beat)
        self.loop.call_in(BEAT_SECONDS, "beat", self._beat)
        self._look_for_leftovers()

    def _look_for_leftovers(self) -> None:
        """Remove what placements have left that died: their jobs ask for workers of their own."""
        others = {view.labels.get(PLACEMENT_LABEL, "") for view in self.seen_pods()} - {"", self.household.placement}
        if others:
            self.sender.submit(partial(self._clear_away, others))
            self.loop.call_in(BEAT_SECONDS, "leftovers", self._look_for_leftovers)

    def _clear_away(self, placements: set[str]) -> None:
        for placement in self.household.dead(placements):
            what = placement_selector(self.database, placement)
            for kind in ("Pod", "Secret"):
                self._cluster.delete_all(kind, what)
            self.household.leave(placement)


def _why_held(ticket: KubernetesTicket, held: Held, tickets: dict[str, KubernetesTicket]) -> Waiting:
    gpu_class = ticket.request.gpu_class
    assert gpu_class is not None
    older = [tickets[one].owner for one in held.older if one in tickets]
    queue = _queue_words(len(older))
    if held.by_limit:
        number = gpu_class.max_workers or 0
        owners = {one.owner for one in tickets.values() if _same_class(one, ticket) and one.stage is not Stage.HELD}
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


def _queue_words(older: int) -> str:
    return f"; {older} older request{'' if older == 1 else 's'} before it" if older else ""


def _standing_of(view: PodView, gpu_class: GpuClass) -> Standing:
    stage = Stage.LEAVING if view.delete_by else Stage.PLACED if view.node else Stage.PLACING
    if stage is Stage.PLACING and _scheduler_spoke(view):
        stage = Stage.WAITING
    amount = view.requests.get(gpu_class.resource_name, 0)
    return Standing(
        id=view.uid,
        job_id=view.labels.get(JOB_LABEL, ""),
        gpu_class=gpu_class.name,
        gpus=amount // THOUSANDTHS or 1,
        asked_at=view.created_at.timestamp() if view.created_at else 0.0,
        stage=stage,
        shape=f"another process's: {view.uid}",
        max_workers=gpu_class.max_workers,
    )


def _same_class(one: KubernetesTicket, other: KubernetesTicket) -> bool:
    return (
        one.request.gpu_class is not None
        and other.request.gpu_class is not None
        and one.request.gpu_class.name == other.request.gpu_class.name
    )


def _devices(ticket: KubernetesTicket, view: PodView) -> tuple[str, ...]:
    gpu_class = ticket.request.gpu_class
    if gpu_class is None:
        return ()
    return tuple(f"{view.node}/{view.name}/{number}" for number in range(ticket.request.gpus))


def _scheduler_spoke(view: PodView) -> bool:
    condition = view.conditions.get("PodScheduled")
    return bool(view.gates) or (condition is not None and condition.status == "False")
