"""Prints answers: tables that fit a terminal, plain columns through a pipe, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from lancegpu_sql.cli.layout import GAP, LONGEST_WORD, column_widths, wrapped


def json_of(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return json_of(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {name: json_of(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_of(one) for one in value]
    return value


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(json_of(value), indent=2, ensure_ascii=False))


def print_rows(titles: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str = "") -> None:
    """Print rows under their titles; numbers stand to the right, text is wrapped where a terminal is narrow.

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
    width = terminal_width()
    if width is not None:
        _draw(titles, told, right, width)
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
    _print_named(told, terminal_width())


def terminal_width() -> int | None:
    """Return how wide the terminal is that answers go to; None where they go elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        case list() | tuple():
            return ", ".join(_text(one) for one in value)
        case _:
            return str(value)


def _draw(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], width: int) -> None:
    widths = column_widths(titles, rows, width)
    if widths is None:
        _draw_one_by_one(titles, rows, width)
        return
    for number, row in enumerate([titles, *rows]):
        columns = [wrapped(cell, cells) for cell, cells in zip(row, widths, strict=True)]
        for at in range(max(map(len, columns))):
            parts = [column[at] if at < len(column) else "" for column in columns]
            aligned = [
                part.rjust(cells) if is_right else part.ljust(cells)
                for part, cells, is_right in zip(parts, widths, right, strict=True)
            ]
            line = (" " * GAP).join(aligned).rstrip()
            print(f"\x1b[1m{line}\x1b[0m" if number == 0 else line)


def _draw_one_by_one(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Print a table that is too wide for the terminal: the rows one below the other, a line for each of their cells."""
    for number, row in enumerate(rows):
        if number:
            print()
        _print_named(dict(zip(titles, row, strict=True)), width)


def _print_named(told: Mapping[str, str], width: int | None) -> None:
    indent = max((len(name) for name in told), default=0) + GAP
    for name, text in told.items():
        lines = text.splitlines() or [""]
        if width is not None:
            lines = [part for line in lines for part in wrapped(line, max(width - indent, LONGEST_WORD))]
        print(f"{name.ljust(indent)}{lines[0]}".rstrip())
        for line in lines[1:]:
            print(f"{' ' * indent}{line}")
