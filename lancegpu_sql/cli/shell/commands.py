"""What the shell does beside SQL: commands that begin with a backslash. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancegpu_sql.errors import InvalidInput
from lancegpu_sql.sql.names import quote
from lancegpu_sql.sql.statements.scanner import Kind, words_of

HELP = """\
Statements end with ; and may have many lines. A query that waits or computes ends with Ctrl-C.

  \\d               the tables
  \\d TABLE         the columns of a table
  \\df              the Functions
  \\dv              the materialized views
  \\dj              the newest jobs
  \\rows COUNT      how many rows of a result are shown at most; 0 for all
  \\timing [on|off] say how long each statement took
  \\?               this list, as does help
  \\q               end, as do exit and Ctrl-D

Tab completes names and keywords. Up and Down go through earlier statements, also of other days; one that begins with
a space is not kept. All statements: docs/sql.md."""

NAMES = ("\\?", "\\d", "\\df", "\\dj", "\\dv", "\\q", "\\rows", "\\timing")


@dataclass(frozen=True)
class Statement:
    """SQL to run."""

    text: str


@dataclass(frozen=True)
class Listed:
    """List what there is of these, a line each."""

    what: Literal["functions", "jobs"]


@dataclass(frozen=True)
class Quit:
    """End the shell."""


@dataclass(frozen=True)
class Help:
    """Print the list of commands."""


@dataclass(frozen=True)
class Timing:
    """Say how long statements take, or not; None: the other than now."""

    on: bool | None


@dataclass(frozen=True)
class Rows:
    """Show so many rows at most; None: all."""

    most: int | None


Command = Statement | Listed | Quit | Help | Timing | Rows

# What other shells understand without a backslash.
_WORDS: dict[str, Command] = {"exit": Quit(), "quit": Quit(), "help": Help()}


def command_in(text: str) -> Command:
    """Return what was typed.

    Raises
    ------
    InvalidInput
        There is no such command, or it does not take that.
    """
    typed = text.strip()
    if not typed.startswith("\\"):
        return _WORDS.get(typed.rstrip("; ").lower(), Statement(text))
    name, _, rest = typed.partition(" ")
    name, given = name.rstrip(";"), rest.strip().rstrip(";").strip()
    if name == "\\d":
        return Statement(f"DESCRIBE {_named(given)}" if given else "SHOW TABLES")
    if name in ("\\timing", "\\rows"):
        return _timing(given) if name == "\\timing" else _rows(given)
    plain: dict[str, Command] = {
        "\\df": Listed("functions"),
        "\\dj": Listed("jobs"),
        "\\dv": Statement("SHOW MATERIALIZED VIEWS"),
        "\\q": Quit(),
        "\\?": Help(),
    }
    if name not in plain:
        raise InvalidInput(f"There is no command {name}; \\? lists those there are.")
    if given:
        raise InvalidInput(f"{name} takes nothing.")
    return plain[name]


def is_complete(text: str) -> bool:
    """Tell whether what was typed is all of it: a command, nothing, or statements of which the last has its semicolon."""
    typed = text.strip()
    if not typed or typed.startswith("\\") or typed.lower() in _WORDS:
        return True
    try:
        *words, _end = words_of(text)
    except InvalidInput:
        return False  # a string, a name or a comment goes on
    return bool(words) and words[-1].kind is Kind.SIGN and words[-1].value == ";"


def _named(given: str) -> str:
    """A table as SQL names it: as it is written, or quoted where it is no bare name."""
    return given if given.replace("_", "a").replace(".", "a").isalnum() or given.startswith('"') else quote(given)


def _timing(given: str) -> Timing:
    chosen = {"": None, "on": True, "off": False}
    if given.lower() not in chosen:
        raise InvalidInput(f"\\timing takes on or off, not {given!r}.")
    return Timing(chosen[given.lower()])


def _rows(given: str) -> Rows:
    if not given.isdecimal():
        raise InvalidInput(f"\\rows takes a number of rows, 0 for all; not {given!r}.")
    return Rows(int(given) or None)
