"""Asks a placement for one worker, of the classes that may have it, and keeps the request that gets one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.placement.backup import Backups, Moves
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.interface import CLOSE_GRACE_SECONDS, Placement, Ticket
from lancegpu_sql.placement.request import PlacementEvent
from lancegpu_sql.workers.need import WorkerNeed


@dataclass(frozen=True, eq=False)
class Word:
    """What one request was told. `asked` counts the requests: one to the same class may have been withdrawn before."""

    asked: int
    place: int
    event: PlacementEvent


class Asking:
    """One worker that is wanted, from the first request to the end of the last.

    Requests are made and withdrawn in the thread of whoever handles the words, never in the placement's.

    Parameters
    ----------
    placement, need
        Who is asked, for what.
    hear
        Called with each word, from the placement's threads.
    """

    def __init__(self, placement: Placement, need: WorkerNeed, hear: Callable[[Word], None]) -> None:
        self._placement = placement
        self._need = need
        self._hear = hear
        self._classes: tuple[GpuClass | None, ...] = (need.gpu_class, *need.backups)
        self._backups = Backups(self._classes, need.gpus)
        self._lock = threading.Lock()
        self._tickets: dict[int, tuple[int, Ticket]] = {}  # by the place of the class
        self._count = 0
        self._over = False

    @property
    def ticket(self) -> Ticket | None:
        """The request that has room; None while none has."""
        held = self._tickets.get(-1 if self._backups.chosen is None else self._backups.chosen)
        return None if held is None else held[1]

    @property
    def gpu_class(self) -> GpuClass | None:
        """The class that the worker is of, once one has room; before that its own."""
        return self._classes[self._backups.chosen or 0]

    @property
    def wanted(self) -> bool:
        """Whether another request waits for what the worker holds."""
        ticket = self.ticket
        return ticket is not None and ticket.wanted

    def is_of_worker(self, word: Word) -> bool:
        """Whether a word is of the request that has room."""
        return word.place == self._backups.chosen and self._is_current(word)

    def start(self) -> None:
        """Ask for a worker of the job's own class."""
        self._ask(0)

    def handle(self, word: Word) -> PlacementEvent | None:
        """Do what a word calls for, and return what is to be told of it."""
        if not self._is_current(word):
            return None
        moves = self._backups.hear(word.place, word.event)
        while True:
            for place in moves.withdraw:
                self._withdraw(place)
            if moves.ask is None:
                return moves.tell
            moves = self._ask_backup(moves.ask)

    def assign(self, job_id: str, owner: str) -> None:
        """Name the job that uses the worker from now on."""
        ticket = self.ticket
        if ticket is not None:
            ticket.assign(job_id, owner)

    def idle(self) -> None:
        """Say that nobody uses the worker until it is assigned again."""
        ticket = self.ticket
        if ticket is not None:
            ticket.idle()

    def release(self, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """Withdraw what waits, end the worker, and return when it is gone. Idempotent."""
        with self._lock:
            self._over = True
            tickets = [ticket for _, ticket in self._tickets.values()]
        for ticket in tickets:
            ticket.release(grace_seconds=grace_seconds)

    def _is_current(self, word: Word) -> bool:
        held = self._tickets.get(word.place)
        return held is not None and held[0] == word.asked

    def _ask_backup(self, place: int) -> Moves:
        try:
            self._ask(place)
        except LanceGpuError as exc:
            if place == 0:
                raise
            return self._backups.leave_out(place, exc.message)
        return Moves()

    def _ask(self, place: int) -> None:
        self._count += 1
        asked = self._count
        request = self._need.request(self._classes[place])
        ticket = self._placement.ask(request, lambda event: self._hear(Word(asked, place, event)))
        with self._lock:
            self._tickets[place] = asked, ticket
            over = self._over
        if over:
            ticket.release(grace_seconds=0)

    def _withdraw(self, place: int) -> None:
        with self._lock:
            _, ticket = self._tickets.pop(place)
        ticket.release(grace_seconds=0)
