"""Turns what happens in the cluster into events of requests, and requests into pods: on one thread, for one placement."""

from __future__ import annotations

import os
import time
from functools import partial

from lancegpu_sql.errors import ClusterForbidden, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster
from lancegpu_sql.placement.kubernetes.certificates import Authority
from lancegpu_sql.placement.kubernetes.charge import Charge, charge_for
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.fairness import Stage, held_back, over_limit, wanted
from lancegpu_sql.placement.kubernetes.follower import Follower
from lancegpu_sql.placement.kubernetes.household import Household
from lancegpu_sql.placement.kubernetes.lookout import Lookout
from lancegpu_sql.placement.kubernetes.loop import Loop, Sparing
from lancegpu_sql.placement.kubernetes.names import database_labels, selector
from lancegpu_sql.placement.kubernetes.opening import Opening
from lancegpu_sql.placement.kubernetes.reach import Reach
from lancegpu_sql.placement.kubernetes.replacing import Replacing
from lancegpu_sql.placement.kubernetes.roster import SCHEDULING_SECONDS, Roster
from lancegpu_sql.placement.kubernetes.sender import Sender
from lancegpu_sql.placement.kubernetes.standings import standings_elsewhere, why_held
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket
from lancegpu_sql.placement.kubernetes.upkeep import Upkeep
from lancegpu_sql.placement.kubernetes.views import PodView, pod_view
from lancegpu_sql.placement.kubernetes.watch import Watch
from lancegpu_sql.placement.request import Waiting, WorkerRequest

_ELSEWHERE_SECONDS = 0.1

_IDLE_SECONDS = 2.0
"""After how long without work a worker is marked so: one that is used again before costs no call."""


