"""Runs jobs in threads of this process, and keeps their records true whatever happens to them."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lancegpu_sql.catalog.models import EventDraft, JobRecord, JobState, ProcessIdentity, utc_now
from lancegpu_sql.errors import Cancelled, CatalogError, Conflict, JobNotFound
from lancegpu_sql.jobs.claims import beat_seconds
from lancegpu_sql.jobs.context import JobContext
from lancegpu_sql.jobs.failure import error_record, json_safe
from lancegpu_sql.jobs.housekeeping import settle_if_dead
from lancegpu_sql.jobs.job import ENDS_WITH_PROCESS, JobEvent, states_before, transition
from lancegpu_sql.jobs.journal import Journal
from lancegpu_sql.jobs.log import JobLog, log_path
from lancegpu_sql.jobs.running import RunningJob, paused
from lancegpu_sql.jobs.words import title

if TYPE_CHECKING:
    from lancegpu_sql.catalog.store import Catalog

Work = Callable[[JobContext], dict[str, Any]]

WATCH_INTERVAL_SECONDS = 0.5
"""A cancellation asked for by another process arrives within a second."""

_GRACE_SHARE = 0.7

_log = logging.getLogger("lancegpu_sql.jobs")


class JobRunner:
    """Runs work in threads of this process; one more thread watches the catalog for them all.

    The threads are daemons, so that a program that ends is not held up by a job that waits for a GPU. `close`, which
    also runs when the interpreter exits, stops what still runs: such jobs are `queued` again and can be resumed.

    Parameters
    ----------
    catalog
        Where the jobs' records are kept.
    folder
        A private folder of the database; logs stand in ``logs/``.
    watch_interval_seconds
        How often progress is written and requests to stop or pause are looked for.
    lease_seconds
        How long this process may give no sign of life before other hosts take its jobs over.
    log_limit_bytes
        The most bytes of one job's log.
    """

    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        *,
        watch_interval_seconds: float = WATCH_INTERVAL_SECONDS,
        lease_seconds: float = 30.0,
        log_limit_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._catalog = catalog
        self._folder = folder
        self._watch_interval_seconds = watch_interval_seconds
        self._beat_seconds = beat_seconds(lease_seconds)
        self._log_limit_bytes = log_limit_bytes
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._running: dict[str, RunningJob] = {}
        self._unwritten: dict[str, Journal] = {}  # jobs that ended, which the catalog could not be told yet
        self._watcher: threading.Thread | None = None
        self._closing = threading.Event()
        self._at_exit = functools.partial(_close_at_exit, weakref.ref(self), self._pid)
        atexit.register(self._at_exit)

    def start(self, record: JobRecord, work: Work, *, only_queued: bool = False) -> RunningJob:
        """Run a job here: a new one, or one in the catalog that nobody runs (queued, paused, failed or cancelled).

        Parameters
        ----------
        record
            The job.
        work
            Gets the job's context and returns its result, as JSON.
        only_queued
            Take it only if it is `queued` still: nobody asked for one that failed meanwhile.

        Raises
        ------
        Conflict
            Another process runs the job, it has finished, or this runner was closed.
        """
        if self._closing.is_set():
            raise Conflict("This database was closed; connect again to start a job.", job_id=record.id)
        self._write_ends()
        owner = ProcessIdentity.current()
        journal = Journal(self._catalog, self._claim(record, owner, only_queued), owner)
        context = JobContext(journal, JobLog(log_path(self._folder, record.id), self._log_limit_bytes))
        job = RunningJob(self._catalog, journal, context)
        thread = threading.Thread(
            target=self._run, args=(job, journal, context, work), name=f"lancegpu job {record.id}", daemon=True
        )
        with self._lock:
            self._running[job.id] = job
            if self._closing.is_set():
                job.interrupt()  # closed since it was asked above: `close` knows nothing of this job
            else:
                self._keep_watch()
        thread.start()
        return job

    def running(self) -> list[RunningJob]:
        """Return the jobs that run here now."""
        with self._lock:
            return list(self._running.values())

    def find(self, job_id: str) -> RunningJob | None:
        """Return a job that runs here now."""
        with self._lock:
            return self._running.get(job_id)

    def interrupt(self, jobs: Sequence[RunningJob], timeout_seconds: float) -> None:
        """Stop some of the jobs and wait for them; they are `queued` again, for any process to resume.

        Calls in flight may finish within most of the time, and what they give is kept.
        """
        deadline = time.monotonic() + timeout_seconds
        for job in jobs:
            # What is left is for the work to end in: workers given back, the last part and the job's record written.
            job.interrupt(timeout_seconds * _GRACE_SHARE)
        for job in jobs:
            if not job.ended(max(deadline - time.monotonic(), 0.0)):
                _log.warning("Job %s did not stop within %s s; it is left behind.", job.id, timeout_seconds)

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Stop what still runs, as `interrupt` does, and take no other job."""
        atexit.unregister(self._at_exit)
        if self._pid != os.getpid():
            return  # a forked child: the threads are its parent's
        self._closing.set()
        self.interrupt(self.running(), timeout_seconds)
        watcher = self._watcher
        if watcher is not None:
            watcher.join(timeout_seconds)
        for job_id in self._write_ends():
            _log.warning("The end of job %s was never written; it will be seen as interrupted.", job_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _claim(self, record: JobRecord, owner: ProcessIdentity, only_queued: bool) -> JobRecord:
        fresh: dict[str, Any] = {
            "state": transition(JobState.QUEUED, JobEvent.CLAIMED),
            "owner": owner,
            "started_at": utc_now(),
            "finished_at": None,
            "waiting_on": None,
            "progress": None,
            "result": None,
            "error": None,
            "timings": None,
            "cancel_requested": False,
            "pause_requested": False,
            "lease": str(uuid.uuid4()),
        }
        here = f"process {owner.pid} on {owner.host.partition('/')[0]}"
        try:
            known = self._catalog.job(record.id)
        except JobNotFound:
            claimed = record.model_copy(update=fresh)
            self._catalog.add_job(claimed, [EventDraft(kind="started", message=f"It runs in {here}.")])
            return claimed
        settle_if_dead(self._catalog, known)
        told = EventDraft(kind="resumed", message=f"It goes on in {here}.")
        if only_queued and known.started_at is None:
            told = EventDraft(kind="started", message=f"It runs in {here}.")
        try:
            return self._catalog.update_job(
                record.id,
                expected_states=states_before(JobEvent.CLAIMED)
                | (set() if only_queued else states_before(JobEvent.RESUMES)),
                events=[told],
                **fresh,
            )
        except Conflict as refused:
            raise _not_to_be_resumed(self._catalog.job(record.id), refused) from None

    def _run(self, job: RunningJob, journal: Journal, context: JobContext, work: Work) -> None:
        result: dict[str, Any] | None = None
        error: BaseException | None = None
        try:
            result = work(context)
        except BaseException as raised:
            error = raised
        try:
            context.close()
            # While the interpreter goes down, before `close` has its turn, work fails for reasons of no interest.
            interrupted = job.interrupted or not threading.main_thread().is_alive()
            _conclude(journal, result, error, interrupted=interrupted)
            if journal.record.state is JobState.PAUSED:
                error = paused(journal.record)
            journal.flush()
        except CatalogError as refused:
            _log.warning("The end of job %s could not be written yet: %s", job.id, refused)
            with self._lock:
                self._unwritten[job.id] = journal
                if not self._closing.is_set():
                    self._keep_watch()
        finally:
            # Whatever becomes of the record, who waits for the job must not wait for ever.
            with self._lock:
                # As soon as its end is written, the same job may have been resumed here.
                if self._running.get(job.id) is job:
                    del self._running[job.id]
            job.end(result, journal.lost or error)

    def _write_ends(self) -> list[str]:
        """Write the ends that the catalog could not be told before; return the jobs of those that it still refuses."""
        with self._lock:
            unwritten = list(self._unwritten.items())
        for job_id, journal in unwritten:
            try:
                journal.flush()
            except CatalogError:
                continue
            with self._lock:
                if self._unwritten.get(job_id) is journal:
                    del self._unwritten[job_id]
        with self._lock:
            return list(self._unwritten)

    def _keep_watch(self) -> None:
        """See to it that somebody watches; only with the lock."""
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="lancegpu jobs", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        beaten_at = time.monotonic()
        while not self._closing.wait(self._watch_interval_seconds):
            with self._lock:
                jobs = list(self._running.values())
                if not jobs and not self._unwritten:
                    self._watcher = None
                    return
            self._write_ends()
            for job in jobs:
                job.flush()
            try:
                to_stop = self._catalog.cancels_requested([job.id for job in jobs])
                to_hold = self._catalog.pauses_requested([job.id for job in jobs])
                if time.monotonic() - beaten_at >= self._beat_seconds:
                    self._beat(jobs)
                    beaten_at = time.monotonic()
            except CatalogError:
                continue  # locked or full: all this is done again soon
            for job in jobs:
                if job.id in to_stop:
                    job.stop()
                elif job.id in to_hold:
                    job.hold()

    def _beat(self, jobs: Sequence[RunningJob]) -> None:
        leases = {job.id: str(job.record.lease) for job in jobs if not (job.ended() or job.record.state.ended)}
        for job_id in self._catalog.beat_jobs(leases) if leases else ():
            job = self.find(job_id)
            if job is not None and not job.record.state.ended and job.record.lease == leases[job_id]:
                job.lose()


def _not_to_be_resumed(record: JobRecord, refused: Conflict) -> Conflict:
    """Return the refusal of a job that cannot be taken, in the words of its present state."""
    if record.state is JobState.FINISHED:
        why = "has finished: there is nothing left to go on with. A new refresh computes what has changed since."
    elif record.owner is not None:
        why = (
            f"is {record.state}: process {record.owner.pid} on {record.owner.host.partition('/')[0]} runs it. Watch it, "
            "or cancel it first."
        )
    else:
        return refused
    return Conflict(f"Job {record.id} {why}", **refused.facts)


def _conclude(
    journal: Journal, result: dict[str, Any] | None, error: BaseException | None, *, interrupted: bool
) -> None:
    """Put the end of the work into the record."""
    ended: dict[str, Any] = {"waiting_on": None, "finished_at": utc_now()}
    if error is None:
        told = EventDraft(kind="finished", message="It finished.", detail=json_safe(result or {}))
        journal.put(JobEvent.FINISHES, told, result=json_safe(result), **ended)
    elif journal.record.pause_requested and not journal.record.cancel_requested and isinstance(error, Cancelled):
        told = EventDraft(kind="paused", message="It holds as asked; what it finished is kept.")
        journal.put(JobEvent.PAUSES, told, waiting_on=None, owner=None)
    elif interrupted and not (journal.record.cancel_requested or journal.record.kind in ENDS_WITH_PROCESS):
        told = EventDraft(kind="interrupted", message="The process that ran it stopped; the job can be resumed.")
        journal.put(JobEvent.OWNER_DIED, told, waiting_on=None, owner=None)
    elif isinstance(error, Cancelled):
        told = EventDraft(kind="cancelled", message="It stopped as asked; what it finished is kept.")
        journal.put(JobEvent.CANCELS, told, **ended)
    else:
        kept = error_record(error)
        told = EventDraft(kind="failed", message=kept["message"], detail={"type": kept["type"]})
        journal.put(JobEvent.FAILS, told, error=kept, **ended)


def _close_at_exit(reference: weakref.ref[JobRunner], process_id: int) -> None:
    runner = reference()
    if runner is None or process_id != os.getpid():
        return  # a process that forked off; the lock may have been held when it did
    jobs = runner.running()
    runner.close()
    for job in jobs:
        if job.record.state is JobState.QUEUED:
            _log.warning(
                "Job %s (%s) had not ended when the program did. What it finished is kept: resume it, or let the program "
                "wait for it with job.wait().",
                job.id,
                title(job.record),
            )
