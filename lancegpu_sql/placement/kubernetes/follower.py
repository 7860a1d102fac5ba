"""Follows the pods of one placement through their lives, and tells their requests what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from lancegpu_sql.errors import EnvironmentFailed, InvalidPlacement, PlacementError
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.fairness import Stage
from lancegpu_sql.placement.kubernetes.lifecycle import LOADING, Ending, Leaving, Running, Unplaced
from lancegpu_sql.placement.kubernetes.lookout import Lookout
from lancegpu_sql.placement.kubernetes.loop import Loop
from lancegpu_sql.placement.kubernetes.opening import Opening
from lancegpu_sql.placement.kubernetes.replacing import Replacing
from lancegpu_sql.placement.kubernetes.roster import Roster
from lancegpu_sql.placement.kubernetes.sender import Sender
from lancegpu_sql.placement.kubernetes.standings import scheduler_spoke
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.request import Lost, Preparing, Refused, RequestState, Starting

_SILENT_SCHEDULER_SECONDS = 2.0
_STUCK_LOOK_SECONDS = 30.0


class Follower:
    """Used on the placement's loop only.

    Parameters
    ----------
    inside
        Whether this process runs in the cluster itself, where pods can be reached.
    on_change
        Called when a request stands otherwise than before.
    """

    def __init__(
        self,
        roster: Roster,
        sender: Sender,
        loop: Loop,
        lookout: Lookout,
        opening: Opening,
        replacing: Replacing,
        *,
        inside: bool,
        on_change: Callable[[], None],
    ) -> None:
        self._roster = roster
        self._sender = sender
        self._loop = loop
        self._lookout = lookout
        self._opening = opening
        self._replacing = replacing
        self._inside = inside
        self._on_change = on_change

    def observe(self, charge: Charge, view: PodView | None) -> None:
        """Take a look at a pod; None once it is gone."""
        ticket = self._roster.ticket_of(charge)
        if ticket is None or (view is not None and charge.view is not None and charge.uid and view.uid != charge.uid):
            return
        if view is not None:
            charge.view = view
            charge.uid = charge.uid or view.uid
            self._note_node(charge, view)
        node, events = (None, ()) if view is None else self._lookout.seen_of(view)
        for event in charge.story.observe(view, node=node, events=events, now=datetime.now(UTC)):
            match event:
                case Unplaced():
                    self._unplaced(charge, ticket)
                case Starting() | Preparing():
                    ticket = self._placed(charge, ticket)
                    ticket.tell(event)
                case Running(pod_ip):
                    ticket = self._placed(charge, ticket)
                    self._knock(charge, ticket, pod_ip)
                case Leaving():
                    # Who has it should take it no new work; it finishes the call that runs, or hands it back.
                    charge.leaving = True
                    ticket.want(True)
                    self._lookout.mind_the_sight()
                case Lost():
                    self._lose(ticket, event)
        if charge.story.look_again_at is not None:
            self._loop.call_in(_STUCK_LOOK_SECONDS, f"stuck {charge.name}", lambda: self.observe(charge, charge.view))
        if ticket.stage is Stage.PLACING and view is not None and not view.node and scheduler_spoke(view):
            self._unplaced(charge, ticket)

    def _note_node(self, charge: Charge, view: PodView) -> None:
        if view.node and charge.placed_at is None:
            charge.placed_at = time.monotonic()
            self._replacing.mind_starts()
            self._lookout.mind_a_start()

    def observe_again(self) -> None:
        """Look again at those that start or go: what was seen of nodes and said of pods may tell more of them."""
        for ticket in self._roster.tickets():
            charge = ticket.charge
            if charge.view is not None and (charge.leaving or ticket.state is RequestState.STARTING):
                self.observe(charge, charge.view)

    def _unplaced(self, charge: Charge, ticket: KubernetesTicket) -> None:
        assert charge.view is not None
        if charge.view.node or scheduler_spoke(charge.view):
            ticket.stage = Stage.WAITING
            self._lookout.look_soon()
            self._on_change()
        else:
            self._loop.call_in(_SILENT_SCHEDULER_SECONDS, f"silent {charge.name}", lambda: self._still(charge))

    def _still(self, charge: Charge) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is not None and ticket.stage is Stage.PLACING and charge.view is not None and not charge.view.node:
            ticket.stage = Stage.WAITING
            self._lookout.look_soon()

    def _placed(self, charge: Charge, ticket: KubernetesTicket) -> KubernetesTicket:
        """Note that a pod got a node, and give it to the request that has waited longest for one like it."""
        if charge.placed:
            ticket.stage = Stage.PLACED
            return ticket
        charge.placed = True
        heir = self._roster.place(ticket)
        if heir is not ticket:
            self._sender.mark(heir.charge, heir.mark)
            self._sender.mark(ticket.charge, ticket.mark)
        self._on_change()
        return heir

    def _knock(self, charge: Charge, ticket: KubernetesTicket, pod_ip: str) -> None:
        if charge.knocking:
            return
        charge.knocking = True
        ticket.tell(Starting(LOADING))
        self._opening.begin(
            charge,
            pod_ip,
            on_open=lambda address: self._loop.call(partial(self._open, charge, address)),
            on_no_answer=lambda what: self._loop.call(partial(self._out_of_reach, charge, what)),
            on_refused=lambda error: self._loop.call(partial(self._refused, charge, error)),
        )

    def _open(self, charge: Charge, address: str) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is None or ticket.state is not RequestState.STARTING:
            return
        self._sender.drop_secret(charge)
        ticket.tell(self._opening.ready(charge, address, ticket.request))
        self._on_change()  # others may have come to want it before it could be told

    def _out_of_reach(self, charge: Charge, what: str) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is None:
            return
        if self._inside:
            self._replacing.end_late(ticket, f"runs and does not answer ({what})")
            return
        error = InvalidPlacement(
            f"the worker's pod {charge.name} runs, but it is out of reach from here ({what}). Pods can be reached from "
            "inside the cluster: submit the job with wait=False and run `lancegpu agent` there",
            pod=charge.name,
        )
        self.give_up(ticket, error)

    def _refused(self, charge: Charge, error: PlacementError) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is not None:
            self.give_up(ticket, error)

    def give_up(self, ticket: KubernetesTicket, error: PlacementError | EnvironmentFailed) -> None:
        """Tell a request that its worker cannot be had."""
        self._forget(ticket)
        ticket.tell(Refused(error))

    def _lose(self, ticket: KubernetesTicket, lost: Lost) -> None:
        if ticket.charge.story.ending is Ending.ENVIRONMENT:
            self.give_up(ticket, EnvironmentFailed(lost.message, owner="environment", said=lost.message))
            return
        if self._replacing.takes_over(ticket, lost):
            return
        self._forget(ticket)
        ticket.tell(lost)

    def _forget(self, ticket: KubernetesTicket) -> None:
        self._roster.leave(ticket)
        if ticket.stage is Stage.HELD:
            ticket.charge.given_up.set()
        else:
            self.discard(ticket.charge)
        self._on_change()

    def discard(self, charge: Charge) -> None:
        """End a pod that nobody has a use for any more, or what is left of it."""
        self._sender.end_soon(charge)
        self._sender.submit(partial(self._opening.end, charge))
