"""What becomes of GPU classes when others take their place, in an operator's words: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices

_UNITS = {"TiB": 1024**4, "TB": 1000**4, "GiB": 1024**3, "GB": 1000**3, "MiB": 1024**2, "MB": 1000**2, "KiB": 1024}


def changes(old: Iterable[GpuClass], new: Iterable[GpuClass]) -> tuple[str, ...]:
    """Say, a line each, what becomes of `old` when `new` takes its place; the order of classes means nothing."""
    before = {gpu_class.name: gpu_class for gpu_class in old}
    after = {gpu_class.name: gpu_class for gpu_class in new}
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            lines.append(f"{name}: removed")
        elif name not in before:
            lines.append(f"{name}: added")
        else:
            lines.extend(_changed_fields(before[name], after[name]))
    return tuple(lines)


def _changed_fields(before: GpuClass, after: GpuClass) -> list[str]:
    fields = [(key, getattr(before, key), getattr(after, key)) for key in GpuClass.model_fields]
    return [
        f"{before.name}: {key}: {in_words(key, old)} → {in_words(key, new)}" for key, old, new in fields if old != new
    ]


def in_words(key: str, value: Any) -> str:
    """Return the value of a class's key as an operator says it."""
    match value:
        case None if key.startswith("max_"):
            return "no limit"
        case None if key == "worker_idle_seconds":
            return "as the setting says"
        case None if key == "local":
            return "no devices here"
        case bool():
            return "true" if value else "false"
        case int() if key.endswith("_bytes"):
            return _size(value)
        case LocalDevices():
            return _devices(value)
        case BaseModel():
            return in_words(key, value.model_dump(mode="json", by_alias=True, exclude_none=True))
        case dict() if value:
            return ", ".join(f"{name}={in_words(name, one)}" for name, one in value.items())
        case list() | tuple() if value:
            return "; ".join(in_words(key, one) for one in value)
        case None | dict() | list() | tuple():
            return "none"
        case _:
            return str(value)


def _devices(local: LocalDevices) -> str:
    if local.devices == "auto":
        return "all devices of this machine"
    if local.simulated is not None:
        return f"{local.simulated} simulated device{'' if local.simulated == 1 else 's'}"
    numbers = ", ".join(str(number) for number in local.devices or ())
    return f"devices {numbers} of this machine" if numbers else "no devices here"


def _size(size_bytes: int) -> str:
    unit = next((unit for unit, size in _UNITS.items() if size_bytes >= size and size_bytes % size == 0), None)
    return f"{size_bytes} bytes" if unit is None else f"{size_bytes // _UNITS[unit]}{unit}"
