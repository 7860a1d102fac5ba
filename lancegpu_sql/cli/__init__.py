"""`lancegpu …`: a thin face over `Database`, one file a group of commands.

A command reads its options, calls one method of a database and prints what comes back; it decides nothing. Modules here
import typer and the standard library only, so that `lancegpu --help` is quick: a command loads what it uses.
"""

from __future__ import annotations

from lancegpu_sql.cli.entry import main

__all__ = ["main"]
