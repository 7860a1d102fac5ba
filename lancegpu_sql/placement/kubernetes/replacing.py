"""Puts another pod in the place of one that came to nothing before it ever served: the request stands, and waits on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.gpu_class import START_TIMEOUT_SECONDS
from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.failing_nodes import AVOIDED_SECONDS, FAILURES, FailingNodes, keeping_off
from lancegpu_sql.placement.kubernetes.fairness import Stage
from lancegpu_sql.placement.kubernetes.lifecycle import Ending
from lancegpu_sql.placement.kubernetes.loop import Loop
from lancegpu_sql.placement.kubernetes.roster import Roster
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket
from lancegpu_sql.placement.kubernetes.wording import quoted
from lancegpu_sql.placement.request import Lost, RequestState, Waiting, WorkerRequest

LATE_STARTS = 3
"""How many pods of a request may not serve in time, before it is refused: it is no chance then."""

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0

# What is no fault of the worker's own: memory and crashes are told, and judged by who asked.
_REPLACED = frozenset(Ending) - {Ending.MEMORY, Ending.CRASHED, Ending.ENVIRONMENT}


def pause_seconds(mishaps: int) -> float:
    """Return how long to wait before the next pod, after so many that came to nothing."""
    return min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(mishaps - 1, 10))


class Replacing:
    """Used on the placement's loop only.

    Parameters
    ----------
    make
        Makes a pod for a request, the n-th one.
    discard
        Ends a pod that nobody has a use for any more.
    explain
        Says how far the start of a request's pod is.
    read_log
        Reads what a pod has printed last, and tells it from another thread.
    on_change
        Called when a request stands otherwise than before.
    give_up
        Told of a request whose pods never serve in time.
    """

    def __init__(
        self,
        roster: Roster,
        loop: Loop,
        *,
        make: Callable[[WorkerRequest, int], Charge],
        discard: Callable[[Charge], None],
        explain: Callable[[KubernetesTicket], str],
        read_log: Callable[[Charge, Callable[[str], object]], None],
        on_change: Callable[[], None],
        give_up: Callable[[KubernetesTicket, InvalidPlacement], None],
    ) -> None:
        self._roster = roster
        self._loop = loop
        self._make = make
        self._discard = discard
        self._explain = explain
        self._read_log = read_log
        self._on_change = on_change
        self._give_up = give_up
        self._failing = FailingNodes()

    def prepare(self, charge: Charge) -> None:
        """Let a pod that is about to be made keep off nodes that have failed others."""
        charge.avoided = tuple(sorted(self._failing.avoided(time.monotonic())))
        charge.body = keeping_off(charge.body, charge.avoided)

    def takes_over(self, ticket: KubernetesTicket, lost: Lost) -> bool:
        """Let another pod take the place of one that was lost before it served; False where that must be told."""
        ending = ticket.charge.story.ending
        if ticket.state is RequestState.READY or ending not in _REPLACED:
            return False
        if ending is Ending.DEVICE_FAILED:
            self._replace(ticket, "device_failed", f"{lost.message}{self._note_failure(ticket.charge)}")
        else:
            self._replace(ticket, "starting", lost.message)
        return True

    def withdraw(self, ticket: KubernetesTicket) -> None:
        """Take back the pod of a request that must not have one yet, unless it serves."""
        if not ticket.is_over and ticket.state is not RequestState.READY:
            self._exchange(ticket, pause=0.0)

    def mind_starts(self) -> None:
        """Look for pods that have had their node for too long without serving; the time for a node never counts."""
        for ticket in self._roster.tickets():
            placed_at = ticket.charge.placed_at
            if placed_at is None or ticket.is_over or ticket.state is RequestState.READY:
                continue
            left = placed_at + start_timeout_seconds(ticket.request) - time.monotonic()
            if left > 0:
                self._loop.call_in(left + 0.01, "starts", self.mind_starts)
            else:
                limit = start_timeout_seconds(ticket.request)
                node = ticket.charge.view.node if ticket.charge.view is not None else ""
                self.end_late(ticket, f"did not serve within {limit:g} seconds of getting node {node}")

    def end_late(self, ticket: KubernetesTicket, what: str) -> None:
        """Let another pod take the place of one that had its time and did not serve, or refuse the request."""
        charge = ticket.charge
        if charge.late:
            return
        charge.late = True
        ticket.late_starts += 1
        message = f"the worker's pod {charge.name} {what}: {self._explain(ticket)}"
        if ticket.late_starts < LATE_STARTS:
            self._replace(ticket, "starting", message)
        else:
            refuse = partial(self._refuse_late, charge, message)
            self._read_log(charge, lambda text: self._loop.call(partial(refuse, text)))

    def _refuse_late(self, charge: Charge, message: str, log: str) -> None:
        ticket = self._roster.ticket_of(charge)
        if ticket is None or ticket.state is RequestState.READY:
            return
        gpu_class = ticket.request.gpu_class
        advice = f"raise start_timeout_seconds of GPU class {gpu_class.name!r}" if gpu_class else "look at the node"
        last_words = f"; the last it has printed is {quoted(log)}" if log.strip() else ""
        error = InvalidPlacement(
            f"{message}; {ticket.late_starts} pods, one after the other, did not serve in time: if it only takes long, "
            f"{advice}{last_words}",
            pod=charge.name,
        )
        self._give_up(ticket, error)

    def _note_failure(self, charge: Charge) -> str:
        """Count a node's failure; return what follows from it, in words."""
        node = charge.view.node if charge.view is not None else ""
        if not node:
            return ""
        now = time.monotonic()
        self._failing.note(node, now)
        if node not in self._failing.avoided(now):
            return f"; {node} is avoided if this happens there again: look at its device plugin"
        self._loop.call_in(AVOIDED_SECONDS + 0.1, f"avoided {node}", self._reconsider)
        times = "twice" if self._failing.failures(node) == FAILURES else f"{self._failing.failures(node)} times"
        minutes = f"{AVOIDED_SECONDS / 60:g} minutes"
        return f"; this happened {times} there, so {node} is avoided for {minutes}: look at its device plugin"

    def _reconsider(self) -> None:
        """Pods that wait, and keep off a node that is not avoided any more, are made anew."""
        avoided = self._failing.avoided(time.monotonic())
        for ticket in self._roster.tickets():
            if ticket.stage is Stage.WAITING and not avoided.keys() >= set(ticket.charge.avoided):
                self._exchange(ticket, pause=0.0)

    def _replace(self, ticket: KubernetesTicket, reason: str, why: str) -> None:
        ticket.mishaps += 1
        pause = pause_seconds(ticket.mishaps)
        if self._exchange(ticket, pause):
            ticket.wait(Waiting(reason, f"{why}; another pod is made in {pause:g} s"))

    def _exchange(self, ticket: KubernetesTicket, pause: float) -> bool:
        old, ticket.attempt = ticket.charge, ticket.attempt + 1
        new = self._make(ticket.request, ticket.attempt)
        new.not_before = time.monotonic() + pause
        if not self._roster.exchange(ticket, new):
            return False
        self._discard(old)
        self._loop.call_in(pause + 0.01, f"again {new.name}", self._on_change)
        self._on_change()
        return True


def start_timeout_seconds(request: WorkerRequest) -> float:
    """Return how long a request's pod may take from getting its node to serving."""
    return START_TIMEOUT_SECONDS if request.gpu_class is None else request.gpu_class.start_timeout_seconds
