"""The shell of SQL: lines are edited by prompt_toolkit, which is loaded here only, statements are run by a `Database`.

What completes a word, ends a statement or is meant by a command is decided by pure functions, without a terminal.
"""

from __future__ import annotations

from lancegpu_sql.cli.shell.loop import run_shell

__all__ = ["run_shell"]
