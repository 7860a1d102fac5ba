"""Reads statements from a terminal, runs them and shows what they give, until its user ends it."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterable
from typing import Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from lancegpu_sql.cli.functions import print_functions
from lancegpu_sql.cli.jobs import print_jobs
from lancegpu_sql.cli.output import tell
from lancegpu_sql.cli.rows import print_result, says_nothing
from lancegpu_sql.cli.shell.commands import HELP, Help, Listed, Quit, Rows, Statement, Timing, command_in, is_complete
from lancegpu_sql.cli.shell.completion import Names, completions
from lancegpu_sql.cli.shell.history import open_history
from lancegpu_sql.cli.shell.names import DatabaseNames
from lancegpu_sql.database import Database
from lancegpu_sql.errors import LanceGpuError
from lancegpu_sql.version import __version__

_PROMPT = "lancegpu> "
_CONTINUED = "     ...> "
_LISTED_JOBS = 20


def run_shell(
    database: Database, *, most_rows: int | None, input_: Input | None = None, output: Output | None = None
) -> None:
    """Run a shell of a database until its user ends it.

    Parameters
    ----------
    most_rows
        How many rows of a result are shown at most, until ``\\rows`` says otherwise; all if None.
    input_, output
        The terminal; that of this process if left out.
    """
    print(f"lancegpu {__version__}, database {database.uri}. Statements end with ;   \\? helps, \\q ends.")
    _Shell(database, most_rows, input_, output).run()


class _Shell:
    def __init__(self, database: Database, most_rows: int | None, input_: Input | None, output: Output | None) -> None:
        self._database = database
        self._most_rows = most_rows
        self._timing = False
        self._names = DatabaseNames(database)
        history, complaint = open_history()
        tell(complaint or "")
        self._prompts: PromptSession[str] = PromptSession(
            message=_PROMPT,
            multiline=True,
            prompt_continuation=_CONTINUED,
            history=history,
            completer=_NameCompleter(self._names),
            complete_while_typing=False,
            key_bindings=_keys(),
            enable_open_in_editor=True,
            input=input_,
            output=output,
        )

    def run(self) -> None:
        """Read and run, until the end."""
        while True:
            try:
                typed = self._prompts.prompt()
                if not self._obey(typed):
                    return
            except EOFError:
                return
            except KeyboardInterrupt:
                continue  # what was typed is dropped

    def _obey(self, typed: str) -> bool:
        """Do what was typed; False where it was to end."""
        try:
            match command_in(typed):
                case Quit():
                    return False
                case Help():
                    print(HELP)
                case Timing(on):
                    self._timing = not self._timing if on is None else on
                    print(f"Timing is {'on' if self._timing else 'off'}.")
                case Rows(most):
                    self._most_rows = most
                case Listed(what):
                    self._list(what)
                case Statement(text):
                    self._run(text)
        except LanceGpuError as problem:
            tell(problem.message)
        return True

    def _list(self, what: Literal["functions", "jobs"]) -> None:
        if what == "functions":
            print_functions(self._database.list_functions())
        else:
            print_jobs(self._database.list_jobs(limit=_LISTED_JOBS, finished_queries=False))

    def _run(self, text: str) -> None:
        if not text.strip(" \t\r\n;"):
            return
        begun = time.perf_counter()
        try:
            for result in self._database.sql_each(text):
                if says_nothing(result):
                    print("Done.")
                print_result(result, most_rows=self._most_rows)
        except LanceGpuError as problem:
            tell(problem.message)
        except KeyboardInterrupt as interrupted:
            tell(f"\n{str(interrupted) or 'Cancelled.'}")
        except Exception:
            traceback.print_exc()  # a fault of ours must not take with it what the user made in the session
        finally:
            self._names.forget()
        if self._timing:
            print(f"Time: {time.perf_counter() - begun:.3f} s")
        sys.stdout.flush()


class _NameCompleter(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Offer what the word under the cursor may become."""
        try:
            typed, found = completions(document.text_before_cursor, document.text_after_cursor, self._names)
        except LanceGpuError:
            return  # the statement will say what is wrong
        for each in found:
            yield Completion(each, start_position=-len(typed))


def _keys() -> KeyBindings:
    """Enter ends what is complete, and is a new line elsewhere; in a list of completions it chooses."""
    keys = KeyBindings()

    @Condition
    def chosen() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @keys.add("enter", filter=~(has_completions & chosen))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_completions & chosen)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return keys
