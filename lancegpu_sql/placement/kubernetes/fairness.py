"""Who among the requests of one process comes first: which may have a pod, which pod is whose, who must give one up.

The cluster's scheduler decides between pods that it knows; here is decided what it cannot know. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Stage(IntEnum):
    """How far a request is with its pod."""

    HELD = 0
    """It has none yet, by our own decision."""
    PLACING = 1
    """It has one, or is about to, and the scheduler has not said a word."""
    WAITING = 2
    """Its pod waits for room."""
    PLACED = 3
    """Its pod has a node."""
    LEAVING = 4
    """Its pod is being ended: what it holds is about to be free."""


@dataclass(frozen=True)
class Standing:
    """One request of one class.

    `shape` tells which pods may stand for each other. `for_room` is False for a pod that waits for something else than
    what other workers of its class hold: an image, or what no node has.
    """

    id: str
    job_id: str
    gpu_class: str
    gpus: int
    asked_at: float
    stage: Stage
    arrival: int = 0
    """Counts the requests as they come; a request that is asked again is older than it came."""
    shape: str = ""
    for_room: bool = True
    idle: bool = False
    """Its worker is kept warm, and no job uses it. Of other processes' workers that is not known."""
    max_workers: int | None = None

    @property
    def age(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return self.asked_at, self.id

    @property
    def waits_for_room(self) -> bool:
        """Whether a worker that ends may make room for it."""
        return self.stage < Stage.PLACED and self.for_room


@dataclass(frozen=True)
class Held:
    """Why a request gets no pod yet: the class's limit, or an older request that needs more at once."""

    by_limit: bool
    older: tuple[str, ...]


def held_back(standings: Iterable[Standing]) -> Mapping[str, Held]:
    """Return which requests must not have a pod yet.

    All that wait have pods, so that an autoscaler sees what is missing; but a small one behind a larger one would take
    each device as it becomes free, and the larger one would never start.
    """
    held: dict[str, Held] = {}
    for group in _by_class(standings).values():
        pods = 0
        older_waiting: list[Standing] = []
        for one in group:
            before = tuple(other.id for other in older_waiting)
            if one.max_workers is not None and pods >= one.max_workers and one.stage is Stage.HELD:
                held[one.id] = Held(by_limit=True, older=before)
            elif one.stage is Stage.HELD and any(other.gpus > one.gpus for other in older_waiting):
                held[one.id] = Held(by_limit=False, older=before)
            else:
                pods += 1
            if one.waits_for_room:
                older_waiting.append(one)
    return held


def wanted(standings: Iterable[Standing]) -> frozenset[str]:
    """Return the placed requests that should give up what they hold: enough for those that wait, and no more.

    What is being given up already counts. Idle workers go first; then the job with the most workers gives, and its
    youngest worker.
    """
    chosen: set[str] = set()
    for group in _by_class(standings).values():
        coming = sum(one.gpus for one in group if one.stage is Stage.LEAVING)
        holders = [one for one in group if one.stage is Stage.PLACED]
        needed = sum(one.gpus for one in group if one.waits_for_room and one.stage is not Stage.PLACING) - coming
        while needed > 0 and holders:
            workers = Counter(one.job_id for one in holders)
            giver = max(holders, key=lambda one: (one.idle, workers[one.job_id], one.age))
            holders.remove(giver)
            chosen.add(giver.id)
            needed -= giver.gpus
    return frozenset(chosen)


def rightful(standings: Iterable[Standing], placed: str) -> str:
    """Return the request that the pod of `placed`, which has just got a node, should go to: the oldest of its shape."""
    standings = tuple(standings)
    mine = next(one for one in standings if one.id == placed)
    rivals = [
        one
        for one in standings
        if one.gpu_class == mine.gpu_class
        and one.shape == mine.shape
        and (one.stage is Stage.WAITING or (one.stage is Stage.PLACING and one.arrival < mine.arrival))
        and one.age < mine.age
    ]
    return min(rivals, key=lambda one: one.age, default=mine).id


def _by_class(standings: Iterable[Standing]) -> Mapping[str, Sequence[Standing]]:
    groups: dict[str, list[Standing]] = defaultdict(list)
    for one in sorted(standings, key=lambda one: (one.stage < Stage.PLACED, one.age)):
        groups[one.gpu_class].append(one)
    return groups
