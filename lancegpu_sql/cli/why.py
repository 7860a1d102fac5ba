"""`why`: why a job waits, on what that rests, and how to look at it oneself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from lancegpu_sql.cli.jobs import JobArgument
from lancegpu_sql.cli.options import DbOption, JsonOption, opened

if TYPE_CHECKING:
    from lancegpu_sql.catalog.models import JobRecord, WaitingOn


def why(context: typer.Context, job: JobArgument, db: DbOption = None, json: JsonOption = False) -> None:
    """Say why a job waits. Also what that rests on, and how to look at it oneself."""
    from lancegpu_sql.cli.output import json_of, print_json

    with opened(context, db) as database:
        handle = database.get_job(job)
        record, events = handle.record, handle.events()
    if json:
        print_json({"job": record.id, "state": record.state, "waiting_on": json_of(record.waiting_on)})
        return
    if record.waiting_on is not None:
        _print_waiting(record, record.waiting_on)
        return
    print(f"Job {record.id} does not wait: it is {record.state}.")
    last = next((event for event in reversed(events) if event.kind == "waiting"), None)
    if last is not None:
        print(f"Before, it waited: {last.message}")


def _print_waiting(record: JobRecord, waiting_on: WaitingOn) -> None:
    from lancegpu_sql.catalog.models import utc_now
    from lancegpu_sql.cli.output import print_facts
    from lancegpu_sql.jobs.words import duration, title

    waited = duration((utc_now() - waiting_on.since).total_seconds())
    print(f"{waiting_on.message[:1].upper()}{waiting_on.message[1:]}.\n")
    print_facts(
        {
            "job": record.id,
            "works on": title(record),
            "GPU class": waiting_on.gpu_class,
            "waits": f"for {waited}",
            "reason": waiting_on.reason,
            "can be met": {True: "yes", False: "no, as things are", None: "unknown"}[waiting_on.can_be_met],
        }
    )
    _print_holders(waiting_on.detail)
    _print_backups(waiting_on.detail)
    _print_evidence(waiting_on.detail)


def _print_holders(detail: Mapping[str, Any]) -> None:
    """Print who holds the devices of this machine."""
    from lancegpu_sql.cli.output import print_rows

    holders = [one for one in detail.get("holders") or () if isinstance(one, Mapping)]
    if holders:
        print()
        rows = [[", ".join(one.get("devices") or ()), one.get("owner"), _process(one)] for one in holders]
        print_rows(["devices", "held by", "process"], rows)


def _print_backups(detail: Mapping[str, Any]) -> None:
    """Print why none of the classes can have it that may be used instead."""
    from lancegpu_sql.cli.output import print_rows

    backups = [one for one in detail.get("backups") or () if isinstance(one, Mapping)]
    if backups:
        print()
        rows = [[one.get("gpu_class"), one.get("reason"), one.get("message")] for one in backups]
        print_rows(["backup class", "reason", "message"], rows)


def _print_evidence(detail: Mapping[str, Any]) -> None:
    """Print what a cluster's diagnosis rests on."""
    from lancegpu_sql.cli.output import print_rows
    from lancegpu_sql.placement.kubernetes.table import evidence_lines, pool_table, shell_lines

    titles, rows = pool_table(detail)
    if rows:
        print()
        print_rows(titles, rows)
        more = int(detail.get("nodes_in_pool") or 0) - len(rows)
        if more > 0:
            print(f"and {more} more nodes of the pool")
    for heading, lines in (("Evidence", evidence_lines(detail)), ("Look at it with", shell_lines(detail))):
        if lines:
            print(f"\n{heading}:")
            for line in lines:
                print(f"  {line}")


def _process(holder: Mapping[str, Any]) -> str:
    return str(holder.get("worker_pid") or holder.get("pid") or "")
