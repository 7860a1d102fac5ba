"""Upkeep of a database's tables, as its handles ask for it."""

from __future__ import annotations

from functools import partial

from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import list_views
from lancegpu_sql.maintenance.optimizing import explain_optimize
from lancegpu_sql.maintenance.request import OptimizeOptions, OptimizeResult


def explained(services: Services, table: str, options: OptimizeOptions) -> OptimizeResult:
    """Tell what upkeep would do to a table now, and why."""
    return explain_optimize(services.refresh_resources(), table, options, partial(list_views, services))
