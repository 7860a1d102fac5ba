"""What of a job fits into a line of a terminal."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from lancegpu_sql.catalog.models import JobRecord, JobState, Progress, WaitingOn
from lancegpu_sql.jobs.bar import JobView, fitted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNTS = ("1,234 of 20,000 rows", "1,234 rows/s", "3 min 20 s left")
HOLDER = (
    "the only device of GPU class 'default' is in use (simulated:default/0 by job "
    "01a2b3c4-5d6e-7f80-9123-456789abcdef (refresh of library.label, process 4711)); the worker starts as soon as one is free"
)
RUNNING = JobRecord(
    id="0193",
    kind="refresh_column",
    table="library",
    columns=("label", "kind", "score"),
    state=JobState.RUNNING,
    progress=Progress(
        phase="computing", rows_planned=20_000, rows_computed=12_345, rows_per_second=1_234.0, seconds_left=200.0
    ),
    created_at=NOW,
)
WAITING = RUNNING.model_copy(
    update={
        "state": JobState.WAITING,
        "progress": None,
        "waiting_on": WaitingOn(gpu_class="default", since=NOW, reason="in_use", message=HOLDER),
    }
)


def drawn(record: JobRecord, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(JobView(record))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_all_fits_a_wide_line() -> None:
    line = fitted("library.label +2", "computing", COUNTS, 140)
    assert (line.title, line.bar_cells, line.told) == ("library.label +2", 30, COUNTS)


def test_the_title_is_cut_first_then_the_bar_and_then_the_pace_goes() -> None:
    assert [
        (line.title, line.bar_cells, len(line.told))
        for line in (fitted("library.label +2", "computing", COUNTS, width) for width in (115, 100, 80, 60))
    ] == [("library.label +2", 30, 3), ("library.lab…", 19, 3), ("library.lab…", 16, 2), ("library.lab…", 10, 1)]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_running_job_is_one_line_with_bar_and_counts(width: int) -> None:
    (line,) = drawn(RUNNING, width)
    assert len(line) <= width
    assert re.search(r"computing  ━.* 12,345 of 20,000 rows", line)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_waiting_job_says_so_and_the_whole_reason_in_whole_words(width: int) -> None:
    first, *reason = drawn(WAITING, width)
    assert re.search(r"library\.label \+2  waiting \d+ ", first)
    assert " ".join(" ".join(reason).split()) == HOLDER
    assert all(len(line) <= width for line in (first, *reason))


def test_a_waiting_job_that_has_rows_already_shows_them() -> None:
    first, *_ = drawn(WAITING.model_copy(update={"progress": Progress(rows_planned=10, rows_reused=4)}), 80)
    assert "4 of 10 rows" in first
