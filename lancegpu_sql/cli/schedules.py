"""`schedules`: what is refreshed by itself, and how it stands; `schedule`: set, drop, switch on and off."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, group, opened

if TYPE_CHECKING:
    from lancegpu_sql.database.schedule_infos import ScheduleInfo

_TABLE_AND_COLUMN = 2

app = group("Set, drop, enable and disable schedules.")

ScheduleArgument = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="What it is about, as `schedules` names it: TABLE.COLUMN, or VIEW.")
]


def schedules(
    context: typer.Context,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Of this table only; of all if left out.")
    ] = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """List the schedules. Of each its state, last and next run, rows, failures in a row, and for what it waits."""
    from lancegpu_sql.cli.output import print_json, print_rows

    with opened(context, db) as database:
        found = database.list_schedules(table)
    if json:
        print_json([_json(one) for one in found])
        return
    print_rows(
        ["schedule", "when", "state", "last run", "next run", "rows", "failures", "about"],
        [
            [
                one.schedule,
                one.rule,
                str(one.state),
                one.last_run,
                one.next_run,
                one.rows,
                one.streak,
                _about(one),
            ]
            for one in found
        ],
        none="There are no schedules.",
    )


@app.command("set")
def set_schedule(
    context: typer.Context,
    subject: Annotated[
        list[str],
        typer.Argument(metavar="TABLE COLUMN | VIEW", help="A table and its computed column, or a materialized view."),
    ],
    when: Annotated[
        str,
        typer.Argument(metavar="WHEN", help="'every 10 minutes', 'cron 0 3 * * * Europe/Paris' or 'on change'."),
    ],
    on_failure: Annotated[
        str | None, typer.Option("--on-failure", metavar="URL", help="A webhook to call when a refresh failed.")
    ] = None,
    on_waiting: Annotated[
        str | None, typer.Option("--on-waiting", metavar="URL", help="A webhook to call when one waits for long.")
    ] = None,
    waiting_seconds: Annotated[
        float | None, typer.Option("--waiting-seconds", metavar="SECONDS", min=0, help="How long that is.")
    ] = None,
    db: DbOption = None,
) -> None:
    """Let agents refresh a column or a view by a schedule."""
    if len(subject) > _TABLE_AND_COLUMN:
        raise typer.BadParameter(
            f"{' '.join(subject)} is neither a table and its column nor a view.", param_hint="VIEW"
        )
    if (on_waiting is None) != (waiting_seconds is None):
        raise typer.BadParameter("--on-waiting and --waiting-seconds go together.", param_hint="--on-waiting")
    waits = None if on_waiting is None or waiting_seconds is None else (waiting_seconds, on_waiting)
    with opened(context, db) as database:
        if len(subject) == _TABLE_AND_COLUMN:
            table, column = subject
            handle = database.open_table(table)
            handle.set_schedule(column, when, on_failure=on_failure, on_waiting_longer_than=waits)
        else:
            view = database.open_materialized_view(subject[0])
            view.set_schedule(when, on_failure=on_failure, on_waiting_longer_than=waits)
    print(f"{'.'.join(subject)} is refreshed {when}.")


@app.command("drop")
def drop(context: typer.Context, schedule: ScheduleArgument, db: DbOption = None) -> None:
    """Forget a schedule; a refresh that runs or waits goes on."""
    with opened(context, db) as database:
        database.drop_schedule(schedule)
    print(f"{schedule} has no schedule any more.")


@app.command("enable")
def enable(context: typer.Context, schedule: ScheduleArgument, db: DbOption = None) -> None:
    """Switch a schedule on; it is due as if it were set now."""
    with opened(context, db) as database:
        database.enable_schedule(schedule)
    print(f"The schedule of {schedule} is enabled.")


@app.command("disable")
def disable(context: typer.Context, schedule: ScheduleArgument, db: DbOption = None) -> None:
    """Switch a schedule off; a refresh that runs or waits goes on."""
    with opened(context, db) as database:
        database.disable_schedule(schedule)
    print(f"The schedule of {schedule} is disabled.")


def _about(info: ScheduleInfo) -> str:
    told = [info.reason] if info.reason else []
    if info.skipped:
        told.append(f"{info.skipped} due time{'' if info.skipped == 1 else 's'} skipped meanwhile")
    return "; ".join(line.splitlines()[0] for line in told)


def _json(info: ScheduleInfo) -> dict[str, Any]:
    return {
        name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
        for name, value in asdict(info).items()
    }
