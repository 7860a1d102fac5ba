"""Upkeep of a database's tables, as its handles ask for it.

What looks and acts is loaded when somebody asks: most who open a database do not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import list_views
from lancegpu_sql.maintenance.request import LeftOverResult, OptimizeOptions, OptimizeResult
from lancegpu_sql.refresh.report import RefreshJob

if TYPE_CHECKING:
    from lancegpu_sql.maintenance.looking import KnownViews


def known_views(services: Services) -> KnownViews:
    """Return what upkeep asks of the views."""
    from lancegpu_sql.maintenance.looking import KnownViews

    return KnownViews(list_views(services))


def optimized(services: Services, table: str, options: OptimizeOptions, job: RefreshJob) -> OptimizeResult:
    """Look after a table."""
    from lancegpu_sql.maintenance.optimizing import optimize_table

    return optimize_table(services.refresh_resources(), table, options, partial(known_views, services), job)


def explained(services: Services, table: str, options: OptimizeOptions) -> OptimizeResult:
    """Tell what upkeep would do to a table now, and why."""
    from lancegpu_sql.maintenance.optimizing import explain_optimize

    return explain_optimize(services.refresh_resources(), table, options, partial(known_views, services))


def left_over(services: Services, *, dry_run: bool) -> LeftOverResult:
    """Remove what is left over in the database's folders, or tell what that is."""
    from lancegpu_sql.maintenance.left_over import explain_left_over, remove_left_over
    from lancegpu_sql.maintenance.optimizing import wanted_of

    wanted = wanted_of(services.settings, OptimizeOptions.of())
    return (explain_left_over if dry_run else remove_left_over)(services.refresh_resources(), wanted)
