"""Looks at the cluster while requests wait, and tells each why it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lancegpu_sql.errors import InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.cluster import ClusterView
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.diagnosis import diagnose
from lancegpu_sql.placement.kubernetes.failing_nodes import not_keeping_off
from lancegpu_sql.placement.kubernetes.fairness import Stage
from lancegpu_sql.placement.kubernetes.fit import selects
from lancegpu_sql.placement.kubernetes.loop import Loop, Sparing
from lancegpu_sql.placement.kubernetes.sight import Sight
from lancegpu_sql.placement.kubernetes.standings import Queues
from lancegpu_sql.placement.kubernetes.ticket import ROOM_REASONS, KubernetesTicket
from lancegpu_sql.placement.kubernetes.views import EventView, NodeView, PodView, QuotaView, pod_view
from lancegpu_sql.placement.kubernetes.wording import listed
from lancegpu_sql.placement.request import Waiting

_EVERY_SECONDS = 0.2

_LINGER_SECONDS = 30.0
"""How long the cluster is still watched when nothing waits any more."""

_SLOW_START_SECONDS = 10.0
"""A start that takes longer is looked into, and told like a wait: an image may be large, a volume may not come."""

_FULL_SECONDS = 30.0
"""How long a class that had no room is not tried for more workers than a job needs."""

_AGAIN_SECONDS = 10.0
"""How long a diagnosis holds where nothing happens: a node ceases to be new, the scheduler has had its time."""

GiveUp = Callable[[KubernetesTicket, PlacementError], None]


class Lookout:
    """Diagnoses the requests that wait, on the placement's loop.

    Parameters
    ----------
    cluster, config, loop
        What is looked at, with how much patience, and on which thread.
    tickets, seen_pods
        The requests that are not over, and the pods of the database.
    on_look
        Called after each look at the cluster.
    on_change
        Called when a request stands otherwise than before.
    give_up
        Told of a request that waits for what is no matter of waiting.
    again_seconds
        When to look anew, though nothing has changed, as long as something waits.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: KubernetesConfig,
        loop: Loop,
        *,
        tickets: Callable[[], tuple[KubernetesTicket, ...]],
        seen_pods: Callable[[], tuple[PodView, ...]],
        on_look: Callable[[], None],
        on_change: Callable[[], None],
        give_up: GiveUp,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._config = config
        self._again_seconds = again_seconds
        self._loop = loop
        self._tickets = tickets
        self._seen_pods = seen_pods
        self._on_look = on_look
        self._on_change = on_change
        self._give_up = give_up
        self._looks = Sparing(loop, "look", self._look, _EVERY_SECONDS)
        self._sight = Sight(cluster, self.look_soon)
        self._last: ClusterView | None = None
        self._quotas: tuple[QuotaView, ...] = ()
        self._full_until: dict[str, float] = {}
        self._concerned_at = 0.0
        self._image_trouble_since: dict[str, float] = {}

    def was_full(self, gpu_class: str) -> bool:
        """Whether a worker of that class waited for room a moment ago."""
        return self._full_until.get(gpu_class, 0.0) > time.monotonic()

    def look_soon(self) -> None:
        """Look at the cluster in a moment; from any thread."""
        self._looks.soon()

    def seen_of(self, pod: PodView) -> tuple[NodeView | None, Sequence[EventView]]:
        """Return a pod's node and what was said of the pod, as far as the cluster is looked at now."""
        if self._last is None:
            return None, ()
        return self._last.node(pod.node), self._last.events_of(pod)

    def explain(self, ticket: KubernetesTicket) -> str:
        """Say why a request's pod does not serve, as far as is known without looking anew."""
        pod = ticket.charge.view or pod_view(ticket.charge.body)
        return self._diagnosed(ticket, pod, self._last or ClusterView(), datetime.now(UTC)).message

    def mind_a_start(self) -> None:
        """Note that a pod has got its node: if it takes long to serve, why is looked into."""
        self._loop.call_in(_SLOW_START_SECONDS + 0.1, "slow starts", self.look_soon)

    def mind_the_sight(self) -> None:
        """Look at the cluster as long as somebody waits, or a pod is being taken away, and a little longer."""
        waiting = self._waiting()
        if waiting or any(_is_leaving(one) or _starts_slowly(one) for one in self._tickets()):
            self._sight.open(queues=any(one.request.queue_name is not None for one in waiting))
            self._concerned_at = time.monotonic()
        elif self._sight.is_open:
            # Others may come to wait soon; to look anew costs two calls for each kind of object.
            left = self._concerned_at + _LINGER_SECONDS - time.monotonic()
            if left <= 0:
                self.close()
            else:
                self._loop.call_in(left, "sight", self.mind_the_sight)

    def close(self) -> None:
        """Look no more."""
        self._sight.close()
        self._last = None

    def _waiting(self) -> list[KubernetesTicket]:
        return [one for one in self._tickets() if one.stage is Stage.WAITING and not one.is_over]

    def _look(self) -> None:
        self.mind_the_sight()
        if not self._sight.is_clear:
            return
        self._last = cluster = self._sight.view(self._seen_pods())
        quotas_changed, self._quotas = cluster.quotas != self._quotas, cluster.quotas
        # One moment for all: pods that are alike share what was found out.
        now, waiting = datetime.now(UTC), self._waiting()
        if waiting:
            self._loop.call_in(self._again_seconds, "look again", self.look_soon)
        # One that the scheduler has not looked at yet is in the queue as well: the older's pod may have been made later.
        queues = Queues(one for one in self._tickets() if one.stage < Stage.PLACED and not one.is_over)
        for ticket in waiting:
            self._tell_why(ticket, cluster, queues, now)
            if quotas_changed:
                ticket.charge.retry.set()
        for ticket in self._tickets():
            if _starts_slowly(ticket) and ticket.charge.view is not None:
                ticket.wait(self._diagnosed(ticket, ticket.charge.view, cluster, now))
        self._on_look()

    def _tell_why(self, ticket: KubernetesTicket, cluster: ClusterView, queues: Queues, now: datetime) -> None:
        # A pod that a quota keeps from being made is looked at as it would be.
        pod = ticket.charge.view or pod_view(ticket.charge.body)
        before = ticket.standing()
        found = self._diagnosed(ticket, pod, cluster, now)
        ticket.wait(queues.told(ticket, found))
        self._mind_the_image(ticket, found)
        if found.reason in ROOM_REASONS and ticket.request.gpu_class is not None:
            self._full_until[ticket.request.gpu_class.name] = time.monotonic() + _FULL_SECONDS
        if ticket.standing() != before:
            self._on_change()

    def _diagnosed(self, ticket: KubernetesTicket, pod: PodView, cluster: ClusterView, now: datetime) -> Waiting:
        request = ticket.request
        found = diagnose(pod, cluster, request.gpu_class, request, now)
        avoided = ticket.charge.avoided
        if not avoided or pod.node:
            return found
        if found.reason == "no_matching_node" and any(selects(not_keeping_off(pod), node) for node in cluster.nodes):
            return replace(found, reason="device_failed", message=_all_avoided(ticket, avoided), can_be_met=None)
        return replace(found, message=f"{found.message}; {_avoided_words(avoided)}")

    def _mind_the_image(self, ticket: KubernetesTicket, found: Waiting) -> None:
        """An image that cannot be pulled for long is no matter of waiting."""
        name = ticket.charge.name
        if found.reason != "image":
            self._image_trouble_since.pop(name, None)
            return
        since = self._image_trouble_since.setdefault(name, time.monotonic())
        left = self._config.image_pull_grace_seconds - (time.monotonic() - since)
        if left > 0:
            self._loop.call_in(left + 0.05, f"image {name}", self.look_soon)
        else:
            del self._image_trouble_since[name]
            self._give_up(ticket, InvalidPlacement(found.message, pod=name))


def _is_leaving(ticket: KubernetesTicket) -> bool:
    return ticket.charge.leaving and not ticket.is_over


def _starts_slowly(ticket: KubernetesTicket) -> bool:
    charge = ticket.charge
    if charge.placed_at is None or charge.knocking or ticket.stage is not Stage.PLACED or ticket.is_over:
        return False
    return time.monotonic() - charge.placed_at >= _SLOW_START_SECONDS


def _avoided_words(nodes: Sequence[str]) -> str:
    verb = "is" if len(nodes) == 1 else "are"
    return f"{listed(nodes)} {verb} avoided for a while: devices failed there; look at the device plugin"


def _all_avoided(ticket: KubernetesTicket, nodes: Sequence[str]) -> str:
    gpu_class = ticket.request.gpu_class
    of_class = f"GPU class {gpu_class.name!r}" if gpu_class is not None else "the pool of CPU workers"
    return f"no node of {of_class} is left to try: {_avoided_words(nodes)} there, then the worker starts"
