"""What an agent did and does, as numbers in Prometheus' text format: pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from threading import Lock

from lancegpu_sql.catalog.models import JobRecord, JobState
from lancegpu_sql.catalog.schedule_models import SUBJECT_KINDS, Backlog
from lancegpu_sql.jobs.schedules.counts import Counted
from lancegpu_sql.jobs.words import WITHOUT_ROWS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATES = {
    "starting_seconds": "starting",
    "computing_seconds": "busy",
    "waiting_for_rows_seconds": "idle",
    "idle_seconds": "idle",
}

_UPKEEP = {
    "fragments_removed": "fragments",
    "versions_removed": "versions",
    "files_removed": "files",
    "bytes_removed": "bytes",
    "checkpoints_removed": "checkpoints",
}

Labels = tuple[tuple[str, str], ...]
Samples = Mapping[Labels, float]

_Counts = Mapping[tuple[str, Labels, str], float]
"""By name, labels, and the worker that it is a number of."""


class Metrics:
    """Counts what the jobs of one agent did, from what their records say of them.

    Each look adds what is new in a record since the last one.

    Parameters
    ----------
    function_of
        Names the Function of a job.
    """

    def __init__(self, function_of: Callable[[JobRecord], str]) -> None:
        self._function_of = function_of
        self._lock = Lock()
        self._functions: dict[str, str] = {}
        self._last: dict[str, _Counts] = {}
        self._totals: defaultdict[tuple[str, Labels], float] = defaultdict(float)

    def observe(self, record: JobRecord) -> None:
        """Look at a job that runs here, or has just ended."""
        run = record.lease or record.id
        with self._lock:
            if run not in self._functions:
                self._functions[run] = self._function_of(record)
            counted = _counts(record, self._functions[run])
            last = self._last.get(run, {})
            for (name, labels, worker), amount in counted.items():
                before = last.get((name, labels, worker), 0.0)
                # A worker that was given back and leased again counts from nothing.
                self._totals[name, labels] += amount - before if amount >= before else amount
            if record.state.ended or record.owner is None:
                self._functions.pop(run)
                self._last.pop(run, None)
            else:
                self._last[run] = counted

    def text(self, jobs: Mapping[JobState, int], waiting: Iterable[JobRecord], now: datetime) -> str:
        """Return all numbers.

        Parameters
        ----------
        jobs
            How many jobs the database has in each state.
        waiting
            Its jobs that wait.
        now
            The present time.
        """
        longest: dict[Labels, float] = {}
        count: Counter[Labels] = Counter()
        for job in waiting:
            if job.waiting_on is not None:
                labels = _labels(gpu_class=job.waiting_on.gpu_class or "", reason=job.waiting_on.reason)
                longest[labels] = max(longest.get(labels, 0.0), (now - job.waiting_on.since).total_seconds())
                count[labels] += 1
        with self._lock:
            totals = dict(self._totals)

        def total(name: str) -> Samples:
            return {labels: amount for (one, labels), amount in sorted(totals.items()) if one == name}

        by_state = {_labels(state=str(state)): float(number) for state, number in jobs.items()}
        return "".join(
            [
                _family("lancegpu_jobs", "gauge", "Jobs of the database, by state.", by_state),
                _family("lancegpu_jobs_waiting", "gauge", "Jobs that wait, by GPU class and reason.", count),
                _family("lancegpu_job_waiting_seconds", "gauge", "How long the longest of them has waited.", longest),
                _family(
                    "lancegpu_worker_seconds_total",
                    "counter",
                    "Seconds that workers of this agent's jobs spent starting, busy and idle.",
                    total("worker_seconds"),
                ),
                _family(
                    "lancegpu_rows_total",
                    "counter",
                    "Rows of this agent's jobs, by what became of them.",
                    total("rows"),
                ),
                _family("lancegpu_calls_total", "counter", "Calls of Functions by this agent's jobs.", total("calls")),
                _family(
                    "lancegpu_upkeep_total",
                    "counter",
                    "Fragments made fewer by this agent's jobs; versions, files, bytes and checkpoints removed.",
                    total("upkeep"),
                ),
            ]
        )


def schedules_text(counts: Mapping[tuple[Counted, str], float], backlog: Backlog, now: datetime) -> str:
    """Return what an agent did about schedules, and what all schedules of the database have before them.

    Parameters
    ----------
    counts
        Of this agent, as `ScheduleCounts` adds them up.
    backlog
        Of the database.
    now
        The present time.
    """
    overdue = 0.0 if backlog.due_since is None else max((now - backlog.due_since).total_seconds(), 0.0)

    def by_kind(what: Counted) -> Samples:
        # Those that never happened are 0: a counter that begins with its first event hides that one from `rate`.
        return {_labels(kind=kind): counts.get((what, kind), 0.0) for kind in SUBJECT_KINDS}

    lateness = "lancegpu_schedule_lateness_seconds"
    return "".join(
        [
            _family("lancegpu_schedules_due", "gauge", "Schedules whose time has come.", {(): float(backlog.due)}),
            _family("lancegpu_schedule_overdue_seconds", "gauge", "Since when the first of them is.", {(): overdue}),
            _family("lancegpu_schedules_failing", "gauge", "Schedules that failed last.", {(): float(backlog.failing)}),
            _family("lancegpu_schedule_runs_total", "counter", "Refreshes that this agent found due.", by_kind("runs")),
            _family("lancegpu_schedule_failures_total", "counter", "Those that failed.", by_kind("failures")),
            _family(
                "lancegpu_schedule_skipped_total",
                "counter",
                "Due times skipped, for the last refresh still ran or waited.",
                by_kind("skipped"),
            ),
            f"# HELP {lateness} How long after its time a refresh was queued.\n# TYPE {lateness} summary\n",
            _samples(f"{lateness}_sum", by_kind("late_seconds")),
            _samples(f"{lateness}_count", by_kind("runs")),
        ]
    )


def _counts(record: JobRecord, function: str) -> _Counts:
    counted: defaultdict[tuple[str, Labels, str], float] = defaultdict(float)
    for worker, spent in (record.timings or {}).get("workers", {}).items():
        for name, state in _STATES.items():
            counted["worker_seconds", _labels(function=function, state=state), worker] += spent.get(name, 0)
        counted["calls", _labels(function=function), worker] += spent.get("calls", 0)
    for name, what in _UPKEEP.items():
        if record.kind in WITHOUT_ROWS and record.result is not None:
            counted["upkeep", _labels(what=what), ""] += record.result.get(name, 0)
    if record.progress is not None:
        rows = record.progress
        outcomes = {"computed": rows.rows_computed, "reused": rows.rows_reused, "failed": rows.rows_failed}
        for outcome, amount in outcomes.items():
            counted["rows", _labels(function=function, outcome=outcome), ""] += amount
    return counted


def _labels(**labels: str) -> Labels:
    return tuple(labels.items())


def _family(name: str, kind: str, about: str, samples: Samples) -> str:
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n{_samples(name, samples)}"


def _samples(name: str, samples: Samples) -> str:
    lines = []
    for labels, value in samples.items():
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        lines.append(f"{name}{{{told}}} {value:.15g}\n" if told else f"{name} {value:.15g}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
