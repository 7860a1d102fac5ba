"""A database's Functions: registered in its catalog, checked against its GPU classes, kept while a column needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.gpu_classes import known_gpu_classes
from lancegpu_sql.database.services import Services
from lancegpu_sql.functions import registry
from lancegpu_sql.functions.binding import Bindable
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import as_function, define
from lancegpu_sql.functions.inspection import inspect_file


def registration(
    services: Services, function: Function | Callable[..., Any], name: str | None, options: Mapping[str, Any]
) -> tuple[str, Callable[[], FunctionVersion]]:
    """Return a Function's name and the work of registering it; what is wrong with its options is raised at once."""
    checked = as_function(function, name, **options)
    limits = limits_of(services.catalog)
    return checked.name, lambda: registry.register_definition(services.catalog, limits, define(checked))


def register_file(services: Services, path: str | os.PathLike[str], name: str | None) -> list[FunctionVersion]:
    """Register what a file defines, all of it or, where one asks for a GPU class that there is not, nothing."""
    definitions = inspect_file(path, name)
    limits = limits_of(services.catalog)
    for definition in definitions:
        registry.check_gpu_class(limits, definition.version.name, definition.version.placement)
    return [registry.register_definition(services.catalog, limits, definition) for definition in definitions]


def registered(services: Services, function: Bindable | FunctionVersion) -> FunctionVersion:
    """Return the version that a binding's Function is, registering it where the catalog does not know it."""
    return registry.registered_version(services.catalog, limits_of(services.catalog), function)


def alter_function(services: Services, name: str, placement: Mapping[str, Any]) -> FunctionVersion:
    """Change where a Function runs."""
    return registry.alter_function(services.catalog, limits_of(services.catalog), name, **placement)


def drop_function(services: Services, name: str, version: int | None) -> None:
    """Forget a Function, or one version of it, unless a column is computed by it."""
    registry.drop_function(services.catalog, name, version, users=lambda known, at: _users(services, known, at))


def limits_of(catalog: Catalog) -> dict[str, int | None]:
    """Return the GPU classes by name, with the most GPUs that one worker of each may have."""
    return {one.name: one.max_gpu_count_per_worker for one in known_gpu_classes(catalog)}


def _users(services: Services, name: str, version: int | None) -> list[str]:
    return [
        f"{table}.{column.column}"
        for table in services.tables.names()
        for column in services.tables.open(table).computed
        if column.function == name and version in (None, column.version)
    ]
