"""What a job needs a worker for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lancegpu_sql.functions.environment import Environment
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.request import WorkerRequest
from lancegpu_sql.workers.calls import FunctionLoad


@dataclass(frozen=True)
class WorkerNeed:
    """A Function, where it runs and for whom.

    Parameters
    ----------
    load
        The Function to load.
    gpu_class, gpus, cpus, env
        Where and with what it runs; see `WorkerRequest`.
    job_id, owner
        Who asks, for the messages of those who wait behind.
    since
        From when on a worker is wanted (seconds of `time.time`), which is its place among those who wait; None is from
        the asking on.
    queue
        The cluster's queue that admits the worker, instead of its class's.
    backups
        GPU classes that may be used instead, in this order, where `gpu_class` is full.
    cpu_rung
        The size of a CPU worker, which the pool knows.
    avoid
        Places to keep off, where there are others: a device failed there.
    environment
        Packages and Python of its own, which the Function's version names.
    image
        What the worker runs on Kubernetes, instead of its class's.
    secrets
        Where the values of its secret variables come from.
    withheld
        Variables of this process that are secrets of other Functions, or of the database.
    """

    load: FunctionLoad
    gpu_class: GpuClass | None
    gpus: int
    cpus: int
    env: Mapping[str, str]
    job_id: str
    owner: str
    since: float | None = None
    queue: str | None = None
    backups: tuple[GpuClass, ...] = ()
    cpu_rung: str | None = None
    avoid: frozenset[str] = frozenset()
    environment: Environment | None = None
    image: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()

    @property
    def queue_name(self) -> str | None:
        """The queue that admits the worker; None where none is named."""
        return self.queue or (None if self.gpu_class is None else self.gpu_class.queue)

    def met_by(self, other: WorkerNeed) -> bool:
        """Whether a worker started for `other` serves this need as well.

        One that another queue admitted does not: what it takes is counted against that team's quota.
        """
        return (
            self.load.same_content(other.load)
            and (self.queue_name, self.cpu_rung) == (other.queue_name, other.cpu_rung)
            and (self.gpu_class, self.gpus, self.cpus) == (other.gpu_class, other.gpus, other.cpus)
            and dict(self.env) == dict(other.env)
            and (self.image, dict(self.secrets)) == (other.image, dict(other.secrets))
        )

    def on(self, gpu_class: GpuClass | None) -> WorkerNeed:
        """Return the same need on one class, without others to fall back on."""
        return replace(self, gpu_class=gpu_class, backups=())

    def request(self, gpu_class: GpuClass | None) -> WorkerRequest:
        """Return a request for a new worker of a class."""
        return WorkerRequest(
            request_id=uuid.uuid4().hex,
            job_id=self.job_id,
            owner=self.owner,
            function=self.load.function,
            version=self.load.version,
            gpu_class=gpu_class,
            gpus=self.gpus,
            cpus=self.cpus,
            env=self.env,
            asked_at=time.time() if self.since is None else self.since,
            queue=self.queue,
            cpu_rung=self.cpu_rung,
            avoid=self.avoid,
            environment=self.environment,
            image=self.image,
            secrets=self.secrets,
            withheld=self.withheld,
        )
