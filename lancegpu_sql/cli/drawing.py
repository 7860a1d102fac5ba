"""Draws rows on a terminal: a table where they fit side by side, or else each row by itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lancegpu_sql.cli.layout import GAP, column_widths
from lancegpu_sql.cli.texts import one_line, printable

_MOST_CHARACTERS = 1_000
"""Of one value: a document is not read in a table."""

Row = Sequence[str | None]


def draw_rows(
    titles: Sequence[str], rows: Sequence[Row], right: Sequence[bool], console: Console | None = None
) -> None:
    """Draw rows.

    Parameters
    ----------
    titles, rows
        What to draw; None is NULL.
    right
        Which columns stand to the right.
    """
    console = console or Console(highlight=False)
    names = [one_line(title) for title in titles]
    cells = [[_shown(value) for value in row] for row in rows]
    # Two spaces and a line between columns, where the layout counts a gap.
    room = console.width - (len(names) + 1) * 3 + (len(names) - 1) * GAP
    widths = column_widths(names, [[cell.plain for cell in row] for row in cells], room, whole=-1)
    if widths is None:
        _draw_one_by_one(names, cells, console)
        return
    table = Table(box=box.ROUNDED, header_style="bold")
    for name, is_right, width in zip(names, right, widths, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold", width=max(width, 1))
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _draw_one_by_one(names: Sequence[str], rows: Sequence[Sequence[Text]], console: Console) -> None:
    for number, row in enumerate(rows, start=1):
        console.rule(f"row {number}", align="left", style="dim")
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_column(style="bold", overflow="fold", max_width=console.width // 2)
        table.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            table.add_row(Text(name), cell)
        console.print(table)
    if not rows:
        console.print(Text(", ".join(names)))


def _shown(value: str | None) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    text = printable(value.replace("\t", "    "))
    return Text(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…")
