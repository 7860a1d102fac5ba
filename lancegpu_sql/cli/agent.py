"""`agent`: run the jobs of a database that are queued or due by a schedule; `agents`: who does."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, opened


def agent(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="NUMBER", min=0, max=65535, help="Serve /metrics and /healthz there; 0 takes a free one."
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="For --port: the address to listen on.")] = (
        "127.0.0.1"
    ),
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="COUNT", min=1, help="The most jobs at a time that do not wait."),
    ] = None,
    db: DbOption = None,
) -> None:
    """Run the jobs of a database that are queued or due. It ends at SIGTERM or Ctrl-C.

    Its log, on standard error, has a line for each job that begins, waits, goes on or ends. Jobs whose process is dead are taken
    over and resumed. At the end, jobs may finish what they are at within the setting shutdown_grace_seconds, and are given
    back; a second signal ends it at once.
    """
    from lancegpu_sql.cli.output import tell

    stop = threading.Event()

    def asked_to_end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, asked_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _log_on_stderr(), opened(context, db) as database:

            def serving(url: str | None) -> None:
                pages = "" if url is None else f"; {url}/metrics, {url}/healthz"
                tell(f"Serving {database.uri}{pages}")

            database.run_agent(port=port, host=host, concurrency=concurrency, stop=stop, serving=serving)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    tell("Stopped; what was not finished is queued again.")


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    """Let what agents do stand in the log of this process, a line each."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S%z"))
    log = logging.getLogger("lancegpu_sql")
    level = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(level)


def agents(context: typer.Context, db: DbOption = None, json: JsonOption = False) -> None:
    """List the agents that run queued jobs of a database now."""
    from lancegpu_sql.cli.output import print_json, print_rows

    with opened(context, db) as database:
        found = database.list_agents()
    if json:
        print_json(found)
        return
    print_rows(
        ["agent", "process", "most jobs at a time", "started", "seen"],
        [
            [
                one.id,
                f"{one.identity.pid} on {one.identity.host.partition('/')[0]}",
                one.concurrency,
                one.started_at,
                one.seen_at,
            ]
            for one in found
        ],
        none="There are no agents. Start one with: lancegpu agent",
    )
