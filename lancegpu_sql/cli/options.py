"""What the commands share: how groups are made, which database is meant, how it is opened."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancegpu_sql.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from lancegpu_sql.database import Database
    from lancegpu_sql.settings import Settings

DB_VARIABLE = "LANCEGPU_DB"

DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="FOLDER",
        help=f"The database's folder, or s3://bucket/name. If left out: ${DB_VARIABLE}, or else the current folder.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up after this time, with exit status 75."),
]

NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Leave it to an agent, and print the job's id.")]


@dataclass(frozen=True)
class Invocation:
    """What stood before the command's name; the context's object."""

    db: str | None = None


def group(help_: str, *, epilog: str | None = None) -> typer.Typer:
    """Return an empty group of commands; alone it prints its help."""
    return typer.Typer(
        help=help_,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # drawing help with rich would take as long again as all the rest of it
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


@contextmanager
def opened(context: typer.Context, db: str | None, *, new: bool = False, **overrides: Any) -> Iterator[Database]:
    """Open the database that a command line means, and close it after the command.

    Parameters
    ----------
    context, db
        Of the command.
    new
        A folder that is no database yet becomes one.
    **overrides
        Settings.

    Raises
    ------
    NotFound
        The folder is no database.
    """
    from lancegpu_sql.database import connect

    named = named_database(context, db)
    if named == "":
        raise InvalidInput("--db names no folder: it is empty. Write --db . for the current folder.")
    folder = named or os.environ.get(DB_VARIABLE) or "."
    settings = settings_with(**overrides)
    if not new and not _is_database(folder, settings):
        raise NotFound(
            f"{folder} is no database: it holds neither tables (*.lance) nor a catalog. Name one with --db FOLDER or "
            f"${DB_VARIABLE}, or make one with: {shlex.join(['lancegpu', 'init', '--db', folder])}",
            uri=folder,
        )
    with connect(folder, settings=settings) as database:
        yield database


def settings_with(**overrides: Any) -> Settings:
    """Read the settings; the variable that names the database is none of them."""
    from lancegpu_sql.settings import Settings

    environment = {name: value for name, value in os.environ.items() if name != DB_VARIABLE}
    return Settings.load(environment, **overrides)


def named_database(context: typer.Context, db: str | None) -> str | None:
    """Return the folder that the command line names, after the command or before it."""
    if db is not None:
        return db
    found = context.find_object(Invocation)
    return None if found is None else found.db


def again(context: typer.Context, db: str | None, *command: str) -> str:
    """Return the command line that goes on in the same database."""
    named = named_database(context, db)
    return shlex.join(["lancegpu", *([] if named is None else ["--db", named]), *command])


def _is_database(folder: str, settings: Settings) -> bool:
    from lancegpu_sql.database.location import holds_database, is_database

    return is_database(folder, settings) if "://" in folder else holds_database(folder)
