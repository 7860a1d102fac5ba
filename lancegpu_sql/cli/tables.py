"""`init`, `tables` and `columns`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lancegpu_sql.cli.options import DbOption, JsonOption, opened


def init(
    context: typer.Context,
    gpu_classes: Annotated[
        Path | None, typer.Option("--gpu-classes", metavar="FILE", help="GPU classes (YAML) to begin with.")
    ] = None,
    db: DbOption = None,
) -> None:
    """Make a folder a database. One that is a database already stays as it is."""
    overrides = {} if gpu_classes is None else {"gpu_classes": gpu_classes}
    with opened(context, db, new=True, **overrides) as database:
        print(f"{database.uri} is a database.")


def list_tables(context: typer.Context, db: DbOption = None, json: JsonOption = False) -> None:
    """List the tables: rows, version, columns."""
    from lancegpu_sql.cli.output import print_json, print_rows

    with opened(context, db) as database:
        found: list[dict[str, Any]] = []
        for name in database.table_names():
            table = database.open_table(name)
            found.append(
                {
                    "table": name,
                    "rows": table.count_rows(),
                    "version": table.version,
                    "columns": {field.name: str(field.type) for field in table.schema},
                }
            )
    if json:
        print_json(found)
        return
    rows = [[one["table"], one["rows"], one["version"], list(one["columns"])] for one in found]
    print_rows(["table", "rows", "version", "columns"], rows, none="There are no tables.")


def columns(
    context: typer.Context,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Of this table only; of all if left out.")
    ] = None,
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Show the computed columns and how current they are.

    Of each: its Function, and how many rows are fresh, stale, failed and never computed.
    """
    from lancegpu_sql.cli.output import json_of, print_json, print_rows

    with opened(context, db) as database:
        names = database.table_names() if table is None else [table]
        found = [(name, status) for name in names for status in database.open_table(name).columns_status()]
    if json:
        print_json([{"table": name, **json_of(status)} for name, status in found])
        return
    print_rows(
        ["table", "column", "function", "fresh", "stale", "failed", "never computed"],
        [
            [
                name,
                one.column,
                f"{one.function} version {one.version}",
                one.fresh_rows,
                one.stale_rows,
                one.failed_rows,
                one.never_computed_rows,
            ]
            for name, one in found
        ],
        none="There are no computed columns.",
    )
