"""An operator's GPU classes: the names under which pools of devices are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

_BYTES_PER_UNIT = {
    **{unit: 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{unit: 1024**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
}
_BYTES_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)\s*")


def parse_bytes(value: object) -> object:
    """Return the bytes that a text such as ``24GiB`` stands for; what is no text is left as it is."""
    if not isinstance(value, str):
        return value
    match = _BYTES_TEXT.fullmatch(value)
    unit = "kB" if match and match[2] == "KB" else match[2] if match else ""
    if match is None or unit not in _BYTES_PER_UNIT:
        raise ValueError(f"{value!r} is no size: write bytes as a number, or a text such as '24GiB' or '80GB'")
    return int(float(match[1]) * _BYTES_PER_UNIT[unit])


SizeBytes = Annotated[PositiveInt, BeforeValidator(parse_bytes)]


class _Model(BaseModel):
    # Strict: `max_workers: yes` or a number in quotes is an operator's slip, not a number.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Toleration(_Model):
    """One toleration, as a pod spells it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_alias=True, validate_by_name=True)

    key: str | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(default=None, alias="tolerationSeconds")


class LocalDevices(_Model):
    """The devices of a class on this machine: real ones by NVML's numbers, all of them, or simulated ones."""

    devices: Literal["auto"] | Annotated[tuple[NonNegativeInt, ...], Field(strict=False)] | None = None
    simulated: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> LocalDevices:
        if (self.devices is None) == (self.simulated is None):
            raise ValueError("give either devices ('auto' or a list of numbers) or simulated (how many)")
        if isinstance(self.devices, tuple) and len(set(self.devices)) < len(self.devices):
            raise ValueError(f"a device is listed twice: {list(self.devices)}")
        return self


class GpuClass(_Model):
    """A pool of like devices, by the name that Functions ask for.

    Parameters
    ----------
    name
        Letters, digits, ``-``, ``_`` and ``.``; at most 63.
    resource_name, node_selector, tolerations
        How a cluster knows the pool's nodes and devices, as in a pod.
    gpu_model, gpu_memory_bytes
        What the hardware is, for people; a number of bytes or a text such as ``24GiB``.
    max_gpu_count_per_worker
        The most devices one worker may ask for; None sets no limit.
    max_workers
        The most workers of the class at a time (local: on this host); None sets no limit.
    local
        The devices of the class on this machine; None means it has none here.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")]
    resource_name: str = "nvidia.com/gpu"
    node_selector: dict[str, str] = {}
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = ()
    gpu_model: str | None = None
    gpu_memory_bytes: SizeBytes | None = None
    max_gpu_count_per_worker: PositiveInt | None = None
    max_workers: PositiveInt | None = None
    local: LocalDevices | None = None

    @property
    def simulated(self) -> bool:
        """Whether its devices here are pretended ones, for demos and tests."""
        return self.local is not None and self.local.simulated is not None

    def spec(self) -> dict[str, Any]:
        """Return what was declared, as JSON values; `GpuClass.from_spec` reads it back."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> GpuClass:
        """Return the class that `spec` describes."""
        return cls.model_validate(spec)


def diff(old: Iterable[GpuClass], new: Iterable[GpuClass]) -> tuple[str, ...]:
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
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [f"{before.name}: {key}: {old[key]!r} → {new[key]!r}" for key in old if old[key] != new[key]]


def duplicate_names(names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the positions (first, again) of names that stand twice; they are compared without regard to case."""
    first: dict[str, int] = {}
    again = []
    for position, name in enumerate(names):
        if (earlier := first.setdefault(name.casefold(), position)) != position:
            again.append((earlier, position))
    return tuple(again)
