"""A job's progress in words: pure."""

from __future__ import annotations

from datetime import datetime

from lancegpu_sql.catalog.models import OWNED, UNENDED, JobRecord, JobState, Progress
from lancegpu_sql.maintenance.request import OPTIMIZE, REMOVE_LEFT_OVER

WAITING_PHASE = "waiting"
"""The phase of a job that is `waiting`; the others are named by the work."""

_WORTH_TELLING_SECONDS = 0.05

WITHOUT_ROWS = frozenset({OPTIMIZE, REMOVE_LEFT_OVER})
"""Kinds of jobs that compute no rows."""


def title(record: JobRecord) -> str:
    """Return what a job works on, e.g. ``reviews.score``, short enough to leave room for a bar."""
    if record.table is None:
        return record.kind.replace("_", " ")
    if record.kind in WITHOUT_ROWS:
        return f"{record.kind} {record.table}"
    if not record.columns:
        return record.table
    more = f" +{len(record.columns) - 1}" if record.columns[1:] else ""
    return f"{record.table}.{record.columns[0]}{more}"


def phase(record: JobRecord) -> str:
    """Return what a job does now, in a word or two."""
    if record.state is JobState.RUNNING and record.progress is not None and record.progress.phase is not None:
        return record.progress.phase
    return str(record.state)


def line(record: JobRecord, now: datetime) -> str:
    """Return one line that says how a job stands."""
    head = f"{title(record)}: {phase(record)}"
    if record.waiting_on is not None:
        since = duration((now - record.waiting_on.since).total_seconds())
        return f"{head} ({since}): {record.waiting_on.message}"
    if record.progress is None or record.progress.rows_planned is None:
        return head
    return f"{head} {', '.join(counts(record.progress))}"


def final_line(record: JobRecord) -> str:
    """Return one line that says how a job ended."""
    took = ""
    if record.started_at is not None and record.finished_at is not None:
        took = f" in {duration((record.finished_at - record.started_at).total_seconds())}{_waited(record)}"
    head = f"{title(record)}: {record.state}"
    if record.state is JobState.FAILED:
        # The error itself is raised, or shown, by whoever asked for the job.
        return f"{head}{took} ({(record.error or {}).get('type', 'unknown error')})"
    progress = None if record.kind in WITHOUT_ROWS else record.progress
    return f"{head}{took}" if progress is None else f"{head}, {_done(progress)}{took}"


def news(before: JobRecord | None, record: JobRecord) -> str | None:
    """Return one line that says what has become of a job since it was told of last; None where nothing is worth a line."""
    head = f"Job {record.id}: {title(record)}"
    if record.state not in UNENDED:
        why = f": {(record.error or {}).get('message', '')}" if record.state is JobState.FAILED else ""
        return f"Job {record.id}: {final_line(record)}{why}" if before is None or before.state in UNENDED else None
    if record.waiting_on is not None:
        told = before.waiting_on.reason if before is not None and before.waiting_on is not None else None
        return None if told == record.waiting_on.reason else f"{head} waits: {record.waiting_on.message}"
    if before is None:
        return f"{head} begins"
    if record.state not in OWNED:
        return f"{head} is {record.state}" if before.state is not record.state else None
    return f"{head} goes on" if before.waiting_on is not None else None


def rows(progress: Progress) -> str:
    """Return how many rows are done of how many."""
    done = progress.rows_computed + progress.rows_reused + progress.rows_failed
    planned = "" if progress.rows_planned is None else f" of {progress.rows_planned:,}"
    failed = f" ({progress.rows_failed:,} failed)" if progress.rows_failed else ""
    noun = "row" if (done if progress.rows_planned is None else progress.rows_planned) == 1 else "rows"
    return f"{done:,}{planned} {noun}{failed}"


def counts(progress: Progress) -> list[str]:
    """Return how many rows are done, how fast and how long it takes, what matters most first; what is not known is not said."""
    left = "" if progress.seconds_left is None else f"{duration(progress.seconds_left)} left"
    return [part for part in (rows(progress), rate(progress), left) if part]


def rate(progress: Progress) -> str:
    """Return the rows per second, empty where they are not known."""
    speed = progress.rows_per_second
    if speed is None:
        return ""
    return f"{speed:,.0f} rows/s" if speed >= 10 else f"{speed:.2g} rows/s"


def duration(seconds: float) -> str:
    """Return a time span as people say it: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _waited(record: JobRecord) -> str:
    """Return how much of its time a job waited for room, which says nothing of its Function."""
    seconds = (record.timings or {}).get("phases", {}).get(WAITING_PHASE, 0.0)
    return f", {duration(seconds)} of them waiting" if seconds >= _WORTH_TELLING_SECONDS else ""


def _done(progress: Progress) -> str:
    parts = [f"{progress.rows_computed:,} row{'' if progress.rows_computed == 1 else 's'} computed"]
    if progress.rows_reused:
        parts.append(f"{progress.rows_reused:,} reused")
    if progress.rows_failed:
        parts.append(f"{progress.rows_failed:,} failed")
    return ", ".join(parts)
