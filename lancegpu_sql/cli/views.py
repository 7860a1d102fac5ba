"""`views`: how the materialized views stand; `refresh-view`: bring one up to date."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, TimeoutOption, again, opened


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
        about = [one.reason, None if schedule is None else schedule.reason]
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


def refresh_view(
    context: typer.Context,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The materialized view.")],
    full: Annotated[bool, typer.Option("--full", help="Run the query over all rows, whatever has changed.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Refresh the views first that it reads.")] = False,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="ROWS", min=1, help="Most rows of one call.")
    ] = None,
    gpu_class: Annotated[
        str | None,
        typer.Option("--gpu-class", metavar="CLASS", help="Use this GPU class instead of the Functions' own."),
    ] = None,
    gpu_count: Annotated[
        int | None, typer.Option("--gpu-count", metavar="COUNT", min=1, help="Most GPUs at a time, for one Function.")
    ] = None,
    max_workers: Annotated[
        int | None,
        typer.Option("--max-workers", metavar="COUNT", min=1, help="Most workers at a time, of one Function."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAME", help="The cluster's queue (Kueue) that admits workers with GPUs."),
    ] = None,
    call_timeout_seconds: Annotated[
        float | None,
        typer.Option("--call-timeout-seconds", metavar="SECONDS", help="How long one call of a Function may take."),
    ] = None,
    init_timeout_seconds: Annotated[
        float | None,
        typer.Option("--init-timeout-seconds", metavar="SECONDS", help="How long loading a Function may take."),
    ] = None,
    max_worker_losses: Annotated[
        int | None,
        typer.Option("--max-worker-losses", metavar="COUNT", min=0, help="How many workers the same rows may cost."),
    ] = None,
    max_wait_seconds: Annotated[
        float | None,
        typer.Option("--max-wait-seconds", metavar="SECONDS", help="How long it may wait for room at a time."),
    ] = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Bring a materialized view up to date, in one commit.

    Where each of its rows is made of one row of one table, only those of changed rows are computed. Any other query runs
    again; its Functions are called for inputs of which no result is kept, and only rows that differ are written.
    """
    given = {
        "full": full or None,
        "cascade": cascade or None,
        "batch_size": batch_size,
        "gpu_class": gpu_class,
        "gpu_count": gpu_count,
        "max_workers": max_workers,
        "queue": queue,
        "call_timeout_seconds": call_timeout_seconds,
        "init_timeout_seconds": init_timeout_seconds,
        "max_worker_losses": max_worker_losses,
        "max_wait_seconds": max_wait_seconds,
    }
    from lancegpu_sql.cli.following import print_queued, print_result, run_to_end

    with opened(context, db) as database:
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        handle = database.open_materialized_view(view)
        if no_wait:
            print_queued(handle.refresh(wait=False, **chosen), json=json)
            return
        job = handle.refresh_async(**chosen)
        resume = again(context, db, "jobs", "resume", job.id)
        result = run_to_end(database, job, timeout_seconds=timeout, resume=resume)
    print_result(result, json=json)
