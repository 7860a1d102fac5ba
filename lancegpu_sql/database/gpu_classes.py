"""A database's GPU classes: one meaning of a name for all who share the database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.catalog.models import GpuClassRecord, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import GpuClassesDiffer
from lancegpu_sql.placement.gpu_class import GpuClass, diff
from lancegpu_sql.placement.gpu_class_file import load_gpu_classes


@dataclass(frozen=True)
class GpuClassInfo:
    """What is told of a GPU class: what it is, never what is free of it."""

    name: str
    resource_name: str
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
            resource_name=one.resource_name,
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
    differences = diff(known, wanted)
    if differences:
        raise GpuClassesDiffer(
            f"{path} says something else than this database about GPU classes: {'; '.join(differences)}. "
            f"Leave gpu_classes out to use the database's, or have an operator run: lancegpu classes apply {path}",
            path=str(path),
            differences=differences,
        )


def apply_gpu_classes(catalog: Catalog, path: str | os.PathLike[str], *, dry_run: bool) -> tuple[str, ...]:
    """Make the database's classes those of a file; return what that changes."""
    wanted = load_gpu_classes(Path(path))
    differences = diff(known_gpu_classes(catalog), wanted)
    if differences and not dry_run:
        _write(catalog, wanted)
        catalog.add_event("gpu classes", "applied", f"{path}: {'; '.join(differences)}")
    return differences


def _write(catalog: Catalog, classes: Sequence[GpuClass]) -> None:
    catalog.replace_gpu_classes(
        [GpuClassRecord(name=one.name, spec=one.spec(), updated_at=utc_now()) for one in classes]
    )
