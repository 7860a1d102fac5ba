"""`jobs`: see, follow, pause, cancel and resume background work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lancegpu_sql.cli.entry import EXIT_STILL_WAITING
from lancegpu_sql.cli.options import DbOption, JsonOption, NoWaitOption, TimeoutOption, again, group, opened

if TYPE_CHECKING:
    from lancegpu_sql.catalog.models import JobRecord

app = group("See, follow, pause, cancel and resume jobs.")

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, or its beginning or end.")]

_SHOWN_TRACEBACKS = 3

_ROOM_FOR_TIMES = 110
"""Columns of a terminal from which on a list has room for more than what one asks first."""


@app.command("list")
def list_jobs(
    context: typer.Context,
    table: Annotated[str | None, typer.Option("--table", help="Of this table only.")] = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="In this state only; may be given again.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many, the newest.")] = 50,
    every: Annotated[bool, typer.Option("--all", help="Queries that finished, too.")] = False,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """List the jobs, newest first."""
    from lancegpu_sql.catalog.models import JobState
    from lancegpu_sql.cli.output import print_json

    unknown = [one for one in state or [] if one not in set(JobState)]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is no state; the states are {', '.join(JobState)}", param_hint="--state"
        )
    with opened(context, db) as database:
        states, queries = list(state) if state else None, every or bool(state)
        found = database.list_jobs(table, states=states, limit=limit, finished_queries=queries)
    if json:
        print_json(found)
        return
    print_jobs(found)


@app.command("show")
def show(context: typer.Context, job: JobArgument, db: DbOption = None, json: JsonOption = False) -> None:
    """Show one job. Its state, what it waits for, its progress, its error, what happened to it."""
    from lancegpu_sql.cli.output import json_of, print_facts, print_json, print_rows
    from lancegpu_sql.jobs.words import title

    with opened(context, db) as database:
        handle = database.get_job(job)
        record, events = handle.record, handle.events()
    if json:
        print_json({**json_of(record), "events": json_of(events)})
        return
    print_facts(
        {
            "job": record.id,
            "works on": title(record),
            "state": str(record.state),
            "about": _about(record),
            "options": [f"{name}={value!r}" for name, value in record.request.items()],
            "created": record.created_at,
            "started": record.started_at,
            "ended": record.finished_at,
            "process": None if record.owner is None else f"{record.owner.pid} on {record.owner.host.partition('/')[0]}",
            "result": [f"{name} {value}" for name, value in _told(record.result).items()],
            "error": None if record.error is None else record.error["message"],
            "ran on": _ran_on(record),
            "seconds": [f"{name} {spent}" for name, spent in (record.timings or {}).get("phases", {}).items()],
        }
    )
    print()
    print_rows(["when", "event", "what happened"], [[event.at, event.kind, event.message] for event in events])


@app.command("watch")
def watch(context: typer.Context, job: JobArgument, timeout: TimeoutOption = None, db: DbOption = None) -> None:
    """Follow a job until it ends, and end as it does. Ctrl-C ends the watching, not the job."""
    from lancegpu_sql.cli.following import follow

    with opened(context, db) as database:
        follow(database, database.get_job(job), timeout_seconds=timeout)


@app.command("cancel")
def cancel(context: typer.Context, job: JobArgument, db: DbOption = None) -> None:
    """Ask a job to stop, and wait until it has. What it finished is kept."""
    from lancegpu_sql.cli.following import CANCEL_SECONDS

    with opened(context, db) as database:
        handle = database.get_job(job)
        if handle.status().ended:
            print(f"Job {handle.id} has ended already: it is {handle.status()}.")
            return
        handle.cancel()
        if not handle.ended(CANCEL_SECONDS):
            print(f"Job {handle.id} was asked to stop; it is {handle.status()} still.")
            raise typer.Exit(EXIT_STILL_WAITING)
        print(f"Job {handle.id} is {handle.status()}.")


@app.command("pause")
def pause(context: typer.Context, job: JobArgument, db: DbOption = None) -> None:
    """Ask a job to hold and to give its workers back. Ends when it has. What it finished is kept."""
    from lancegpu_sql.cli.following import CANCEL_SECONDS, until_held

    with opened(context, db) as database:
        handle = database.get_job(job)
        handle.pause()
        state = until_held(handle, CANCEL_SECONDS)
        told = "was asked to pause; it is" if state in ("waiting", "running") else "is"
        print(f"Job {handle.id} {told} {state}{' still' if told != 'is' else ''}.")
        if told != "is":
            raise typer.Exit(EXIT_STILL_WAITING)


@app.command("resume")
def resume(
    context: typer.Context,
    job: JobArgument,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Go on with a job that stopped. One that was interrupted, paused, cancelled or failed: what it finished is not computed again."""
    from lancegpu_sql.cli.following import print_queued, print_result, run_to_end

    with opened(context, db) as database:
        if no_wait:
            print_queued(database.resume_job(job, wait=False), json=json)
            return
        handle = database.resume_job_async(job)
        result = run_to_end(
            database, handle, timeout_seconds=timeout, resume=again(context, db, "jobs", "resume", handle.id)
        )
    print_result(result, json=json)


