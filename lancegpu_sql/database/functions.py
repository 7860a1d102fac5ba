"""A database's Functions: registered in its catalog, checked against its GPU classes, kept while a column needs them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.gpu_classes import known_gpu_classes
from lancegpu_sql.database.services import Services
from lancegpu_sql.database.view_needs import calling_views
from lancegpu_sql.errors import InvalidFunction, InvalidInput, LoadFailed
from lancegpu_sql.functions import registry
from lancegpu_sql.functions.binding import Bindable
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import Definition, as_function, define
from lancegpu_sql.functions.gpu_needs import DEFAULT_GPU_CLASS, GpuClassLimit, check_gpu_class
from lancegpu_sql.functions.imports_needed import imports_needed, missing_here
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.options import PLACEMENT_OPTIONS, checked_placement, known_options
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.functions.registry import RegisteredFunction
from lancegpu_sql.functions.secret_sources import check_allowed
from lancegpu_sql.placement.images import is_allowed, parse_image

_log = logging.getLogger("lancegpu_sql.functions")


def registration(
    services: Services, function: Function | Callable[..., Any], name: str | None, options: Mapping[str, Any]
) -> tuple[str, Callable[[], FunctionVersion]]:
    """Return a Function's name and the work of registering it; what is wrong with its options is raised at once."""
    if isinstance(function, RegisteredFunction | FunctionVersion):
        raise _registered_already(services.catalog, function)
    checked = as_function(function, name, **options)
    check_placement_here(services, checked.name, FunctionPlacement(**checked.options.placement()))
    return checked.name, lambda: register_definition(services, define(checked))


def register_file(services: Services, path: str | os.PathLike[str], name: str | None) -> list[FunctionVersion]:
    """Register what a file defines, all of it or, where one asks for a GPU class that there is not, nothing."""
    try:
        definitions = inspect_file(path, name)
    except LoadFailed as problem:
        frame = own_frame(str(problem.facts.get("user_traceback") or ""), path)
        raise LoadFailed("\n".join(filter(None, [problem.message, frame])), **problem.facts) from None
    limits = limits_of(services.catalog)
    for definition in definitions:
        check_gpu_class(limits, definition.version.name, definition.version.placement)
        check_placement_here(services, definition.version.name, definition.version.placement)
    return [register_definition(services, definition) for definition in definitions]


def register_definition(services: Services, definition: Definition) -> FunctionVersion:
    """Register what was defined; say where it imports what workers with this process's packages do not have."""
    version = definition.version
    if not definition.needs_lock and not services.placement.cpu_ladder:
        packed = Payload.from_bytes(definition.payload)
        missing = missing_here(imports_needed(packed), packed.search_path)
        if missing:
            _log.warning(
                "%s imports %s, which there is not on this machine: install it where its workers run, name its package in "
                "pip=(...), or its module in code=(...).",
                version.name,
                ", ".join(missing),
            )
    return registry.register_definition(
        services.catalog, limits_of(services.catalog), definition, services.environments.lock
    )


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
    known_options(placement, PLACEMENT_OPTIONS)
    present = services.catalog.function(name).placement.model_dump()
    check_placement_here(services, name, FunctionPlacement(**checked_placement({**present, **placement})))
    return registry.alter_function(services.catalog, limits_of(services.catalog), name, **placement)


def check_placement_here(services: Services, name: str, placement: FunctionPlacement) -> None:
    """Refuse a Function's secrets and image where this database's workers could not have them.

    Raises
    ------
    InvalidInput, InvalidFunction
        An operator does not allow them.
    """
    settings = services.settings
    on_cluster = bool(services.placement.cpu_ladder)
    check_allowed(name, placement.secrets, settings.secret_sources, on_cluster=on_cluster)
    if placement.image is None:
        return
    try:
        parse_image(placement.image)
    except ValueError as exc:
        raise InvalidFunction(f"{name}: image: {exc}.", function=name) from exc
    wanted = (placement.gpu_class or DEFAULT_GPU_CLASS) if placement.gpu else None
    allowed = next((one.allowed_images for one in known_gpu_classes(services.catalog) if one.name == wanted), None)
    if allowed is not None and not is_allowed(placement.image, allowed):
        raise InvalidFunction(
            f"{name} names the image {placement.image!r}, and the GPU class {wanted!r} allows {', '.join(allowed) or 'none'}: "
            "choose one of these, or leave image out.",
            function=name,
        )


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
    """Return of a traceback where a file or a text itself was last, or where the last frame was: that line and its code."""
    lines = traceback_text.splitlines()
    frames = [at for at, line in enumerate(lines) if line.lstrip().startswith('File "')]
    names = (str(path), str(Path(path).expanduser().resolve()))
    own = [at for at in frames if any(f'"{name}"' in lines[at] for name in names)]
    if not frames:
        return traceback_text.rstrip()
    at = (own or frames)[-1]
    return "\n".join(lines[at : at + 2])


def limits_of(catalog: Catalog) -> dict[str, GpuClassLimit]:
    """Return the GPU classes by name, with what a worker of each may have."""
    return {
        one.name: GpuClassLimit(one.max_gpu_count_per_worker, one.gpu_memory_bytes)
        for one in known_gpu_classes(catalog)
    }
