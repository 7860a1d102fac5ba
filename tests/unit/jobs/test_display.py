"""What a person sees of a job: little where it lands in a file, and nothing twice."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lancegpu_sql.catalog.models import JobRecord, JobState, ProcessIdentity, Progress, WaitingOn
from lancegpu_sql.jobs.display import PlainLines, Style, style_for, watch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = ProcessIdentity(host="here", pid=1, started_at=0.0)
QUEUED = JobRecord(id="0193", kind="refresh_column", table="reviews", columns=("score",), created_at=NOW)


def computing(rows: int) -> JobRecord:
    progress = Progress(phase="computing", rows_planned=100, rows_computed=rows)
    return QUEUED.model_copy(update={"state": JobState.RUNNING, "owner": OWNER, "progress": progress})


def waiting(message: str) -> JobRecord:
    waiting_on = WaitingOn(gpu_class="l4", since=NOW, reason="in_use", message=message)
    return QUEUED.model_copy(update={"state": JobState.WAITING, "owner": OWNER, "waiting_on": waiting_on})


FINISHED = computing(100).model_copy(
    update={"state": JobState.FINISHED, "started_at": NOW, "finished_at": NOW, "waiting_on": None}
)


class Story:
    """A job that goes through records, one at each look."""

    def __init__(self, *records: JobRecord) -> None:
        self._records: Iterator[JobRecord] = iter(records)
        self.record = next(self._records)

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord:
        self.record = next(self._records)
        return self.record

    def ended(self, timeout_seconds: float | None = 0.0) -> bool:
        return self.record.state.ended

    def unattended(self, record: JobRecord) -> bool:
        return record.state is JobState.QUEUED and record.owner is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(style: Style, *records: JobRecord) -> list[str]:
    stream = io.StringIO()
    watch(Story(*records), stream, style)
    return stream.getvalue().splitlines()


def test_lines_tell_each_phase_once() -> None:
    lines = shown("lines", waiting("all taken"), waiting("all taken"), computing(1), computing(2), FINISHED)
    assert [line.split(":")[1].split()[0] for line in lines] == ["waiting", "computing", "finished,"]


def test_lines_tell_a_new_reason_for_waiting() -> None:
    lines = shown("lines", waiting("all taken"), waiting("no node"), FINISHED)
    assert [line.rpartition(": ")[2] for line in lines[:2]] == ["all taken", "no node"]


def test_lines_tell_rows_seldom() -> None:
    stream, clock = io.StringIO(), iter(range(100))
    lines = PlainLines(stream, lambda: float(next(clock)))
    for rows in range(20):
        lines.show(computing(rows))
    assert 1 < len(stream.getvalue().splitlines()) <= 6


def test_quiet_tells_the_end_only() -> None:
    assert shown("quiet", computing(1), FINISHED) == ["reviews.score: finished, 100 rows computed in 0.0 s"]


def test_a_bar_tells_phase_and_rows_and_leaves_one_line() -> None:
    stream = Terminal()
    watch(Story(waiting("all taken"), computing(50), FINISHED), stream, "bar")
    assert stream.getvalue().endswith("reviews.score: finished, 100 rows computed in 0.0 s\n")


def test_a_job_that_nobody_runs_is_not_watched_for_ever() -> None:
    assert shown("lines", QUEUED) == ["reviews.score: queued"]


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    record = FINISHED.model_copy(update={"table": "[red]reviews[/red]"})
    assert shown("bar", record)[-1].startswith("[red]reviews[/red].score: finished")


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    watch(Story(FINISHED.model_copy(update={"table": "größe"})), stream, "quiet")
    assert raw.getvalue().startswith(b"gr??e.score: finished")


@pytest.mark.parametrize(("term", "style"), [("xterm", "bar"), ("dumb", "lines")])
def test_a_terminal_gets_a_bar_if_it_can_draw_one(term: str, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    assert style_for(Terminal()) == style


def test_a_pipe_gets_lines() -> None:
    assert style_for(io.StringIO()) == "lines"
