"""Who gets which device: the decisions behind the ledger, without any I/O.

Requests are served oldest first. A request that lacks devices keeps those of its devices that are free from younger
ones, so that one for four devices is not starved by many for one. A request that more than waiting is needed for (its
class has fewer devices than it asks for) keeps nothing back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import FiniteFloat, PositiveInt

from lancegpu_sql.catalog.models import Model, ProcessIdentity
from lancegpu_sql.placement.request import Waiting


class Claim(Model):
    """One request as all processes of the host see it.

    `candidates` are the ids of the devices that would do, `devices` those it got; none while it waits. `process` asked
    and `worker` runs: as long as one of the two lives, or anything that bears the worker's `mark`, the devices are taken.
    `mailbox` is where the placement that asked hears of changes.
    """

    id: str
    owner: str
    gpu_class: str
    candidates: tuple[str, ...]
    gpus: PositiveInt
    max_workers: int | None = None
    asked_at: FiniteFloat
    mailbox: str
    process: ProcessIdentity
    worker: ProcessIdentity | None = None
    mark: str = ""
    devices: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it has no devices yet."""
        return not self.devices

    @property
    def can_be_met(self) -> bool:
        """Whether the class has as many devices as it asks for, free or not."""
        return self.gpus <= len(self.candidates)


@dataclass
class _Stock:
    """What is left while requests are served in their order."""

    free: set[str]
    workers: Counter[str]

    @classmethod
    def beside(cls, claims: Iterable[Claim]) -> _Stock:
        claims = tuple(claims)
        every = {device for claim in claims for device in claim.candidates}
        taken = {device for claim in claims for device in claim.devices}
        return cls(every - taken, Counter(claim.gpu_class for claim in claims if not claim.waits))

    def serve(self, claim: Claim) -> Claim:
        """Return the claim with its devices, or as it was, its free devices then being kept for it."""
        if not claim.can_be_met or self.is_capped(claim):
            return claim
        usable = [device for device in claim.candidates if device in self.free]
        if len(usable) < claim.gpus:
            self.free.difference_update(usable)
            return claim
        devices = tuple(usable[: claim.gpus])
        self.free.difference_update(devices)
        self.workers[claim.gpu_class] += 1
        return claim.model_copy(update={"devices": devices})

    def is_capped(self, claim: Claim) -> bool:
        return claim.max_workers is not None and self.workers[claim.gpu_class] >= claim.max_workers


def settle(claims: Iterable[Claim], is_alive: Callable[[Claim], bool]) -> tuple[Claim, ...]:
    """Drop the claims of the dead, give what is free to the oldest that wait, and return all, oldest first."""
    living = sorted((claim for claim in claims if is_alive(claim)), key=_age)
    stock = _Stock.beside(living)
    return tuple(stock.serve(claim) if claim.waits else claim for claim in living)


def room(claims: Sequence[Claim], like: Claim) -> int:
    """Return how many claims `like` this one would be served at once, were they made now."""
    stock = _Stock.beside((*claims, like))
    for claim in claims:
        if claim.waits:
            stock.serve(claim)
    count = 0
    while not stock.serve(like).waits:
        count += 1
    return count


def wanted_by(claims: Iterable[Claim], holder: Claim) -> frozenset[str]:
    """Return the ids of the waiting claims that could be served, or sooner, if `holder` gave its devices back."""
    claims = tuple(claims)
    stock = _Stock.beside(claims)
    return frozenset(
        claim.id
        for claim in claims
        if claim.waits
        and claim.can_be_met
        and (
            claim.gpu_class == holder.gpu_class
            if stock.is_capped(claim)
            else not set(claim.candidates).isdisjoint(holder.devices)
        )
    )


def why_waiting(claims: Sequence[Claim], claim: Claim, problem: str | None) -> Waiting:
    """Say why a claim waits; `problem` is what was wrong with the devices of its class, if anything."""
    name = repr(claim.gpu_class)
    if not claim.can_be_met:
        return _cannot_be_met(claim, problem)
    older = [other for other in claims if other.waits and other.can_be_met and _age(other) < _age(claim)]
    rivals = [other for other in older if not set(other.candidates).isdisjoint(claim.candidates)]
    queue = f"; {_count(len(rivals), 'older request')} before it" if rivals else ""
    stock = _Stock.beside(claims)
    if stock.is_capped(claim):
        holders = [other for other in claims if other.gpu_class == claim.gpu_class and not other.waits]
        return Waiting(
            "max_workers",
            f"GPU class {name} allows {_count(claim.max_workers or 0, 'worker')} at a time, in use by "
            f"{_words(other.owner for other in holders)}; the worker starts as soon as one ends{queue}",
            _detail(claim, holders, rivals),
            can_be_met=True,
        )
    holders = [other for other in claims if not set(other.devices).isdisjoint(claim.candidates)]
    total, free = len(claim.candidates), sum(device in stock.free for device in claim.candidates)
    who = "; ".join(f"{', '.join(other.devices)} by {other.owner}" for other in holders)
    if not free:
        subject = "the only device" if total == 1 else f"all {total} devices"
        message = f"{subject} of GPU class {name} {'is' if total == 1 else 'are'} in use ({who})"
    else:
        kept = f", kept for {_words(other.owner for other in rivals)}" if rivals and free >= claim.gpus else ""
        message = f"{free} of {total} devices of GPU class {name} {'is' if free == 1 else 'are'} free{kept}"
        message += f", in use: {who}" if who else ""
    needs = "one is free" if claim.gpus == 1 else f"{claim.gpus} are free at once"
    return Waiting(
        "in_use",
        f"{message}; the worker starts as soon as {needs}{queue}",
        _detail(claim, holders, rivals),
        can_be_met=True,
    )


def _cannot_be_met(claim: Claim, problem: str | None) -> Waiting:
    name, total = repr(claim.gpu_class), len(claim.candidates)
    because = f": {problem}" if problem else ""
    detail = _detail(claim, (), ())
    if not total:
        message = (
            f"GPU class {name} has no devices on this machine{because}; the job waits until it has, or run it where the "
            "class has devices"
        )
        return Waiting("no_device", message, detail, can_be_met=False)
    message = (
        f"GPU class {name} has {_count(total, 'device')} on this machine and one worker needs {claim.gpus}{because}; "
        "ask for fewer (gpus) or give the class more devices"
    )
    return Waiting("too_large", message, detail, can_be_met=False)


def _detail(claim: Claim, holders: Iterable[Claim], rivals: Sequence[Claim]) -> dict[str, object]:
    return {
        "devices": list(claim.candidates),
        "gpus": claim.gpus,
        "holders": [
            {
                "owner": holder.owner,
                "devices": list(holder.devices),
                "pid": holder.process.pid,
                "worker_pid": holder.worker.pid if holder.worker else None,
            }
            for holder in holders
        ],
        "older_requests": [rival.owner for rival in rivals],
    }


def _age(claim: Claim) -> tuple[float, str]:
    return claim.asked_at, claim.id


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _words(owners: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(owners)) or "nobody"
