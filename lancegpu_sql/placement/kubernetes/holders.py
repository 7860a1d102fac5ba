"""Who holds devices: jobs of ours by their pods' labels, others by number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lancegpu_sql.placement.kubernetes.names import FUNCTION_LABEL, JOB_LABEL
from lancegpu_sql.placement.kubernetes.quantities import whole
from lancegpu_sql.placement.kubernetes.views import PodView
from lancegpu_sql.placement.kubernetes.wording import count

_NAMED_JOBS = 3


@dataclass
class Holding:
    """What one job, or all others together, hold."""

    function: str = ""
    pods: int = 0
    devices: int = 0
    ending: int = 0

    def add(self, pod: PodView, amount: int) -> None:
        """Count one pod in."""
        self.pods += 1
        self.devices += whole(amount)
        self.ending += pod.delete_by is not None


@dataclass(frozen=True)
class Holders:
    """Jobs, those that hold most first, and the rest."""

    jobs: dict[str, Holding]
    others: Holding


def holders_of(holders: Iterable[tuple[PodView, int]]) -> Holders:
    """Add up who holds how many."""
    jobs: dict[str, Holding] = {}
    others = Holding()
    for pod, amount in holders:
        if pod.is_ours:
            job = pod.labels.get(JOB_LABEL, "")
            jobs.setdefault(job, Holding(pod.labels.get(FUNCTION_LABEL, ""))).add(pod, amount)
        else:
            others.add(pod, amount)
    ordered = sorted(jobs.items(), key=lambda item: (-item[1].devices, item[0]))
    return Holders(dict(ordered), others)


def holders_words(found: Holders, noun: str, *, mine: str | None, unseen: bool = False) -> str:
    """Return ``by job 0193… (3 GPUs), by 2 pods that are not ours (5 GPUs)``.

    Parameters
    ----------
    found
        Who holds how many.
    noun
        What a device is called.
    mine
        The job that waits.
    unseen
        Whether there may be pods that cannot be seen.
    """
    parts = [
        f"by {_job_words(job, held, mine)} ({count(held.devices, noun)}{_ending(held)})"
        for job, held in list(found.jobs.items())[:_NAMED_JOBS]
    ]
    if len(found.jobs) > _NAMED_JOBS:
        more = list(found.jobs.values())[_NAMED_JOBS:]
        parts.append(f"by {count(len(more), 'more job')} ({count(sum(held.devices for held in more), noun)})")
    if found.others.pods:
        pods = f"{count(found.others.pods, 'pod')} that {'is' if found.others.pods == 1 else 'are'} not ours"
        parts.append(f"by {pods} ({count(found.others.devices, noun)}{_ending(found.others)})")
    if unseen:
        parts.append("by pods that cannot be seen")
    return ", ".join(parts) or "by nobody that can be seen"


def _job_words(job: str, held: Holding, mine: str | None) -> str:
    if job and job == mine:
        return "this job"
    function = f" of {held.function}" if held.function else ""
    return f"job {job}{function}" if job else "a worker of ours"


def _ending(held: Holding) -> str:
    return ", ending" if held.ending == held.pods and held.pods else ""