@app.command("log")
def log(context: typer.Context, job: JobArgument, db: DbOption = None) -> None:
    """Print what user code printed in the job's workers."""
    with opened(context, db) as database:
        print(database.get_job(job).log(), end="")


@app.command("errors")
def errors(
    context: typer.Context,
    job: JobArgument,
    each: Annotated[bool, typer.Option("--each", help="Row by row, instead of what they have in common.")] = False,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Tell why rows of a job failed and why it did. Whose fault it is, what the messages have in common, an example."""
    from lancegpu_sql.cli.output import json_of, print_json, print_rows, tell

    with opened(context, db) as database:
        found = database.get_job(job).errors()
    if json:
        print_json({"truncated": found.truncated, "groups": json_of(found.groups()), "errors": json_of(list(found))})
        return
    none = "No row failed, as far as is kept."
    if each:
        told = [[one.row_id, one.owner, one.error_type, _first_line(one.message), one.tries] for one in found]
        print_rows(["row", "owner", "error", "message", "tries"], told, none=none)
    else:
        groups = found.groups()
        print_rows(
            ["rows", "owner", "error", "message", "such as row"],
            [[one.rows, one.owner, one.error_type, one.pattern, one.example.row_id] for one in groups],
            none=none,
        )
        for group in groups[:_SHOWN_TRACEBACKS]:
            if group.example.traceback:
                print(f"\n{group.example.traceback.rstrip()}")
    if found.truncated:
        tell("More rows failed than it is kept why (setting job_errors_kept).")


def _told(result: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a job gave, without what jobs of its kind do not give."""
    return {name: value for name, value in (result or {}).items() if name != "job_id" and value not in (None, {})}


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def print_jobs(found: list[JobRecord]) -> None:
    """Print jobs, a line each."""
    from lancegpu_sql.catalog.models import short_job_id
    from lancegpu_sql.cli.output import print_rows, terminal_width
    from lancegpu_sql.jobs.words import title

    width = terminal_width()
    rows: list[dict[str, Any]] = [
        {
            # A program gets the whole id; a person copies its end, which does as well.
            "job": one.id if width is None else short_job_id(one.id),
            "works on": title(one),
            "state": str(one.state),
            "created": one.created_at,
            "about": _about(one),
        }
        for one in found
    ]
    titles = ["job", "works on", "state", "created", "about"]
    if width is not None and width < _ROOM_FOR_TIMES:
        titles.remove("created")
    print_rows(titles, [[row[one] for one in titles] for row in rows], none="There are no jobs.")


def _about(record: JobRecord) -> str:
    """Return what is worth knowing of a job in its state."""
    from lancegpu_sql.jobs.words import WITHOUT_ROWS, rows

    if record.waiting_on is not None:
        return record.waiting_on.message
    if record.error is not None:
        return f"{record.error['type']}: {record.error['message'].splitlines()[0]}"
    if record.state == "queued" and record.owner is None:
        return "no process runs it; an agent takes it, or it can be resumed"
    if record.kind in WITHOUT_ROWS:
        return _kept_up(record.result)
    return "" if record.progress is None else rows(record.progress)


def _kept_up(result: Mapping[str, Any] | None) -> str:
    """Return what a job of upkeep did, once it has."""
    if result is None:
        return ""
    before, after = result.get("fragments_removed", 0), result.get("fragments_added", 0)
    told = [f"{before:,} fragments became {after:,}"] if before else []
    removed = {
        "version": "versions_removed",
        "file": "files_removed",
        "checkpoint": "checkpoints_removed",
        "left-over": "removed",
    }
    counts = {noun: result.get(name, 0) for noun, name in removed.items()}
    gone = [f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count]
    return "; ".join([*told, *([f"removed {', '.join(gone)}"] if gone else [])]) or "nothing to do"


def _ran_on(record: JobRecord) -> list[str]:
    """Return the GPU classes that a job's workers ran on, which may be backups of its own."""
    workers = (record.timings or {}).get("workers", {}).values()
    classes = [one["gpu_class"] for one in workers if "gpu_class" in one]
    counts = {name: classes.count(name) for name in dict.fromkeys(classes)}
    return [f"GPU class {name} ({number} worker{'' if number == 1 else 's'})" for name, number in counts.items()]
