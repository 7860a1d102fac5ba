"""Registering Functions in a catalog, and finding them there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import AlreadyExists, FunctionNotFound, InUse, InvalidFunction
from lancegpu_sql.functions.binding import Bindable, Binding, bind
from lancegpu_sql.functions.decorator import Function
from lancegpu_sql.functions.definition import (
    Definition,
    as_function,
    asks_for_packages,
    define,
    digest_of_function,
)
from lancegpu_sql.functions.environment_uv import lock as lock_packages
from lancegpu_sql.functions.gpu_needs import GpuClassLimits, check_gpu_class
from lancegpu_sql.functions.options import PLACEMENT_OPTIONS, checked_placement, known_options

# What is said to people goes through logging: seen without any set-up, and silenced or kept by the usual means.
_log = logging.getLogger("lancegpu_sql.functions")

CREATE_FUNCTION = "create_function"
"""The kind of the jobs that register Functions."""

Lock = Callable[[Sequence[str], str], str]
"""Resolves requirements for a minor version of Python."""


@dataclass(frozen=True)
class RegisteredFunction:
    """A Function version of a catalog, which can be bound to columns like the one it was registered from.

    Attributes
    ----------
    version
        What the catalog says of it.
    """

    version: FunctionVersion

    @property
    def name(self) -> str:
        """Its name in the catalog."""
        return self.version.name

    def __call__(self, *args: Any, **kwargs: Any) -> Binding:
        """Bind it to columns, and values of its `__init__` parameters.

        Raises
        ------
        InvalidBinding
            An argument is missing, unknown, or a value where a column belongs. It does not run here: its code is
            unpickled on workers only.
        """
        names = [each.name for each in self.version.parameters]
        return bind(self, names, self.version.init_parameters, args, kwargs)

    def __repr__(self) -> str:
        return f"<RegisteredFunction {self.name} version {self.version.version}>"


def register(
    catalog: Catalog,
    gpu_classes: GpuClassLimits,
    target: Function | Callable[..., Any],
    name: str | None = None,
    **options: Any,
) -> FunctionVersion:
    """Register a Function.

    The same content again is the same version. If it says another placement than the catalog, the Function's placement
    changes: an event keeps that, the log says it, and nothing is recomputed.

    Parameters
    ----------
    catalog
        Where.
    gpu_classes
        The classes there are.
    target
        A Function, or a callable to make one of.
    name
        Its name; the Function's own if left out.
    **options
        As of `@function`; they take the place of the Function's own.

    Returns
    -------
    FunctionVersion
        Numbered, with its present placement.

    Raises
    ------
    InvalidFunction, InvalidName
        The definition or an option makes no sense, or asks for more GPUs than the class gives one worker.
    GpuClassNotFound
        There is no such GPU class.
    AlreadyExists
        The name differs only by case from another Function's.
    """
    return register_definition(catalog, gpu_classes, define(as_function(target, name, **options)))


def register_definition(
    catalog: Catalog, gpu_classes: GpuClassLimits, definition: Definition, lock: Lock = lock_packages
) -> FunctionVersion:
    """Register what `define` or `inspect_file` made; see `register`.

    Packages that it asks for are resolved by `lock`, but not anew where the same content is registered already.

    Raises
    ------
    EnvironmentFailed
        They cannot be had.
    """
    wanted = definition.version
    check_gpu_class(gpu_classes, wanted.name, wanted.placement)
    latest = _latest(catalog, wanted.name)
    if latest is not None and latest.name != wanted.name:
        raise AlreadyExists(
            f"There is a Function {latest.name!r}, and names differ by more than case: write name={latest.name!r} for "
            f"a new version of it, or choose another name.",
            name=latest.name,
        )
    if definition.needs_lock:
        definition = definition.locked(_lock_of(catalog, wanted) or lock(_requirements(wanted), wanted.python_version))
        wanted = definition.version
    known = catalog.find_function(wanted.name, wanted.digest)
    version = known or catalog.add_function(wanted, definition.payload)
    if known is not None:
        if catalog.payload(known.name, known.version) != definition.payload:
            catalog.replace_payload(known.name, known.version, definition.payload)
        if latest is not None and latest.version != known.version:
            _log.warning(
                "This is version %d of %s, and by its name the latest is called, version %d. To go back, drop what came later: "
                "DROP FUNCTION %s VERSION %d.",
                *(known.version, known.name, latest.version, known.name, latest.version),
            )
    else:
        catalog.add_event(
            f"function {version.name}", "registered", f"{version.name} version {version.version} was registered."
        )
    if latest is not None and latest.placement != wanted.placement:
        _place(catalog, latest, wanted.placement)
    return catalog.function(version.name, version.version)


def registered_version(
    catalog: Catalog, gpu_classes: GpuClassLimits, function: Bindable | FunctionVersion, lock: Lock = lock_packages
) -> FunctionVersion:
    """Give the version that a Binding's Function is, registering it if the catalog does not know it.

    A Function that is registered keeps the placement it has: to bind it is not to move it.

    Raises
    ------
    FunctionNotFound
        It was registered in another catalog, or has been dropped since.
    """
    if isinstance(function, (RegisteredFunction, FunctionVersion)):
        version = function.version if isinstance(function, RegisteredFunction) else function
        known = catalog.function(version.name, version.version)
        if known.digest != version.digest:
            raise FunctionNotFound(
                f"{version.name} version {version.version} of this database is another Function: this one comes from "
                "another database. Get it from this one with db.get_function(...), or register it here.",
                name=version.name,
            )
        return known
    if not isinstance(function, Function):
        raise InvalidFunction(f"{function!r} is no Function: decorate it with @function, or use db.get_function(...).")
    digest = digest_of_function(function)
    if asks_for_packages(function.options):
        known_version = _find_content(catalog, function.name, digest)
    else:
        known_version = catalog.find_function(function.name, digest)
    return known_version or register_definition(catalog, gpu_classes, define(function), lock)


def _lock_of(catalog: Catalog, wanted: FunctionVersion) -> str | None:
    """Give the lock that the same content was registered with last, if it was."""
    known = _find_content(catalog, wanted.name, wanted.digest)
    return known.environment.lock if known is not None and known.environment is not None else None


def _find_content(catalog: Catalog, name: str, content_digest: str) -> FunctionVersion | None:
    try:
        versions = catalog.function_versions(name)
    except FunctionNotFound:
        return None
    same = [each for each in versions if each.environment and each.environment.content_digest == content_digest]
    return same[-1] if same else None


def _requirements(version: FunctionVersion) -> tuple[str, ...]:
    return version.environment.pip if version.environment is not None else ()


def alter_function(catalog: Catalog, gpu_classes: GpuClassLimits, name: str, **placement: Any) -> FunctionVersion:
    """Change where and how a Function runs, by name; nothing is recomputed.

    Parameters
    ----------
    **placement
        Any of `gpu, gpu_class, gpus, cpus, concurrency, batch_size, gpu_memory_bytes, image, secrets`.

    Raises
    ------
    FunctionNotFound, GpuClassNotFound
        There is none of that name.
    InvalidFunction
        The option is none of the placement, or makes no sense.
    """
    known_options(placement, PLACEMENT_OPTIONS)
    latest = catalog.function(name)
    wanted = FunctionPlacement(**checked_placement({**latest.placement.model_dump(), **placement}))
    if both := sorted(latest.env.keys() & wanted.secrets.keys()):
        raise InvalidFunction(f"{both[0]} is in the env of {latest.name} already: choose another name for the secret.")
    check_gpu_class(gpu_classes, latest.name, wanted)
    if wanted != latest.placement:
        _place(catalog, latest, wanted)
    return catalog.function(latest.name)


def _place(catalog: Catalog, latest: FunctionVersion, wanted: FunctionPlacement) -> None:
    before, after = latest.placement.model_dump(), wanted.model_dump()
    changes = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
    said = ", ".join(f"{name} from {old!r} to {new!r}" for name, (old, new) in changes.items())
    message = f"The placement of {latest.name} changes: {said}. Its values stay as they are; nothing is recomputed."
    catalog.set_function_placement(latest.name, wanted)
    catalog.add_event(f"function {latest.name}", "placement_changed", message, changes)
    _log.warning(message)


def get_function(catalog: Catalog, name: str, version: int | None = None) -> RegisteredFunction:
    """Give a Function by name, its latest version unless another is asked for, ready to be bound.

    Raises
    ------
    FunctionNotFound
        There is none.
    """
    return RegisteredFunction(catalog.function(name, version))


def list_functions(catalog: Catalog) -> list[FunctionVersion]:
    """Give the latest version of every Function, by name."""
    return catalog.functions()


def drop_function(
    catalog: Catalog,
    name: str,
    version: int | None = None,
    *,
    users: Callable[[str, int | None], Sequence[str]],
) -> None:
    """Drop a Function, or one version of it.

    Parameters
    ----------
    users
        Given its name and version (None: any), names the columns that use it, such as `reviews.score`.

    Raises
    ------
    FunctionNotFound
        There is none.
    InUse
        A column uses it; `users` names them.
    """
    found = catalog.function(name, version)
    using = list(users(found.name, version))
    if using:
        which = found.name if version is None else f"{found.name} version {version}"
        raise InUse(
            f"{which} is used by {', '.join(using)}: drop these first, or point a column to another Function with "
            "alter_column.",
            users=using,
        )
    catalog.drop_function(found.name, version)
    catalog.add_event(f"function {found.name}", "dropped", f"{found.name} was dropped.", {"version": version})


def _latest(catalog: Catalog, name: str) -> FunctionVersion | None:
    try:
        return catalog.function(name)
    except FunctionNotFound:
        return None
