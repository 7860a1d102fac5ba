"""The agent: runs the queued jobs of a database, and takes over those whose process is dead."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lancegpu_sql.catalog.models import OWNED, AgentRecord, JobRecord, JobState, ProcessIdentity, utc_now
from lancegpu_sql.errors import CatalogError, Conflict, JobNotFound, LanceGpuError
from lancegpu_sql.jobs.claims import SILENT_SHARE, Silence, beat_seconds, next_jobs
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.housekeeping import give_back, settle_if_dead
from lancegpu_sql.jobs.metrics import Metrics, schedules_text
from lancegpu_sql.jobs.runner import JobRunner, Work
from lancegpu_sql.jobs.running import RunningJob
from lancegpu_sql.jobs.words import news

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog
    from lancegpu_sql.jobs.schedules.scheduler import Scheduler

LOOK_SECONDS = 0.5
"""How often the catalog is looked at: a submitted or resumed job is taken within a second."""

_SOON_SECONDS = 0.02
"""Until the next look where more is due than one look takes: other threads have their turn."""

_UPKEEP_SECONDS = 3600.0

_MOST_QUEUED = 1000
"""Queued jobs that are read at once, oldest first: a bound for a queue that no agent keeps up with."""

_HOOKS_SECONDS = 2.0
"""How long an agent that ends lets pending calls of hooks go out."""

_log = logging.getLogger("lancegpu_sql.agent")


class Agent:
    """Runs queued jobs until it is told to stop. Any number of agents may serve one database.

    Parameters
    ----------
    catalog, runner
        Of the database.
    works
        By kind of job, what makes the work of one; jobs of other kinds are left alone.
    concurrency
        The most jobs to work on at a time. Jobs that wait, for a GPU class or for one another, are not counted, so that
        they hold up nobody; they cost a thread each.
    most_waiting
        The most jobs that wait; while so many do, no other is begun.
    lease_seconds
        How long a process of another host may be silent before its jobs are taken over.
    scheduler
        Queues what is due by its schedule.
    function_of
        Names the Function of a job, for the metrics.
    upkeep
        Called about once an hour: prunes old jobs and events.
    """

    def __init__(
        self,
        catalog: Catalog,
        runner: JobRunner,
        works: Mapping[str, Callable[[JobRecord], Work]],
        *,
        concurrency: int,
        lease_seconds: float,
        most_waiting: int = 256,
        scheduler: Scheduler | None = None,
        function_of: Callable[[JobRecord], str] = lambda _record: "",
        upkeep: Callable[[], object] = lambda: None,
    ) -> None:
        now = utc_now()
        self.record = AgentRecord(
            id=str(uuid.uuid4()),
            identity=ProcessIdentity.current(),
            kinds=tuple(sorted(works)),
            concurrency=concurrency,
            lease_seconds=lease_seconds,
            started_at=now,
            seen_at=now,
        )
        self._catalog = catalog
        self._runner = runner
        self._works = works
        self._most_waiting = most_waiting
        self._scheduler = scheduler
        self._upkeep = upkeep
        self._metrics = Metrics(function_of)
        self._jobs: dict[str, RunningJob] = {}
        self._told: dict[str, JobRecord] = {}  # as they stood when they were told of
        self._observing = threading.Lock()
        self._silent_jobs = Silence(lease_seconds * SILENT_SHARE)
        self._silent_agents = Silence(lease_seconds * SILENT_SHARE)
        self._beat_seconds = beat_seconds(lease_seconds)
        self._look_seconds = min(LOOK_SECONDS, self._beat_seconds)
        self._beaten_at: float | None = None
        self._upkept_at = time.monotonic()

    def run(
        self, stop: threading.Event, *, shutdown_grace_seconds: float, serving: Callable[[], None] = lambda: None
    ) -> None:
        """Serve until `stop` is set, then give back what has not finished.

        Calls in flight may finish within the grace and what they computed is kept; the jobs are `queued` again.

        Parameters
        ----------
        stop
            Ends it.
        shutdown_grace_seconds
            How long jobs may take to stop.
        serving
            Called once, when others can see that this agent serves.
        """
        try:
            while True:
                began = self._beaten_at is not None
                more = False
                try:
                    more = self._look(time.monotonic())
                    if not began:
                        serving()
                except CatalogError as problem:
                    _log.warning("The catalog does not answer; jobs that run go on. %s", problem)
                if stop.wait(_SOON_SECONDS if more else self._look_seconds):
                    return
        finally:
            self._leave(shutdown_grace_seconds)

    def problem(self) -> str | None:
        """Return why the agent does not serve; None while it does."""
        if self._beaten_at is None:
            return "it has not begun yet"
        silent_seconds = time.monotonic() - self._beaten_at
        if silent_seconds >= self.record.lease_seconds:
            return f"it could not reach the catalog for {silent_seconds:.0f} s"
        return None

    def metrics(self) -> str:
        """Return what it did and does, in Prometheus' text format."""
        self._observe()
        now = utc_now()
        jobs, waiting = self._catalog.count_jobs(), self._catalog.jobs(states=[JobState.WAITING])
        if self._scheduler is None:
            return self._metrics.text(jobs, waiting, now)
        counts, backlog = self._scheduler.counts.totals(), self._catalog.schedules_backlog(now)
        return self._metrics.text(jobs, waiting, now) + schedules_text(counts, backlog, now)

    def _look(self, now: float) -> bool:
        """Do what is to be done now; return whether more schedules are due than were dealt with."""
        if self._beaten_at is None or now - self._beaten_at >= self._beat_seconds:
            self._catalog.beat_agent(self.record)
            self._beaten_at = now
            self._forget_dead_agents(now)
        busy = self._take_from_the_dead(now)
        self._observe()
        more = self._keep_schedules()
        room = self._room()
        queued = self._catalog.queued_jobs(self.record.kinds, _MOST_QUEUED) if room > 0 else []
        for record in next_jobs(queued, busy, kinds=self._works, room=room):
            self._begin(record)
        if now - self._upkept_at >= _UPKEEP_SECONDS:
            self._upkept_at = now
            self._upkeep()
        return more

    def _keep_schedules(self) -> bool:
        try:
            return self._scheduler is not None and self._scheduler.look()
        except Exception as problem:  # whatever is wrong with a schedule, queued jobs are still to be run
            _log.warning("The schedules could not be looked after: %s", problem)
            return False

    def _room(self) -> int:
        with self._observing:
            jobs = tuple(self._jobs.values())
        waiting = sum(job.record.state is JobState.WAITING for job in jobs)
        return min(self.record.concurrency - (len(jobs) - waiting), self._most_waiting - waiting)

    def _take_from_the_dead(self, now: float) -> list[JobRecord]:
        """Put the jobs of dead processes back into the queue; return those of the living."""
        owned = self._catalog.jobs(states=OWNED)
        doubted = {one.id: one for one in owned if one.owner is not None and one.owner.is_alive() is None}
        beats = self._catalog.heartbeats() if doubted else {}
        signs = {job_id: beats[job_id] for job_id in doubted if job_id in beats}
        for job_id in self._silent_jobs.look(signs, now):
            record, (lease, heartbeat) = doubted[job_id], signs[job_id]
            assert record.owner is not None
            where = f"process {record.owner.pid} on {record.owner.host.partition('/')[0]}"
            why = f"No sign of life of {where}, which ran it, for {self.record.lease_seconds * SILENT_SHARE:.0f} s"
            if lease == record.lease and give_back(self._catalog, record, why, heartbeat) is not None:
                doubted.pop(job_id)
        living = [one for one in owned if one.owner is not None and one.owner.is_alive() is True]
        for one in owned:
            settle_if_dead(self._catalog, one)
        return [*living, *doubted.values()]

    def _forget_dead_agents(self, now: float) -> None:
        agents = {one.id: one for one in self._catalog.agents() if one.id != self.record.id}
        dead: dict[str, int | None] = {one.id: None for one in agents.values() if one.identity.is_alive() is False}
        doubted: dict[str, int | None] = {
            one.id: one.heartbeat for one in agents.values() if one.identity.is_alive() is None
        }
        silent = {agent_id: doubted[agent_id] for agent_id in self._silent_agents.look(doubted, now)}
        if dead or silent:
            self._catalog.remove_agents(dead | silent)

    def _begin(self, record: JobRecord) -> None:
        make = self._works[record.kind]

        def work(context: JobContext) -> dict[str, object]:
            return make(record)(context)  # what is wrong with the request fails the job, not the agent

        try:
            job = self._runner.start(record, work, only_queued=True)
        except (Conflict, JobNotFound):
            return  # another process took it, or someone cancelled it
        with self._observing:
            self._jobs[record.id] = job

    def _observe(self) -> None:
        with self._observing:  # a look and a scrape at once would count a job's last rows twice
            for job in tuple(self._jobs.values()):
                over = job.ended()
                record = job.record
                self._metrics.observe(record)
                self._tell(record)
                if over:
                    del self._jobs[job.id]
                    del self._told[job.id]

    def _tell(self, record: JobRecord) -> None:
        told = news(self._told.get(record.id), record)
        if told is not None:
            _log.info(told)
        self._told[record.id] = record

    def _leave(self, grace_seconds: float) -> None:
        try:
            self._catalog.remove_agents({self.record.id: None})
        except CatalogError as problem:
            _log.warning("The catalog does not answer; others will notice that this agent is gone. %s", problem)
        if self._scheduler is not None:
            self._scheduler.close(min(grace_seconds, _HOOKS_SECONDS))
        # Its own jobs alone: those that this process began otherwise are none of its business.
        with self._observing:
            jobs = list(self._jobs.values())
        self._runner.interrupt(jobs, grace_seconds)
        for job in jobs:
            if job.ended():
                continue
            # Its publications, if it is about to make one, conflict with those of the next.
            try:
                give_back(self._catalog, job.record, "The agent that ran it shut down, and it did not stop in time")
            except LanceGpuError as problem:
                _log.warning("Job %s could not be given back: %s", job.id, problem)
        self._observe()
