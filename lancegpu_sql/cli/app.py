"""The tree of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from lancegpu_sql.cli import (
    agent,
    classes,
    demo,
    functions,
    jobs,
    optimize,
    refresh,
    schedules,
    sql,
    tables,
    views,
    why,
)
from lancegpu_sql.cli.options import DbOption, Invocation, group
from lancegpu_sql.version import __version__

app = group(
    "SQL over Lance tables in which Python Functions, GPU ones included, fill computed columns and keep them fresh.",
    epilog="Exit status: 0 done, 1 failed, 2 wrong usage, 75 still waiting at --timeout, 130 interrupted.",
)
app.command("init")(tables.init)
app.command("tables")(tables.list_tables)
app.command("columns")(tables.columns)
app.command("sql")(sql.sql)
app.add_typer(functions.app, name="functions")
app.add_typer(classes.app, name="classes")
app.command("refresh")(refresh.refresh)
app.command("views")(views.views)
app.command("refresh-view")(views.refresh_view)
app.command("optimize")(optimize.optimize)
app.command("schedules")(schedules.schedules)
app.add_typer(schedules.app, name="schedule")
app.add_typer(jobs.app, name="jobs")
app.command("why")(why.why)
app.command("agent")(agent.agent)
app.command("agents")(agent.agents)
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lancegpu {__version__}")
        raise typer.Exit


@app.callback()
def before_each_command(
    context: typer.Context,
    db: DbOption = None,
    version: Annotated[  # noqa: ARG001 - its callback ends the program
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Keep what stands before the command's name."""
    context.obj = Invocation(db)
