"""The requests of one placement that are not over, and the pods that are theirs."""

from __future__ import annotations

import threading
import time

from lancegpu_sql.placement.kubernetes.charge import Charge
from lancegpu_sql.placement.kubernetes.fairness import Stage, Standing, rightful
from lancegpu_sql.placement.kubernetes.ticket import KubernetesTicket

SCHEDULING_SECONDS = 5.0
"""How long the scheduler may take to give away what a worker has freed, before another one is asked to go."""


class Roster:
    """Tickets by request, charges by name of their pod. Safe for use by many threads.

    Pods change hands under its lock: not any more, once a ticket is closing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tickets: dict[str, KubernetesTicket] = {}
        self._charges: dict[str, Charge] = {}
        self._holders: dict[Charge, KubernetesTicket] = {}
        self._freed: list[tuple[Standing, float]] = []

    def tickets(self) -> tuple[KubernetesTicket, ...]:
        """All requests that are not over."""
        with self._lock:
            return tuple(self._tickets.values())

    def enter(self, ticket: KubernetesTicket) -> None:
        """Take up a request."""
        with self._lock:
            self._tickets[ticket.request.request_id] = ticket
            self._holders[ticket.charge] = ticket

    def leave(self, ticket: KubernetesTicket, *, frees: bool = False) -> None:
        """Forget a request and its pod; `frees` says that what the pod held is about to be given away."""
        with self._lock:
            self._tickets.pop(ticket.request.request_id, None)
            self._charges.pop(ticket.charge.name, None)
            self._holders.pop(ticket.charge, None)
            if frees and ticket.stage is Stage.PLACED and ticket.request.gpu_class is not None:
                self._freed.append((ticket.standing(), time.monotonic() + SCHEDULING_SECONDS))

    def take_charge(self, ticket: KubernetesTicket) -> bool:
        """Note that a request's pod is about to be made; False where the request is over."""
        with self._lock:
            if ticket.is_over:
                return False
            ticket.stage = Stage.PLACING
            self._charges[ticket.charge.name] = ticket.charge
            return True

    def exchange(self, ticket: KubernetesTicket, charge: Charge) -> bool:
        """Give a request another pod, that is yet to be made; False where the request is over."""
        with self._lock:
            if ticket.is_over:
                return False
            self._charges.pop(ticket.charge.name, None)
            self._holders.pop(ticket.charge, None)
            ticket.charge, ticket.stage = charge, Stage.HELD
            self._holders[charge] = ticket
            return True

    def charge_held_by(self, ticket: KubernetesTicket) -> Charge:
        """Return the pod of a request, which it keeps if it is closing."""
        with self._lock:
            return ticket.charge

    def charges(self) -> tuple[Charge, ...]:
        """All pods that were made, or are about to be."""
        with self._lock:
            return tuple(self._charges.values())

    def charge_named(self, name: str) -> Charge | None:
        """Return the charge whose pod has that name."""
        with self._lock:
            return self._charges.get(name)

    def charge_with(self, uid: str) -> Charge | None:
        """Return the charge whose pod has that uid."""
        with self._lock:
            return next((one for one in self._charges.values() if one.uid == uid), None)

    def ticket_of(self, charge: Charge) -> KubernetesTicket | None:
        """Return the request whose pod this is, unless it is over."""
        with self._lock:
            ticket = self._holders.get(charge)
            return None if ticket is None or ticket.is_over else ticket

    def standings(self) -> list[Standing]:
        """Return how those stand that ask for a GPU class, and what was freed a moment ago."""
        with self._lock:
            self._freed = [one for one in self._freed if one[1] > time.monotonic()]
            freed = [standing for standing, _ in self._freed]
            own = [one.standing() for one in self._tickets.values() if one.request.gpu_class is not None]
        return own + freed

    def place(self, ticket: KubernetesTicket) -> KubernetesTicket:
        """Note that a request's pod got a node; return the request that it goes to: the oldest that waits for one like it."""
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
                self._holders |= {heir.charge: heir, ticket.charge: ticket}
                heir.stage, ticket.stage = Stage.PLACED, heir.stage
            else:
                ticket.stage = Stage.PLACED
        return heir
