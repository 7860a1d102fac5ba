"""`optimize`: look after tables, and after what killed processes left beside them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, again, opened
from lancegpu_sql.errors import InvalidInput

if TYPE_CHECKING:
    from lancegpu_sql.database import Database, Table
    from lancegpu_sql.maintenance.request import OptimizeResult, OptimizeStep


def optimize(
    context: typer.Context,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Tables or materialized views; all, and what is left over, if left out."),
    ] = None,
    cleanup_older_than: Annotated[
        str,
        typer.Option(
            "--cleanup-older-than",
            metavar="TIME",
            help="Remove versions whose place another one took longer ago, such as 7d, 12h or 0s; 'none' keeps all.",
        ),
    ] = "7d",
    delete_unverified: Annotated[
        bool,
        typer.Option("--delete-unverified", help="Remove files that no version has, however young; nobody may write."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: tell what would be done, and why.")
    ] = False,
    no_wait: NoWaitOption = False,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Compact tables; remove what nobody needs any more.

    Small fragments become one, and old versions, checkpoints and files go. What a view, a query, a running or resumable job,
    a tag or a branch needs stays, and that is told. Nothing is computed again. Agents do all this by themselves, as the
    settings maintenance_... say.
    """
    from lancegpu_sql.cli.following import print_queued
    from lancegpu_sql.cli.output import print_json

    chosen: dict[str, Any] = {"cleanup_older_than": _span(cleanup_older_than), "delete_unverified": delete_unverified}
    with opened(context, db) as database:
        handles = [database.open_table(name) for name in tables or database.table_names()]
        if no_wait and not dry_run:
            for handle in handles:
                print_queued(handle.optimize(wait=False, **chosen), json=json)
            return
        found = [
            handle.optimize(dry_run=True, **chosen) if dry_run else _run(context, db, database, handle, chosen)
            for handle in handles
        ]
        rest = None if tables else database.remove_left_over(dry_run=dry_run)
    if json:
        print_json({"tables": found, "left_over": rest})
        return
    _print_steps([*((one.table, one.steps) for one in found), ("(left over)", () if rest is None else rest.steps)])
    if not dry_run:
        freed = sum(one.bytes_removed for one in found) + (0 if rest is None else rest.bytes_removed)
        print(f"{freed:,} bytes were freed.")


def _run(
    context: typer.Context, db: str | None, database: Database, table: Table, chosen: dict[str, Any]
) -> OptimizeResult:
    from lancegpu_sql.cli.following import run_to_end

    job = table.optimize_async(**chosen)
    resume = again(context, db, "jobs", "resume", job.id)
    return run_to_end(database, job, timeout_seconds=None, resume=resume)


def _print_steps(found: Iterable[tuple[str, Iterable[OptimizeStep]]]) -> None:
    from lancegpu_sql.cli.output import print_rows

    rows = [[table, step.action, step.what, step.size_bytes, step.reason] for table, steps in found for step in steps]
    print_rows(["table", "action", "what", "bytes", "why"], rows, none="There is nothing to do.")


def _span(text: str) -> timedelta | None:
    """A time as it is written on a command line."""
    from lancegpu_sql.sql.statements.options import seconds

    if text.strip().lower() == "none":
        return None
    found = seconds(text)
    if found is None:
        raise InvalidInput(f"--cleanup-older-than {text!r} is no time: write 7d, 12h, 30m, 0s, or none to keep all.")
    return timedelta(seconds=found)
