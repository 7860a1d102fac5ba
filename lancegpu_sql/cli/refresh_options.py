"""Options of every command that refreshes something: how Functions are called, and what becomes of rows that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

_OPTIONS: dict[str, Any] = {
    "error_policy": Annotated[
        str | None,
        typer.Option(
            "--error-policy",
            metavar="fail|skip",
            help="What a row that fails does: it fails the refresh, or is null, marked as failed, and told by jobs errors.",
        ),
    ],
    "max_failed_rows": Annotated[
        int | None,
        typer.Option("--max-failed-rows", metavar="ROWS", min=0, help="With skip: fail beyond so many failed rows."),
    ],
    "max_failed_fraction": Annotated[
        float | None,
        typer.Option(
            "--max-failed-fraction", metavar="SHARE", help="With skip: fail beyond this share of the rows to compute."
        ),
    ],
    "retry_failed": Annotated[
        bool, typer.Option("--retry-failed", help="Compute rows again that failed in an earlier refresh.")
    ],
    "retry_attempts": Annotated[
        int | None,
        typer.Option("--retry-attempts", metavar="COUNT", min=1, help="How often a row that raises is tried in all."),
    ],
    "retry_backoff_seconds": Annotated[
        float | None,
        typer.Option(
            "--retry-backoff-seconds",
            metavar="SECONDS",
            help="The wait before the second try, doubled before each further one. A Retry-After comes first.",
        ),
    ],
    "retry_errors": Annotated[
        str | None,
        typer.Option("--retry-errors", metavar="NAMES", help="Exceptions worth another try, with commas between them."),
    ],
    "retry_messages": Annotated[
        str | None,
        typer.Option(
            "--retry-messages", metavar="REGEX", help="What messages of exceptions worth another try contain."
        ),
    ],
    "batch_size": Annotated[
        int | None, typer.Option("--batch-size", metavar="ROWS", min=1, help="Most rows of one call.")
    ],
    "gpu_class": Annotated[
        str | None,
        typer.Option("--gpu-class", metavar="CLASS", help="Use this GPU class instead of the Function's own."),
    ],
    "gpu_count": Annotated[
        int | None, typer.Option("--gpu-count", metavar="COUNT", min=1, help="Most GPUs at a time, for one Function.")
    ],
    "max_workers": Annotated[
        int | None,
        typer.Option("--max-workers", metavar="COUNT", min=1, help="Most workers at a time, of one Function."),
    ],
    "queue": Annotated[
        str | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="The cluster's queue (Kueue) that admits the workers, instead of the class's.",
        ),
    ],
    "call_timeout_seconds": Annotated[
        float | None,
        typer.Option("--call-timeout-seconds", metavar="SECONDS", help="How long one call of a Function may take."),
    ],
    "init_timeout_seconds": Annotated[
        float | None,
        typer.Option("--init-timeout-seconds", metavar="SECONDS", help="How long loading a Function may take."),
    ],
    "max_worker_losses": Annotated[
        int | None,
        typer.Option("--max-worker-losses", metavar="COUNT", min=0, help="How many workers the same rows may cost."),
    ],
    "max_wait_seconds": Annotated[
        float | None,
        typer.Option(
            "--max-wait-seconds",
            metavar="SECONDS",
            help="How long it may wait for room for a worker at a time; then it fails.",
        ),
    ],
}
"""By name, as of `lancegpu_sql.refresh.request.CallOptions`."""


def takes_call_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command line have these options; the command takes those that are given as one mapping, `options`."""

    @wraps(command)
    def taken(**given: Any) -> None:
        options = {name: given.pop(name) for name in _OPTIONS}
        command(
            **given,
            options={name: value for name, value in options.items() if value is not None and value is not False},
        )

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        parameters += _own() if parameter.name == "options" else [parameter]
    taken.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads both
    taken.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return taken


def _own() -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(name, kind, default=False if option.__origin__ is bool else None, annotation=option)
        for name, option in _OPTIONS.items()
    ]
