"""What a Function asks of its GPU class, held against what that has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lancegpu_sql.catalog.models import FunctionPlacement
from lancegpu_sql.errors import GpuClassNotFound, InvalidFunction
from lancegpu_sql.functions.sizes import shown_gib

DEFAULT_GPU_CLASS = "default"
"""The class of a GPU Function that names none."""


@dataclass(frozen=True)
class GpuClassLimit:
    """What a worker of a GPU class may have; None where there is no limit, or none is told.

    Attributes
    ----------
    gpus
        The most GPUs.
    memory_bytes
        Of each.
    """

    gpus: int | None = None
    memory_bytes: int | None = None


GpuClassLimits = Mapping[str, GpuClassLimit]
"""What there is, by the names of GPU classes."""


def check_gpu_class(gpu_classes: GpuClassLimits, name: str, placement: FunctionPlacement) -> None:
    """Refuse a placement on a class that there is not, or that gives a worker fewer or smaller GPUs.

    Raises
    ------
    GpuClassNotFound, InvalidFunction
        With the classes there are, or the limit.
    """
    if not placement.gpu:
        return
    wanted = placement.gpu_class or DEFAULT_GPU_CLASS
    if wanted not in gpu_classes:
        there_are = f"There are {', '.join(sorted(gpu_classes))}." if gpu_classes else "There are none yet."
        if placement.gpu_class is None:
            message = f"{name} names no gpu_class, and there is no class {DEFAULT_GPU_CLASS!r} for such Functions."
        else:
            message = f"{name} asks for the GPU class {wanted!r}, which there is not."
        raise GpuClassNotFound(
            f"{message} {there_are} Write gpu_class=... with one of them, or have an operator add it to the file of "
            "GPU classes.",
            gpu_class=wanted,
        )
    limit = gpu_classes[wanted]
    if limit.gpus is not None and placement.gpus > limit.gpus:
        raise InvalidFunction(
            f"{name} asks for gpus={placement.gpus}, but a worker of the GPU class {wanted!r} has {limit.gpus} at most: "
            f"write gpus={limit.gpus} or fewer.",
            gpu_class=wanted,
            limit=limit.gpus,
        )
    small = too_small(placement, wanted, limit.memory_bytes)
    if small is not None:
        roomy = [each for each, other in gpu_classes.items() if too_small(placement, each, other.memory_bytes) is None]
        instead = f"name another class ({', '.join(sorted(roomy))})" if roomy else "no class has larger ones"
        raise InvalidFunction(f"{name} {small}: {instead}.", gpu_class=wanted, limit=limit.memory_bytes)


def too_small(placement: FunctionPlacement, gpu_class: str, memory_bytes: int | None) -> str | None:
    """Say, after the Function's name, that a class's GPUs have too little memory; None where they have enough, or do not say."""
    least = placement.gpu_memory_bytes
    if least is None or memory_bytes is None or memory_bytes >= least:
        return None
    return (
        f"needs GPUs with {shown_gib(least)} of memory (gpu_memory_bytes), and those of the GPU class {gpu_class!r} have "
        f"{shown_gib(memory_bytes)}"
    )
