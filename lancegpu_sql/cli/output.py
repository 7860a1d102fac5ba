"""Prints answers: tables drawn on a terminal, plain columns through a pipe, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel


def json_of(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_of(one) for one in value]
    return value


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(json_of(value), indent=2, ensure_ascii=False))


def print_rows(titles: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "") -> None:
    """Print rows under their titles; numbers stand to the right.

    Parameters
    ----------
    titles, rows
        What to print; None is left empty.
    none
        What to print, to standard error, where there are no rows.
    """
    if not rows:
        tell(none)
        return
    right = [all(_is_number(row[at]) for row in rows) for at in range(len(titles))]
    told = [[_text(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _draw(titles, told, right)
        return
    widths = [max(len(line[at]) for line in [titles, *told]) for at in range(len(titles))]
    for line in [titles, *told]:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, a line each; what is None or empty is left out."""
    told = {name: _text(value) for name, value in facts.items() if value not in (None, "", (), [], {})}
    width = max((len(name) for name in told), default=0)
    for name, text in told.items():
        first, *more = text.splitlines() or [""]
        print(f"{name.ljust(width)}  {first}")
        for line in more:
            print(f"{' ' * width}  {line}")


def tell(message: str) -> None:
    """Say something to people, where it does not stand among answers."""
    if message:
        print(message, file=sys.stderr)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case list() | tuple():
            return ", ".join(_text(one) for one in value)
        case _:
            return str(value)


def _draw(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    # rich takes longer to load than most commands to run: only a terminal pays for it.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for at, (title, is_right) in enumerate(zip(titles, right, strict=True)):
        # What stands first is what one copies: a name or an id.
        table.add_column(title, justify="right" if is_right else "left", overflow="fold", no_wrap=at == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
