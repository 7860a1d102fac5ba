"""`views`: how the materialized views stand; `refresh-view`: bring one up to date."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, TimeoutOption, again, opened
from lancegpu_sql.cli.refresh_options import takes_call_options


def views(context: typer.Context, db: DbOption = None, json: JsonOption = False) -> None:
    """List the materialized views. Of each its rows, whether it is fresh, last and next run, failures, what it waits for."""
    from lancegpu_sql.cli.output import json_of, print_json, print_rows

    with opened(context, db) as database:
        found = database.list_materialized_views()
        schedules = {one.table: one for one in database.list_schedules() if one.kind == "view"}
    if json:
        print_json(
            [
                json_of(one) | {"schedule": json_of(schedules[one.view]) if one.view in schedules else None}
                for one in found
            ]
        )
        return
    lines = []
    for one in found:
        schedule = schedules.get(one.view)
        failed = f"{one.calls_failed:,} calls failed: SHOW ERRORS FOR TABLE {one.view}" if one.calls_failed else None
        about = [one.reason, failed, None if schedule is None else schedule.reason]
        lines.append(
            [
                one.view,
                one.rows,
                one.state,
                one.refreshed_at,
                None if schedule is None else schedule.next_run,
                None if schedule is None else schedule.streak,
                "; ".join(told.splitlines()[0] for told in about if told),
            ]
        )
    titles = ["view", "rows", "state", "last refresh", "next run", "failures", "about"]
    print_rows(titles, lines, none="There are no materialized views.")


@takes_call_options
def refresh_view(
    context: typer.Context,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The materialized view.")],
    full: Annotated[bool, typer.Option("--full", help="Run the query over all rows, whatever has changed.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Refresh the views first that it reads.")] = False,
    options: Any = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Bring a materialized view up to date, in one commit.

    Where each of its rows is made of one row of one table, only those of changed rows are computed. Any other query runs
    again; its Functions are called for inputs of which no result is kept, and only rows that differ are written.
    """
    from lancegpu_sql.cli.following import print_queued, print_result, run_to_end

    with opened(context, db) as database:
        own = {"full": full, "cascade": cascade}
        chosen = options | {name: True for name, said in own.items() if said}
        handle = database.open_materialized_view(view)
        if no_wait:
            print_queued(handle.refresh(wait=False, **chosen), json=json)
            return
        job = handle.refresh_async(**chosen)
        resume = again(context, db, "jobs", "resume", job.id)
        result = run_to_end(database, job, timeout_seconds=timeout, resume=resume)
    print_result(result, json=json)
