"""A database's GPU classes: one meaning of a name for all who share the database."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.catalog.models import FunctionPlacement, FunctionVersion, GpuClassRecord, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import GpuClassesDiffer, GpuClassNotFound, InvalidInput
from lancegpu_sql.functions.gpu_needs import DEFAULT_GPU_CLASS, too_small
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.gpu_class_changes import changes
from lancegpu_sql.placement.gpu_class_file import load_gpu_classes


@dataclass(frozen=True)
class GpuClassInfo:
    """What is told of a GPU class: what it is, never what is free of it.

    `resource_name` is None where its devices are claimed (Dynamic Resource Allocation).
    """

    name: str
    resource_name: str | None
    gpu_model: str | None
    gpu_memory_bytes: int | None
    max_gpu_count_per_worker: int | None
    simulated: bool


def known_gpu_classes(catalog: Catalog) -> list[GpuClass]:
    """Return the database's GPU classes by name."""
    return [GpuClass.from_spec(record.spec) for record in sorted(catalog.gpu_classes(), key=lambda one: one.name)]


def gpu_class_infos(catalog: Catalog) -> list[GpuClassInfo]:
    """Return what is told of each GPU class."""
    return [
        GpuClassInfo(
            name=one.name,
            resource_name=one.resource_name if one.device_claim is None else None,
            gpu_model=one.gpu_model,
            gpu_memory_bytes=one.gpu_memory_bytes,
            max_gpu_count_per_worker=one.max_gpu_count_per_worker,
            simulated=one.simulated,
        )
        for one in known_gpu_classes(catalog)
    ]


def adopt_gpu_classes(catalog: Catalog, path: Path) -> None:
    """Take a file's classes over where the database has none.

    Raises
    ------
    InvalidGpuClass
        The file is wrong.
    GpuClassesDiffer
        The database has others; `differences` lists what the file would change.
    """
    wanted = load_gpu_classes(path)
    known = known_gpu_classes(catalog)
    if not known:
        _write(catalog, wanted)
        return
    differences = changes(known, wanted)
    if differences:
        raise GpuClassesDiffer(
            f"{path} says something else than this database about GPU classes: {'; '.join(differences)}. "
            f"Leave gpu_classes out to use the database's, or have an operator run: "
            f"{shlex.join(['lancegpu', 'classes', 'apply', str(path)])}",
            path=str(path),
            differences=differences,
        )


def apply_gpu_classes(services: Services, path: str, *, dry_run: bool) -> tuple[str, ...]:
    """Make the database's classes those of a file; return what that changes, and which Functions can then not run."""
    wanted = load_gpu_classes(Path(path))
    known = known_gpu_classes(services.catalog)
    differences = changes(known, wanted)
    if not differences:
        return ()
    broken = broken_by(services.catalog.functions(), known, wanted, services.columns_computed_by)
    if not dry_run:
        _write(services.catalog, wanted)
        services.catalog.add_event("gpu classes", "applied", f"{path}: {'; '.join((*differences, *broken))}")
    return (*differences, *broken)


def broken_by(
    functions: Iterable[FunctionVersion],
    before: Iterable[GpuClass],
    after: Iterable[GpuClass],
    columns_of: Callable[[str], Sequence[str]],
) -> tuple[str, ...]:
    """Say, a line each, which Functions could run before a change of GPU classes and cannot after it.

    Parameters
    ----------
    functions
        The database's, with their placement.
    before, after
        The classes.
    columns_of
        Names the columns that a Function computes.
    """
    old, new = ({one.name: one for one in classes} for classes in (before, after))
    told = []
    for function in functions:
        placement, name = function.placement, function.placement.gpu_class or DEFAULT_GPU_CLASS
        if not placement.gpu or not _runs_on(old.get(name), placement) or _runs_on(new.get(name), placement):
            continue
        columns = ", ".join(columns_of(function.name))
        who = f"Function {function.name} (it computes {columns})" if columns else f"Function {function.name}"
        small = too_small(placement, name, new[name].gpu_memory_bytes) if name in new else None
        why = small or (
            f"asks for gpus={placement.gpus}, more than one worker of GPU class {name!r} may then have"
            if name in new
            else f"asks for GPU class {name!r}, which goes"
        )
        told.append(f"warning: {who} {why}: it is not refreshed until {move(function.name)}")
    return tuple(told)


def check_runs_on(services: Services, function: FunctionVersion, gpu_class: str | None) -> None:
    """Refuse a refresh on a GPU class that the database does not have or that gives too little, before it is a job.

    Raises
    ------
    GpuClassNotFound
        With the classes there are, and how the Function is moved to one of them.
    InvalidInput
        A worker of the class may not have as many GPUs, or as large ones, as the Function needs.
    """
    if not function.placement.gpu:
        return
    wanted = gpu_class or function.placement.gpu_class or DEFAULT_GPU_CLASS
    known = {one.name: one for one in known_gpu_classes(services.catalog)}
    if wanted not in known:
        asks = "This refresh" if gpu_class is not None else f"Function {function.name}"
        raise GpuClassNotFound(
            f"{asks} asks for GPU class {wanted!r}, which this database does not have; it has: "
            f"{', '.join(known) or 'none'}. Have an operator add the class (lancegpu classes apply FILE), run this refresh "
            f"on another one (gpu_class=..., --gpu-class), or move the Function: {move(function.name)}",
            gpu_class=wanted,
        )
    small = too_small(function.placement, wanted, known[wanted].gpu_memory_bytes)
    if small is not None:
        raise InvalidInput(
            f"Function {function.name} {small}: run it on another class (gpu_class=..., --gpu-class), or change what it asks "
            f"for with alter_function({function.name!r}, gpu_memory_bytes=...)",
            gpu_class=wanted,
        )
    if not _runs_on(known[wanted], function.placement):
        raise InvalidInput(
            f"Function {function.name} asks for gpus={function.placement.gpus}, but a worker of GPU class {wanted!r} has "
            f"{known[wanted].max_gpu_count_per_worker} at most: {move(function.name)} changes what it asks for",
            gpu_class=wanted,
        )


def move(function: str) -> str:
    """Return the call that moves a Function to another GPU class."""
    return f"db.alter_function({function!r}, gpu_class=..., gpus=...)"


def _runs_on(gpu_class: GpuClass | None, placement: FunctionPlacement) -> bool:
    if gpu_class is None or too_small(placement, gpu_class.name, gpu_class.gpu_memory_bytes) is not None:
        return False
    limit = gpu_class.max_gpu_count_per_worker
    return limit is None or placement.gpus <= limit


def _write(catalog: Catalog, classes: Sequence[GpuClass]) -> None:
    catalog.replace_gpu_classes(
        [GpuClassRecord(name=one.name, spec=one.spec(), updated_at=utc_now()) for one in classes]
    )
