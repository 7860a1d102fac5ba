"""What views need of tables: which tables and columns may not go, or change, while a view reads them."""

from __future__ import annotations

from collections.abc import Sequence

from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import InUse
from lancegpu_sql.refresh.views.model import View, view_of


def list_views(services: Services) -> list[View]:
    """Return the views, by name."""
    opened = (view_of(services.tables.open(name)) for name in services.tables.names())
    return [view for view in opened if view is not None]


def calling_views(services: Services, function: str) -> list[str]:
    """Return the views that call a Function, as people are told of them."""
    from lancegpu_sql.sql.names import fold  # sqlglot takes 40 ms to load

    return [f"view {view.name}" for view in list_views(services) if fold(function) in view.definition.functions]


def refuse_needed(services: Services, table: str, what: str, columns: Sequence[str] | None = None) -> None:
    """Refuse a change of a table, or of some of its columns, that a view needs as it is.

    Raises
    ------
    InUse
        Naming the views.
    """
    needing = [
        view.name
        for view in list_views(services)
        if table in view.definition.reads
        and (columns is None or not set(columns).isdisjoint(view.definition.reads[table]))
    ]
    if needing:
        subject = (
            f"Table {table!r}" if columns is None else f"Column {', '.join(map(repr, columns))} of table {table!r}"
        )
        raise InUse(
            f"{subject} cannot be {what}: the materialized view {', '.join(map(repr, needing))} reads it. Drop that first: "
            f"DROP MATERIALIZED VIEW {needing[0]}.",
            table=table,
            users=tuple(needing),
        )


def refuse_drop(services: Services, table: str) -> None:
    """Refuse to drop a table that is a view, or that one reads.

    Raises
    ------
    InUse
    """
    _refuse_for_view(services, table, "dropped as a table", f"DROP MATERIALIZED VIEW {table}")
    refuse_needed(services, table, "dropped")


def refuse_overwrite(services: Services, table: str) -> None:
    """Refuse to replace a table that is a view, or that one reads.

    Raises
    ------
    InUse
    """
    _refuse_for_view(services, table, "replaced by a table", f"DROP MATERIALIZED VIEW {table} first")
    refuse_needed(services, table, "replaced")


def _refuse_for_view(services: Services, table: str, what: str, instead: str) -> None:
    if services.tables.exists(table) and view_of(services.tables.open(table)) is not None:
        raise InUse(f"{table!r} is a materialized view, which cannot be {what}: write {instead}.", table=table)
