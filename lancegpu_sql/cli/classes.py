"""`classes`: the GPU classes of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    """Make the database's GPU classes those of a file. It says what that changes."""
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
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="Where the pod would be, instead of the setting's."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image", metavar="IMAGE", help="What it runs, where the class names no image, instead of the setting's."
        ),
    ] = None,
    db: DbOption = None,
) -> None:
    """Print the pod that a worker of a class would be on Kubernetes. No cluster is asked."""
    with opened(context, db) as database:
        print(database.render_gpu_class(name, function, namespace=namespace, image=image), end="")


@app.command("check")
def check(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="CLASS", help="This GPU class only; all if left out.")] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAME", help="Where workers run, instead of the setting's."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="The kubeconfig's context, instead of the setting's."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="What workers run, instead of the setting's."),
    ] = None,
    json: JsonOption = False,
    db: DbOption = None,
) -> None:
    """Try each GPU class on the cluster. Its nodes, their devices, and whether a worker's pod would be taken.

    It uses no GPU and makes nothing. Exit status 1 where a class cannot be used.
    """
    from lancegpu_sql.cli.output import print_json, print_rows

    named = {"kubernetes_namespace": namespace, "kubernetes_context": cluster, "kubernetes_image": image}
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    with opened(context, db, **given) as database:
        found = database.check_gpu_classes(name)
    if json:
        print_json(found)
    else:
        print_rows(
            ["class", "usable", "nodes", "devices", "pod admitted", "image", "reason"],
            [
                [one.gpu_class, _told(one.usable), one.nodes, one.devices, _told(one.admitted), one.image, one.reason]
                for one in found
            ],
            none="There are no GPU classes. An operator adds them with: lancegpu classes apply FILE",
        )
        for one in found:
            print(f"\n{one.gpu_class}: {one.message}.")
            if one.image_words:
                print(f"Its image: {one.image_words}.")
    if any(one.usable is False for one in found):
        raise typer.Exit(1)


def _told(known: bool | None) -> str:
    return {True: "yes", False: "no", None: "unknown"}[known]
