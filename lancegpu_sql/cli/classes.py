"""`classes`: the GPU classes of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, group, opened

app = group("See and change the GPU classes that Functions ask for.")


@app.command("list")
def list_classes(context: typer.Context, db: DbOption = None, json: JsonOption = False) -> None:
    """List the GPU classes: what they are, never what is free of them."""
    from lancegpu_sql.cli.output import print_json, print_rows

    with opened(context, db) as database:
        found = database.list_gpu_classes()
    if json:
        print_json(found)
        return
    print_rows(
        ["class", "gpu model", "memory", "most GPUs a worker", "resource", "simulated"],
        [
            [
                one.name,
                one.gpu_model,
                None if one.gpu_memory_bytes is None else f"{one.gpu_memory_bytes / 2**30:.4g} GiB",
                one.max_gpu_count_per_worker,
                one.resource_name,
                one.simulated,
            ]
            for one in found
        ],
        none="There are no GPU classes. An operator adds them with: lancegpu classes apply FILE",
    )


@app.command("apply")
def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An operator's file of GPU classes (YAML).")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    db: DbOption = None,
) -> None:
    """Make the database's GPU classes those of a file, and say what that changes."""
    # A file named by LANCEGPU_GPU_CLASSES that differs is refused elsewhere; here it may be the very one to apply.
    with opened(context, db, gpu_classes=None) as database:
        changes = database.apply_gpu_classes(file, dry_run=dry_run)
    for change in changes:
        print(change)
    if not changes:
        print("The database has these classes already.")
    elif dry_run:
        print("Nothing was changed: this was a dry run.")


@app.command("render")
def render(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The GPU class.")],
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="The Function that the worker is for.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="Where the pod would be.")] = "default",
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="What it runs, where the class names no image.")
    ] = None,
    db: DbOption = None,
) -> None:
    """Print the pod that a worker of a class would be on Kubernetes; no cluster is asked."""
    with opened(context, db) as database:
        print(database.render_gpu_class(name, function, namespace=namespace, image=image), end="")
