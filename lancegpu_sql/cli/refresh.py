"""`refresh`: bring a computed column up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, TimeoutOption, again, opened


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
    error_policy: Annotated[
        str | None,
        typer.Option(
            "--error-policy",
            metavar="fail|skip",
            help="What a row that fails does: it fails the refresh, or is null, marked as failed, and told by jobs errors.",
        ),
    ] = None,
    max_failed_rows: Annotated[
        int | None,
        typer.Option("--max-failed-rows", metavar="ROWS", min=0, help="With skip: fail beyond so many failed rows."),
    ] = None,
    max_failed_fraction: Annotated[
        float | None,
        typer.Option(
            "--max-failed-fraction", metavar="SHARE", help="With skip: fail beyond this share of the rows to compute."
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Compute rows again that failed in an earlier refresh.")
    ] = False,
    retry_attempts: Annotated[
        int | None,
        typer.Option("--retry-attempts", metavar="COUNT", min=1, help="How often a row that raises is tried in all."),
    ] = None,
    retry_backoff_seconds: Annotated[
        float | None,
        typer.Option(
            "--retry-backoff-seconds",
            metavar="SECONDS",
            help="The wait before the second try, doubled before each further one. A Retry-After comes first.",
        ),
    ] = None,
    retry_errors: Annotated[
        str | None,
        typer.Option("--retry-errors", metavar="NAMES", help="Exceptions worth another try, with commas between them."),
    ] = None,
    retry_messages: Annotated[
        str | None,
        typer.Option(
            "--retry-messages", metavar="REGEX", help="What messages of exceptions worth another try contain."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="ROWS", min=1, help="Most rows of one call.")
    ] = None,
    gpu_class: Annotated[
        str | None,
        typer.Option("--gpu-class", metavar="CLASS", help="Use this GPU class instead of the Function's own."),
    ] = None,
    gpu_count: Annotated[
        int | None, typer.Option("--gpu-count", metavar="COUNT", min=1, help="Most GPUs at a time.")
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option("--max-workers", metavar="COUNT", min=1, help="Most workers at a time.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="The cluster's queue (Kueue) that admits the workers, instead of the class's.",
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
    call_timeout_seconds: Annotated[
        float | None,
        typer.Option("--call-timeout-seconds", metavar="SECONDS", help="How long one call of the Function may take."),
    ] = None,
    init_timeout_seconds: Annotated[
        float | None,
        typer.Option("--init-timeout-seconds", metavar="SECONDS", help="How long loading the Function may take."),
    ] = None,
    max_worker_losses: Annotated[
        int | None,
        typer.Option("--max-worker-losses", metavar="COUNT", min=0, help="How many workers the same rows may cost."),
    ] = None,
    max_wait_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-wait-seconds",
            metavar="SECONDS",
            help="How long it may wait for room for a worker at a time; then it fails.",
        ),
    ] = None,
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
    given = {
        "error_policy": error_policy,
        "max_failed_rows": max_failed_rows,
        "max_failed_fraction": max_failed_fraction,
        "retry_failed": retry_failed or None,
        "retry_attempts": retry_attempts,
        "retry_backoff_seconds": retry_backoff_seconds,
        "retry_errors": retry_errors,
        "retry_messages": retry_messages,
        "batch_size": batch_size,
        "gpu_class": gpu_class,
        "gpu_count": gpu_count,
        "max_workers": max_workers,
        "queue": queue,
        "publication_interval_rows": publication_interval_rows,
        "part_target_seconds": part_target_seconds,
        "call_timeout_seconds": call_timeout_seconds,
        "init_timeout_seconds": init_timeout_seconds,
        "max_worker_losses": max_worker_losses,
        "max_wait_seconds": max_wait_seconds,
    }
    from lancegpu_sql.cli.following import print_queued, print_result, run_to_end

    with opened(context, db) as database:
        chosen = {name: value for name, value in given.items() if value is not None}
        if no_wait:
            print_queued(database.open_table(table).refresh_column(column, where, wait=False, **chosen), json=json)
            return
        job = database.open_table(table).refresh_column_async(column, where, **chosen)
        resume = again(context, db, "jobs", "resume", job.id)
        result = run_to_end(database, job, timeout_seconds=timeout, resume=resume)
    print_result(result, json=json)
