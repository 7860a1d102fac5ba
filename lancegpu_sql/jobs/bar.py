"""A job as a terminal shows it: one line with a bar that fits its width, and below it why it waits, in whole words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from lancegpu_sql.catalog.models import JobRecord, Progress, utc_now
from lancegpu_sql.jobs import words

BAR_CELLS = 30
LEAST_BAR_CELLS = 10
LEAST_TITLE_CELLS = 12
_SPINNER_CELLS = 1
_GAP_CELLS = 2


@dataclass(frozen=True)
class Line:
    """What fits into one line: a title, cut where it must be, a phase, a bar's width, and counts."""

    title: str
    phase: str
    bar_cells: int
    told: tuple[str, ...]


def fitted(title: str, phase: str, told: Sequence[str], width: int) -> Line:
    """Return what of a job fits into a line so wide.

    The title is cut first, then the bar; then the last of `told` go. The first, the counts, stays longest.
    """
    kept = list(told)
    while True:
        others = [_SPINNER_CELLS, cell_len(phase), *(cell_len(one) for one in kept)]
        spare = width - sum(others) - _GAP_CELLS * (len(others) + 1)
        if len(kept) <= 1 or spare >= min(cell_len(title), LEAST_TITLE_CELLS) + LEAST_BAR_CELLS:
            break
        kept.pop()
    title_cells = min(cell_len(title), max(spare - BAR_CELLS, LEAST_TITLE_CELLS))
    bar_cells = min(max(spare - title_cells, LEAST_BAR_CELLS), BAR_CELLS)
    return Line(_cut(title, max(min(title_cells, spare - bar_cells), 1)), phase, bar_cells, tuple(kept))


class JobView:
    """Draws a job anew each time; `record` is how it stands."""

    def __init__(self, record: JobRecord) -> None:
        self.record = record
        self._spinner = Spinner("dots")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line, and the reason for waiting below it."""
        record = self.record
        waiting_on = record.waiting_on
        phase = words.phase(record)
        if waiting_on is not None:
            phase = f"{phase} {words.duration((utc_now() - waiting_on.since).total_seconds())}"
        yield self._line(words.title(record), phase, record.progress, options.max_width)
        if waiting_on is not None:
            indent = _SPINNER_CELLS + _GAP_CELLS
            yield Padding(Text(waiting_on.message), (0, 0, 0, indent))

    def _line(self, title: str, phase: str, progress: Progress | None, width: int) -> Table:
        table = Table.grid(padding=(0, _GAP_CELLS, 0, 0), pad_edge=False)
        if progress is None or progress.rows_planned is None:
            room = width - _SPINNER_CELLS - 2 * _GAP_CELLS - cell_len(phase)
            cells: list[RenderableType] = [self._spinner, _text(_cut(title, max(room, 1))), _text(phase)]
        else:
            line = fitted(title, phase, words.counts(progress), width)
            done = progress.rows_computed + progress.rows_reused + progress.rows_failed
            bar = ProgressBar(total=max(progress.rows_planned, 1), completed=done, width=line.bar_cells)
            cells = [self._spinner, _text(line.title), _text(line.phase), bar, *(_text(one) for one in line.told)]
        for _ in cells:
            table.add_column(no_wrap=True)
        table.add_row(*cells)
        return table


def _text(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _cut(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else f"{set_cell_size(text, cells - 1).rstrip()}…"
