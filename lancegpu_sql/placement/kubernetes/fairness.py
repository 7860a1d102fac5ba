"""Who among the requests of one process comes first: which may have a pod, which pod is whose, who must give one up.

The cluster's scheduler decides between pods that it knows; here is decided what it cannot know. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

MOST_NAMED = 20
"""Of the older requests in a queue, how many are named to one behind them: of a thousand, each would know a thousand."""


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
    """Its worker is kept warm, and no job uses it. Of other processes' workers it is known a moment later."""
    max_workers: int | None = None

    @property
    def age(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return self.asked_at, self.id

    @property
    def has_pod(self) -> bool:
        """Whether it has a pod, and keeps it."""
        return Stage.HELD < self.stage < Stage.LEAVING

    @property
    def waits_for_room(self) -> bool:
        """Whether a worker that ends may make room for it."""
        return self.stage < Stage.PLACED and self.for_room


@dataclass(frozen=True)
class Held:
    """Why a request gets no pod yet: the class's limit, or an older request that needs more at once.

    `older` are the first of those served before it, `older_count` is how many there are.
    """

    by_limit: bool
    older: tuple[str, ...]
    older_count: int


def held_back(standings: Iterable[Standing]) -> Mapping[str, Held]:
    """Return which requests must not have a pod yet.

    All that wait have pods, so that an autoscaler sees what is missing; but a small one behind a larger one would take
    each device as it becomes free, and the larger one would never start.
    """
    held: dict[str, Held] = {}
    for group in _by_class(standings).values():
        pods = 0
        older: list[str] = []
        older_count = most_gpus = 0
        for one in group:
            by_limit = one.max_workers is not None and pods >= one.max_workers
            if one.stage is Stage.HELD and (by_limit or most_gpus > one.gpus):
                held[one.id] = Held(by_limit, tuple(older), older_count)
            else:
                pods += 1
            if one.waits_for_room:
                older_count, most_gpus = older_count + 1, max(most_gpus, one.gpus)
                older += [one.id] if older_count <= MOST_NAMED else []
    return held


def over_limit(standings: Iterable[Standing]) -> frozenset[str]:
    """Return the requests with a pod that their class's limit does not allow, which must give it up unless they serve.

    Two processes that ask in the same moment do not know of each other yet; both then see who is the younger one.
    """
    over: set[str] = set()
    for group in _by_class(standings).values():
        limits = [one.max_workers for one in group if one.max_workers is not None]
        if limits:
            with_pods = sorted((one for one in group if one.has_pod), key=lambda one: one.age)
            over |= {one.id for one in with_pods[max(limits) :]}
    return frozenset(over)


def wanted(standings: Iterable[Standing]) -> frozenset[str]:
    """Return the placed requests that should give up what they hold: enough for those that wait, and no more.

    What is being given up already counts. Idle workers go first; then the job with the most workers gives, and its
    youngest worker.
    """
    chosen: set[str] = set()
    for group in _by_class(standings).values():
        coming = sum(one.gpus for one in group if one.stage is Stage.LEAVING)
        needed = sum(one.gpus for one in group if one.waits_for_room and one.stage is not Stage.PLACING) - coming
        for giver in _givers([one for one in group if one.stage is Stage.PLACED]):
            if needed <= 0:
                break
            chosen.add(giver.id)
            needed -= giver.gpus
    return frozenset(chosen)


def _givers(holders: Sequence[Standing]) -> Iterator[Standing]:
    """Yield the holders, the oldest first given, in the order in which they give."""
    workers = Counter(one.job_id for one in holders)
    alike: dict[tuple[bool, str], list[Standing]] = defaultdict(list)
    for one in holders:
        alike[one.idle, one.job_id].append(one)
    while alike:
        key = max(alike, key=lambda key: (key[0], workers[key[1]], alike[key][-1].age))
        yield alike[key].pop()
        workers[key[1]] -= 1
        if not alike[key]:
            del alike[key]


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
