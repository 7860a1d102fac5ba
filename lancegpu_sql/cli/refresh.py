"""`refresh`: bring a computed column up to date."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, TimeoutOption, again, opened
from lancegpu_sql.cli.refresh_options import takes_call_options


@takes_call_options
def refresh(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", help="The computed column; its siblings of one binding come with it.")
    ],
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="PREDICATE", help="Compute all rows for which this is true (DuckDB), no others."
        ),
    ] = None,
    publication_interval_rows: Annotated[
        int | None,
        typer.Option(
            "--publication-interval-rows",
            metavar="ROWS",
            min=1,
            help="Publish whenever so many rows more are computed.",
        ),
    ] = None,
    part_target_seconds: Annotated[
        float | None,
        typer.Option(
            "--part-target-seconds", metavar="SECONDS", help="How long the work between checkpoints may take."
        ),
    ] = None,
    options: Any = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Bring a computed column up to date.

    Rows never computed, rows whose inputs changed and rows of another Function version are computed, and no others.

    A GPU Function waits for room in its GPU class, however long (or for --max-wait-seconds), and says for what it waits. Ctrl-C cancels; so does the
    end of --timeout, with exit status 75. What was finished is kept, and the next refresh uses it. With --no-wait an
    agent of the database does it all.
    """
    from lancegpu_sql.cli.following import print_queued, print_result, run_to_end

    with opened(context, db) as database:
        own = {"publication_interval_rows": publication_interval_rows, "part_target_seconds": part_target_seconds}
        chosen = options | {name: value for name, value in own.items() if value is not None}
        if no_wait:
            print_queued(database.open_table(table).refresh_column(column, where, wait=False, **chosen), json=json)
            return
        job = database.open_table(table).refresh_column_async(column, where, **chosen)
        resume = again(context, db, "jobs", "resume", job.id)
        result = run_to_end(database, job, timeout_seconds=timeout, resume=resume)
    print_result(result, json=json)
