"""What views need of tables: which tables and columns may not go, or change, while a view reads them."""

from __future__ import annotations

from collections.abc import Sequence

from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import InUse, TableNotFound
from lancegpu_sql.refresh.views.model import View, view_of

_TOLD = 5


def list_views(services: Services) -> list[View]:
    """Return the views, by name; only tables that changed since the last look are opened."""
    found = (_view(services, name) for name in services.tables.names())
    return [view for view in found if view is not None]


def _view(services: Services, name: str) -> View | None:
    """Return the view that a table is; None for another table, and where it was dropped meanwhile."""
    stamp = services.tables.stamp(name)
    seen = services.seen_views.get(name)
    if seen is not None and seen[0] == stamp:
        return seen[1]
    try:
        view = view_of(services.tables.open(name))
    except TableNotFound:
        return None
    if stamp is not None and not stamp.endswith("?"):  # a next commit might look the same
        services.seen_views[name] = (stamp, view)
    return view


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
        more = f" and {len(needing) - _TOLD:,} more" if len(needing) > _TOLD else ""
        several, reads = ("s", "read") if len(needing) > 1 else ("", "reads")
        told = f"the materialized view{several} {', '.join(map(repr, needing[:_TOLD]))}{more}"
        raise InUse(
            f"{subject} cannot be {what}: {told} {reads} it. Drop {'those' if several else 'that'} first: DROP MATERIALIZED VIEW {needing[0]}.",
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
