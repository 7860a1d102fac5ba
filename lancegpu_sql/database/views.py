"""Materialized views made, filled and removed, with what else is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lancegpu_sql.catalog.models import UNENDED
from lancegpu_sql.database import arguments
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view import MaterializedView
from lancegpu_sql.database.view_needs import refuse_needed
from lancegpu_sql.database.view_status import functions_of
from lancegpu_sql.errors import AlreadyExists, Cancelled, InUse, StillWaiting, ViewNotFound
from lancegpu_sql.refresh.request import RefreshResult
from lancegpu_sql.refresh.views.model import metadata_of, open_view, view_of
from lancegpu_sql.refresh.views.request import ViewOptions


def create_view(services: Services, name: str, query: str, *, if_not_exists: bool = False) -> MaterializedView | None:
    """Make a view, empty; None where there is one that is to stay.

    Raises
    ------
    AlreadyExists, InvalidQuery, InvalidName
    """
    from lancegpu_sql.refresh.views.defining import define_view  # it loads DuckDB

    arguments.text(name, "the name of a view")
    stands = services.tables.exists(name) and view_of(services.tables.open(name)) is not None
    if stands and if_not_exists:
        return None
    if stands:
        raise AlreadyExists(
            f"There is a materialized view {name!r} already: refresh it with REFRESH MATERIALIZED VIEW {name}, or drop it with "
            f"DROP MATERIALIZED VIEW {name} to write another query.",
            table=name,
        )
    defined = define_view(services.tables, functions_of(services), arguments.text(query, "the query of a view"))
    services.tables.create_view(name, defined.schema.with_metadata(dict(metadata_of(defined.definition))))
    return MaterializedView(services, name)


def fill(services: Services, view: MaterializedView, options: Mapping[str, Any]) -> RefreshResult:
    """Refresh a view that was just made. Where that fails there is no such view any more.

    One whose refresh was cancelled or paused stays, empty: its job can go on.
    """
    try:
        filled: RefreshResult = view.refresh(**options)
    except (Cancelled, StillWaiting):
        raise
    except Exception as exc:
        if _unmade(services, view.name):
            exc.add_note(
                f"The view {view.name} was not made. What was computed for it is kept: making it again computes the rest."
            )
        raise
    return filled


def _unmade(services: Services, name: str) -> bool:
    """Remove a view that was never filled, unless somebody uses it meanwhile; tell whether it is gone."""
    if services.catalog.jobs(table=name, states=UNENDED):
        return False
    with suppress(InUse, ViewNotFound):  # somebody needs it by now, or has dropped it
        if open_view(services.tables, name).state is None:
            drop_view(services, name)
            return True
    return False


def first_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a view's first refresh.

    Raises
    ------
    InvalidInput
    """
    ViewOptions.of(**options)
    return dict(options)


def clear_results(services: Services) -> None:
    """Forget the results of Functions that refreshes of views have kept."""
    from lancegpu_sql.refresh.views.results import ResultStore

    ResultStore(services.folder, services.settings.view_result_store_bytes).clear()


def drop_view(services: Services, name: str) -> None:
    """Remove a view.

    Raises
    ------
    ViewNotFound
    InUse
        Another view reads it.
    """
    open_view(services.tables, name)
    refuse_needed(services, name, "dropped")
    services.tables.drop(name)
    services.catalog.drop_schedules_of_table(name)


def view_named(services: Services, written: str) -> str:
    """Return the name of the view that a written one means.

    Raises
    ------
    ViewNotFound
    """
    from lancegpu_sql.sql.names import choose

    meant = choose(written, services.tables.names())
    if meant is None:
        raise ViewNotFound(
            f"There is no materialized view {written!r}: SHOW MATERIALIZED VIEWS lists those there are.", view=written
        )
    return open_view(services.tables, meant).name
