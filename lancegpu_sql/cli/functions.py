"""`functions`: the registered Functions of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, group, opened

if TYPE_CHECKING:
    from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion

app = group("Register, see and drop Functions.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The Function's name.")]


@app.command("list")
def list_functions(context: typer.Context, db: DbOption = None, json: JsonOption = False) -> None:
    """List the Functions, each at its latest version."""
    from lancegpu_sql.cli.output import print_json

    with opened(context, db) as database:
        found = database.list_functions()
    if json:
        print_json(found)
        return
    print_functions(found)


@app.command("register")
def register(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that defines Functions.")],
    name: Annotated[
        str | None,
        typer.Option("--name", help="Only the one of this name; an undecorated function or class is found as well."),
    ] = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Register the Functions of a Python file. Its code is imported in a process of its own, not in this one."""
    from lancegpu_sql.cli.output import print_json

    with opened(context, db) as database:
        versions = database.register_file(file, name)
    if json:
        print_json(versions)
        return
    for one in versions:
        print(f"{one.name} version {one.version}: {_signature(one)}, runs on {_runs_on(one.placement)}")


@app.command("show")
def show(
    context: typer.Context,
    name: NameArgument,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="This version; the latest if left out.")
    ] = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Show one Function. Its types, where it runs, what it was made with, what happened to it."""
    from lancegpu_sql.cli.output import json_of, print_facts, print_json, print_rows

    with opened(context, db) as database:
        found = database.get_function(name, version).version
        events = database.list_events(f"function {found.name}")
    if json:
        print_json({**json_of(found), "events": json_of(events)})
        return
    print_facts(
        {
            "function": found.name,
            "version": found.version,
            "signature": _signature(found),
            "called": {"row": "once per row", "arrays": "once per batch", "record_batch": "once per batch"}[
                found.calling
            ],
            "made with": [one.name if one.required else f"{one.name}={one.default!r}" for one in found.init_parameters],
            "runs on": _runs_on(found.placement),
            "batch size": found.placement.batch_size,
            "calls at a time": found.placement.concurrency,
            "deterministic": found.deterministic,
            "GPU memory": found.placement.gpu_memory_bytes
            and f"{found.placement.gpu_memory_bytes / 2**30:.4g} GiB at least",
            "image": found.placement.image,
            "environment": [f"{key}={value}" for key, value in found.env.items()],
            "secrets": [f"{key} from {source}" for key, source in found.placement.secrets.items()],
            "Python": found.python_version,
            "packages": list(found.environment.pip) if found.environment else [],
            "installed": _locked(found),
            "code": list(found.environment.code) if found.environment else [],
            "digest": found.digest,
            "registered": found.created_at,
        }
    )
    print()
    print_rows(["when", "event", "what happened"], [[event.at, event.kind, event.message] for event in events])


@app.command("drop")
def drop(
    context: typer.Context,
    name: NameArgument,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Only this version.")] = None,
    db: DbOption = None,
) -> None:
    """Forget a Function, or one version of it. Refused while a column is computed by it."""
    with opened(context, db) as database:
        database.drop_function(name, version)
    print(f"Dropped {name}." if version is None else f"Dropped {name} version {version}.")


def print_functions(found: list[FunctionVersion]) -> None:
    """Print Functions, a line each."""
    from lancegpu_sql.cli.output import print_rows

    rows = [[one.name, one.version, _signature(one), _runs_on(one.placement), one.created_at] for one in found]
    print_rows(["function", "version", "signature", "runs on", "registered"], rows, none="There are no Functions.")


def _locked(function: FunctionVersion) -> list[str]:
    from lancegpu_sql.functions.environment import packages_of

    if function.environment is None or function.environment.lock is None:
        return []
    return [f"{name} {version}" for name, version in packages_of(function.environment.lock).items()]


def _signature(function: FunctionVersion) -> str:
    parameters = ", ".join(f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in function.parameters)
    return f"({parameters}) -> {function.output_type}"


def _runs_on(placement: FunctionPlacement) -> str:
    cpus = f"{placement.cpus} CPU{'s' if placement.cpus > 1 else ''}"
    if not placement.gpu:
        return cpus
    gpus = f"{placement.gpus} GPU{'s' if placement.gpus > 1 else ''}"
    return f"{gpus} of class {placement.gpu_class or 'default'}, {cpus}"
