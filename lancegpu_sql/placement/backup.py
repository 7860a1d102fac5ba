"""Which GPU class a worker is asked from: its own, or, where that is full, one of its backups. Decisions, without any I/O.

A job's own class is asked first. Each backup is asked once all that were asked before it have said that they have no room.
The first that has room gets the worker and the others are withdrawn, so that no job has more workers than it wants. What is
wrong with the own class is told as ever; what is wrong with a backup only leaves that one out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.request import Lost, PlacementEvent, Preparing, Ready, Refused, Starting, Waiting, Wanted

FULL_REASONS = frozenset(
    {"in_use", "claim", "max_workers", "older_request", "other_resource", "quota", "cordoned", "not_ready"}
)
"""Why a class has no room at present, though nothing is wrong with how it is set up."""


@dataclass(frozen=True)
class Moves:
    """What to do next: tell an event on, withdraw the requests to some classes, ask another one; classes by their places."""

    tell: PlacementEvent | None = None
    withdraw: tuple[int, ...] = ()
    ask: int | None = None


class Backups:
    """The classes that may have one worker, the job's own first, and what each has said so far.

    Parameters
    ----------
    classes
        In the order in which they are asked.
    gpus
        What the worker needs of any of them.
    """

    def __init__(self, classes: Sequence[GpuClass | None], gpus: int) -> None:
        self._classes = tuple(classes)
        self._said: dict[int, Waiting] = {}
        self._left_out = {
            place: f"a worker of it has {one.max_gpu_count_per_worker} GPUs at most"
            for place, one in enumerate(self._classes)
            if place and one is not None and gpus > (one.max_gpu_count_per_worker or gpus)
        }
        self._asked = {0}
        self.chosen: int | None = None
        """The place of the class that has room; None while none has."""

    def hear(self, place: int, event: PlacementEvent) -> Moves:
        """Take note of what the request to one class has come to, and decide."""
        match event:
            case _ if place not in self._asked:
                return Moves()  # under way when it was withdrawn
            case Preparing() | Starting() | Ready():
                return self._choose(place, event)
            case Waiting():
                # One that had room may have lost it again: its node is gone.
                self.chosen = None if self.chosen == place else self.chosen
                self._said[place] = event
                return self._go_on()
            case Refused() if place:
                self._asked.discard(place)
                self._said.pop(place, None)
                self._left_out[place] = event.error.message
                self.chosen = None if self.chosen == place else self.chosen
                return self._go_on()
            case Lost() | Refused() | Wanted():
                return Moves(tell=event)

    def leave_out(self, place: int, why: str) -> Moves:
        """Note that a backup cannot be asked at all."""
        self._asked.discard(place)
        self._left_out[place] = why
        return self._go_on()

    def _choose(self, place: int, event: PlacementEvent) -> Moves:
        if self.chosen not in (None, place):
            return Moves()
        self.chosen = place
        others = tuple(sorted(self._asked - {place}))
        self._asked = {place}
        self._said.clear()
        return Moves(tell=event, withdraw=others)

    def _go_on(self) -> Moves:
        """Ask the next one, or say that none has room."""
        if self.chosen is not None or self._asked - self._said.keys():
            return Moves()
        for place in range(len(self._classes)):
            if place not in self._asked and place not in self._left_out and (place == 0 or self._is_full()):
                self._asked.add(place)
                return Moves(ask=place)
        return Moves(tell=self._waiting())

    def _is_full(self) -> bool:
        own = self._said[0]
        return own.reason in FULL_REASONS and own.can_be_met is not False

    def _waiting(self) -> Waiting:
        own = self._said[0]
        if len(self._classes) == 1 or not self._is_full():
            return own
        told: list[str] = []
        found: list[dict[str, Any]] = []
        for place, one in enumerate(self._classes[1:], start=1):
            name = "" if one is None else one.name
            said = self._said.get(place)
            reason, message = (said.reason, said.message) if said else ("left_out", self._left_out.get(place, ""))
            told.append(f"{name!r} ({reason if said else f'left out: {message}'})")
            found.append({"gpu_class": name, "reason": reason, "message": message})
        message = (
            f"{own.message}; its backup{'' if len(told) == 1 else 's'} cannot have it now either: {', '.join(told)}"
        )
        can_be_met = True if any(one.can_be_met for one in self._said.values()) else own.can_be_met
        return replace(own, message=message, detail={**own.detail, "backups": found}, can_be_met=can_be_met)
