"""A database's Functions: registered in its catalog, checked against its GPU classes, kept while a column needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lancegpu_sql.catalog.models import FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.gpu_classes import known_gpu_classes
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import calling_views
from lancegpu_sql.errors import InvalidFunction, InvalidInput, LoadFailed
from lancegpu_sql.functions import registry
from lancegpu_sql.functions.binding import Bindable
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import as_function, define
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.options import PLACEMENT_OPTIONS
from lancegpu_sql.functions.registry import RegisteredFunction


def registration(
    services: Services, function: Function | Callable[..., Any], name: str | None, options: Mapping[str, Any]
) -> tuple[str, Callable[[], FunctionVersion]]:
    """Return a Function's name and the work of registering it; what is wrong with its options is raised at once."""
    if isinstance(function, RegisteredFunction | FunctionVersion):
        raise _registered_already(services.catalog, function)
    checked = as_function(function, name, **options)
    limits = limits_of(services.catalog)
    return checked.name, lambda: registry.register_definition(
        services.catalog, limits, define(checked), services.environments.lock
    )


def register_file(services: Services, path: str | os.PathLike[str], name: str | None) -> list[FunctionVersion]:
    """Register what a file defines, all of it or, where one asks for a GPU class that there is not, nothing."""
    try:
        definitions = inspect_file(path, name)
    except LoadFailed as problem:
        frame = own_frame(str(problem.facts.get("user_traceback") or ""), path)
        raise LoadFailed("\n".join(filter(None, [problem.message, frame])), **problem.facts) from None
    limits = limits_of(services.catalog)
    for definition in definitions:
        registry.check_gpu_class(limits, definition.version.name, definition.version.placement)
    return [
        registry.register_definition(services.catalog, limits, definition, services.environments.lock)
        for definition in definitions
    ]


def registered(services: Services, function: Bindable | FunctionVersion) -> FunctionVersion:
    """Return the version that a binding's Function is, registering it where the catalog does not know it."""
    return registry.registered_version(
        services.catalog, limits_of(services.catalog), function, services.environments.lock
    )


def alter_function(services: Services, name: str, placement: Mapping[str, Any]) -> FunctionVersion:
    """Change where a Function runs."""
    if not placement:
        raise InvalidInput(
            f"alter_function({name!r}): say what to change: {', '.join(PLACEMENT_OPTIONS)}", function=name
        )
    return registry.alter_function(services.catalog, limits_of(services.catalog), name, **placement)


def drop_function(services: Services, name: str, version: int | None) -> None:
    """Forget a Function, or one version of it, unless a column is computed by it, or a view calls it."""

    def users(function: str, one: int | None) -> list[str]:
        views = calling_views(services, function)
        return services.columns_computed_by(function, one) + (views if _is_latest(services, function, one) else [])

    registry.drop_function(services.catalog, name, version, users=users)


def _is_latest(services: Services, function: str, version: int | None) -> bool:
    return version is None or version == services.catalog.function(function).version


def _registered_already(catalog: Catalog, function: RegisteredFunction | FunctionVersion) -> InvalidFunction:
    version = function.version if isinstance(function, RegisteredFunction) else function
    what = f"{version.name} version {version.version}"
    if catalog.find_function(version.name, version.digest) is not None:
        told = f"{what} is registered in this database already: apply it to columns as it is, or move it with "
        told += f"alter_function({version.name!r}, ...)"
    else:
        told = (
            f"{what} is what another database knows of a Function, without its code: give what it was registered from "
        )
        told += "there, the decorated function or class, or its file"
    return InvalidFunction(told, function=version.name, version=version.version)


def own_frame(traceback_text: str, path: str | os.PathLike[str]) -> str:
    """Return of a traceback where a file itself was last, or where the last frame was: that line and its code."""
    lines = traceback_text.splitlines()
    frames = [at for at, line in enumerate(lines) if line.lstrip().startswith('File "')]
    own = [at for at in frames if f'"{Path(path).expanduser().resolve()}"' in lines[at]]
    if not frames:
        return traceback_text.rstrip()
    at = (own or frames)[-1]
    return "\n".join(lines[at : at + 2])


def limits_of(catalog: Catalog) -> dict[str, int | None]:
    """Return the GPU classes by name, with the most GPUs that one worker of each may have."""
    return {one.name: one.max_gpu_count_per_worker for one in known_gpu_classes(catalog)}