class Dispatch:
    """Everything that is going on for one placement.

    What happens, happens on its loop; `finish_release` alone waits for the cluster in the thread that calls it.
    """

    def __init__(self, cluster: Cluster, config: KubernetesConfig, database: str) -> None:
        self.config = config
        self.database = database
        self._trouble: PlacementError | None = None
        self._closed = False
        self._process_id = os.getpid()
        self._roster = Roster()
        authority = Authority()
        self.household = Household(cluster, database)
        reach = Reach(cluster, config)
        self._opening = Opening(authority, reach)
        self.sender = Sender(cluster, self.household, authority, reach.check)
        self.loop = Loop("lancegpu-kubernetes")
        self._reviews = Sparing(self.loop, "review", self._review)
        self._upkeep = Upkeep(cluster, database, self.household, self.sender, self.loop, self.seen_pods)
        self.lookout = Lookout(
            cluster,
            config,
            self.loop,
            tickets=self.tickets,
            seen_pods=self.seen_pods,
            on_look=lambda: self._follower.observe_again(),
            on_change=self._review_soon,
            give_up=lambda ticket, error: self._follower.give_up(ticket, error),
        )
        self._replacing = Replacing(
            self._roster,
            self.loop,
            make=self.new_charge,
            discard=lambda charge: self._follower.discard(charge),
            explain=self.lookout.explain,
            read_log=self.sender.read_log,
            on_change=self._review_soon,
            give_up=lambda ticket, error: self._follower.give_up(ticket, error),
        )
        self._follower = Follower(
            self._roster,
            self.sender,
            self.loop,
            self.lookout,
            self._opening,
            self._replacing,
            inside=cluster.inside,
            on_change=self._review_soon,
        )
        self._pods: Watch[PodView] = Watch(cluster, "Pod", pod_view, self, labels=selector(database_labels(database)))
        self._pods.start()  # last: what it tells is acted on at once, with all of the above

    # From any thread.

    def new_charge(self, request: WorkerRequest, attempt: int = 0) -> Charge:
        """Return a pod for a request, that is yet to be made: the first one, or one that replaces others."""
        return charge_for(request, self.config, self.household, self.database, attempt)

    def enter(self, ticket: KubernetesTicket) -> None:
        """Take up a request."""
        self._roster.enter(ticket)
        self._review_soon()

    def begin_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Tell a request's pod to end; what it holds is about to be free."""
        if self._process_id != os.getpid():
            return  # a process that forked off holds a copy of this, not the worker
        self._review_soon()
        charge = self._roster.charge_held_by(ticket)
        if ticket.stage is not Stage.HELD:
            self.sender.begin_end(charge, grace_seconds)

    def finish_release(self, ticket: KubernetesTicket, grace_seconds: float) -> None:
        """Return when a request's pod is gone."""
        if self._process_id != os.getpid():
            return
        if ticket.stage is not Stage.HELD:
            self.sender.finish_end(ticket.charge, grace_seconds)
            self._opening.end(ticket.charge)
        self._roster.leave(ticket, frees=True)
        self._review_soon()
        self.loop.call_in(SCHEDULING_SECONDS + 0.1, "freed", self._review_soon)

    def reassign(self, ticket: KubernetesTicket) -> None:
        """Say anew for whom a ticket's pod works."""
        self._mark(ticket)
        self.lookout.look_soon()

    def rest(self, ticket: KubernetesTicket) -> None:
        """Say that a ticket's pod may be moved, unless it is used again at once."""
        key = f"idle {ticket.charge.name}"
        self.loop.call_in(_IDLE_SECONDS, key, lambda: self._mark(ticket))

    def tickets(self) -> tuple[KubernetesTicket, ...]:
        """All requests that are not over."""
        return self._roster.tickets()

    def seen_pods(self) -> tuple[PodView, ...]:
        """All pods of the database, those of other processes too."""
        return self._pods.objects

    def close(self) -> None:
        """Stop; whoever has tickets has released them."""
        self._closed = True
        self._upkeep.close()
        self.sender.close()
        self._opening.close()
        self.loop.close()
        self._pods.stop()
        self.lookout.close()

    # From the watch's thread.

    def changed(self, uid: str, view: PodView | None) -> None:
        """A pod of this database is new, has changed or is gone."""
        charge = self._roster.charge_with(uid) if view is None else self._roster.charge_named(view.name)
        if charge is None:
            # Another process's, which may hold what one of ours waits for, or wait for what one of ours holds.
            self.loop.call_in(_ELSEWHERE_SECONDS, "elsewhere", self._review_soon)
            return
        if view is not None:
            charge.uid = charge.uid or view.uid  # its end may be told before the loop has come to this
        else:
            charge.gone.set()  # whoever waits for that must not wait for the loop
        self.loop.call(partial(self._follower.observe, charge, view))

    def listed(self) -> None:
        """All pods have been told once; some may be left from others that died."""
        self.loop.call(self._look_after_unseen)
        self.loop.call(self._upkeep.look_for_leftovers)
        self._review_soon()

    def troubled(self, problem: PlacementError | None) -> None:
        """The cluster cannot be watched at present."""
        self._trouble = problem
        if problem is not None:
            self._review_soon()

    # On the loop.

    def _review_soon(self) -> None:
        self._reviews.soon()

    def _review(self) -> None:
        if self._closed:
            return
        if self._trouble is not None and not self._trouble.retryable:
            self._refuse_all(self._trouble)
            return
        tickets = {one.request.request_id: one for one in self.tickets()}
        elsewhere = standings_elsewhere(self.seen_pods(), tickets.values(), self.household.placement)
        held = held_back(self._roster.standings() + elsewhere)
        for name, ticket in sorted(tickets.items(), key=lambda one: one[1].request.asked_at):
            if ticket.is_over:
                continue
            if name in held:
                ticket.wait(why_held(ticket, held[name], tickets, elsewhere))
            elif ticket.stage is Stage.HELD and ticket.charge.not_before <= time.monotonic():
                self._begin_if_known(ticket)
        standings = self._roster.standings() + elsewhere
        for name in over_limit(standings):
            if name in tickets:
                self._replacing.withdraw(tickets[name])
        chosen = wanted(standings)
        for name, ticket in tickets.items():
            if ticket.stage is Stage.PLACED and not ticket.is_over:
                ticket.want(name in chosen or ticket.charge.leaving)
        self.lookout.mind_the_sight()

    def _look_after_unseen(self) -> None:
        """Ask for pods that are not among those listed: they may have come and gone while nobody watched."""
        seen = {view.uid for view in self.seen_pods()}
        for charge in self._roster.charges():
            if charge.uid and charge.uid not in seen and not charge.gone.is_set():
                gone = partial(self.loop.call, partial(self._follower.observe, charge, None))
                self.sender.look_after(charge, on_gone=gone)

    def _refuse_all(self, problem: PlacementError) -> None:
        """Nothing can be had from a cluster whose pods cannot be watched."""
        for ticket in self.tickets():
            if not ticket.is_over and ticket.stage is not Stage.PLACED:
                self._follower.give_up(ticket, problem)

    def _begin_if_known(self, ticket: KubernetesTicket) -> None:
        """Begin, but where a class has a limit not before the workers of other processes are known."""
        limited = ticket.request.gpu_class is not None and ticket.request.gpu_class.max_workers is not None
        if not limited or self._pods.synced:
            self._begin(ticket)
        elif self._trouble is not None:
            ticket.wait(_api_server_away(self._trouble))

    def _begin(self, ticket: KubernetesTicket) -> None:
        charge = ticket.charge
        self._replacing.prepare(charge)
        if not self._roster.take_charge(ticket):
            charge.sent.set()
            return
        self.sender.begin(
            charge,
            on_sent=lambda pod: self.loop.call(partial(self._note_sent, charge, pod_view(pod))),
            on_held_up=lambda exc: self.loop.call(partial(self._hold_up, charge, exc)),
            on_refused=lambda exc: self.loop.call(partial(self._refuse, charge, exc)),
        )
        self._upkeep.begin()

    def _note_sent(self, charge: Charge, view: PodView) -> None:
        # The watch may have been faster, and know more than the answer to the call does.
        if charge.view is None:
            self._follower.observe(charge, view)
        ticket = self._roster.ticket_of(charge)
        if ticket is not None:
            self._mark(ticket)  # it may be for another job by now
        charge.body = {}  # the cluster has it, and a thousand of them are megabytes

    def _mark(self, ticket: KubernetesTicket) -> None:
        if not ticket.is_over:
            self.sender.mark(ticket.charge, ticket.mark)

    def _hold_up(self, charge: Charge, exc: PlacementError) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is None:
            return
        if isinstance(exc, ClusterForbidden):
            charge.view = None
            ticket.stage = Stage.WAITING
            self.lookout.look_soon()
        else:
            ticket.wait(_api_server_away(exc))

    def _refuse(self, charge: Charge, exc: PlacementError) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is not None:
            self._follower.give_up(ticket, exc)


def _api_server_away(exc: PlacementError) -> Waiting:
    return Waiting(
        "api_server", f"{exc.message}; the worker is asked for again, with growing pauses, until that can be done"
    )
