"""`sql`: statements from the command line, a file or standard input; on a terminal, a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lancegpu_sql.cli.entry import EXIT_INTERRUPTED
from lancegpu_sql.cli.options import DbOption, opened
from lancegpu_sql.errors import InvalidInput

if TYPE_CHECKING:
    from lancegpu_sql.cli.rows import Form
    from lancegpu_sql.database import Database

_MOST_ROWS = 100


def sql(
    context: typer.Context,
    statements: Annotated[
        str | None, typer.Argument(metavar="STATEMENTS", help="What to run; a shell, or standard input, if left out.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Run the statements of a file; - is standard input."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the rows of the last statement as JSON, for programs.")
    ] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the rows of the last statement as CSV, for programs.")
    ] = False,
    max_rows: Annotated[
        int, typer.Option("--max-rows", metavar="COUNT", min=0, help="Most rows that a terminal shows; 0 for all.")
    ] = _MOST_ROWS,
    db: DbOption = None,
) -> None:
    """Run SQL: queries, Functions in them, and statements. Without any, a shell for it.

    Each statement's rows are printed, or those of the last with --json or --csv. What comes before a statement that fails
    is done.
    """
    if json and csv:
        raise typer.BadParameter("choose one of --json and --csv", param_hint="--csv")
    if statements is not None and file is not None:
        raise typer.BadParameter("give statements or a file of them, not both", param_hint="--file")
    form: Form = "json" if json else "csv" if csv else "shown"
    with opened(context, db) as database:
        if statements is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
            if form != "shown":
                raise typer.BadParameter("a shell draws tables; give statements", param_hint=f"--{form}")
            from lancegpu_sql.cli.shell import run_shell

            run_shell(database, most_rows=max_rows or None)
            return
        text = _read(file) if statements is None else statements
        try:
            _run(database, text, form, max_rows or None)
        except KeyboardInterrupt as interrupted:
            print(f"\n{str(interrupted) or 'Cancelled.'}", file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None


def _run(database: Database, text: str, form: Form, most_rows: int | None) -> None:
    from lancegpu_sql.cli.rows import print_result

    if form != "shown":
        print_result(database.sql(text), form)
        return
    for result in database.sql_each(text):
        print_result(result, most_rows=most_rows)
        sys.stdout.flush()


def _read(file: Path | None) -> str:
    """Return the text of a file, or of standard input."""
    try:
        if file is None or str(file) == "-":
            return sys.stdin.read()
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInput(f"{file or 'Standard input'} cannot be read: {exc}") from exc
