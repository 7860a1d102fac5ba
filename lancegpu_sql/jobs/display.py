"""Shows a job's progress while someone waits for it: a bar on a terminal, plain lines elsewhere, one line in a notebook."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TextIO

from lancegpu_sql.catalog.models import JobRecord, utc_now
from lancegpu_sql.jobs import words

Style = Literal["auto", "bar", "lines", "quiet"]

LINE_INTERVAL_SECONDS = 5.0
"""Plain lines end up in log files: a new phase at once, anything else this seldom."""

_FRAME_SECONDS = 0.1
_TICK_SECONDS = 1.0


class Watched(Protocol):
    """What is shown: `RunningJob` and `FollowedJob`."""

    @property
    def record(self) -> JobRecord: ...

    def next_change(self, after: JobRecord, timeout_seconds: float | None = None) -> JobRecord: ...

    def ended(self, timeout_seconds: float | None = 0.0) -> bool: ...

    def unattended(self, record: JobRecord) -> bool: ...


def watch(job: Watched, stream: TextIO | None = None, style: Style = "auto") -> JobRecord:
    """Show a job until it ends, and return it as it then is.

    Returns also where nobody runs the job any more. Ctrl-C goes through to the caller, with the terminal left in order.

    Parameters
    ----------
    job
        A job of this process or of another.
    stream
        Where to; standard error by default.
    style
        ``auto`` is ``bar`` on a terminal, ``quiet`` (one final line) in a notebook, ``lines`` elsewhere.
    """
    stream = sys.stderr if stream is None else stream
    chosen = style_for(stream) if style == "auto" else style
    if chosen == "bar":
        record = _follow_with_bar(job, stream)
    elif chosen == "lines":
        record = _follow(job, PlainLines(stream).show, nullcontext())
    else:
        record = _follow(job, lambda _record: None, nullcontext())
    _write(stream, words.final_line(record))
    return record


def style_for(stream: TextIO) -> Style:
    """Return the style that suits a stream."""
    if "ipykernel" in sys.modules:
        return "quiet"
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return "bar"
    return "lines"


class PlainLines:
    """Says what is new: a phase or a reason for waiting at once, rows at most once in `LINE_INTERVAL_SECONDS`."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._said: tuple[str, str | None] | None = None
        self._said_at = 0.0
        self._last_line = ""

    def show(self, record: JobRecord) -> None:
        """Write a line if one is due."""
        if record.state.ended or (record.progress is None and record.waiting_on is None):
            return
        topic = (words.phase(record), record.waiting_on.message if record.waiting_on is not None else None)
        line = words.line(record, utc_now())
        overdue = self._clock() - self._said_at >= LINE_INTERVAL_SECONDS and line != self._last_line
        if topic != self._said or overdue:
            _write(self._stream, line)
            self._said, self._said_at, self._last_line = topic, self._clock(), line


def _follow(job: Watched, show: Callable[[JobRecord], None], around: AbstractContextManager[object]) -> JobRecord:
    with around:
        record = job.record
        show(record)
        while not (record.state.ended or job.unattended(record)):
            changed = job.next_change(record, _TICK_SECONDS)
            show(changed)
            record = changed
            # Rows come thousands of times a second; eyes need ten.
            job.ended(_FRAME_SECONDS)
        return record


def _follow_with_bar(job: Watched, stream: TextIO) -> JobRecord:
    # rich costs 50 ms: only a terminal pays for it.
    from rich.console import Console
    from rich.live import Live

    from lancegpu_sql.jobs.bar import JobView

    view = JobView(job.record)

    def show(record: JobRecord) -> None:
        view.record = record

    return _follow(job, show, Live(view, console=Console(file=stream), refresh_per_second=10, transient=True))


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(line + "\n")
        stream.flush()
    except UnicodeEncodeError:
        stream.write(line.encode("ascii", "replace").decode() + "\n")
        stream.flush()
