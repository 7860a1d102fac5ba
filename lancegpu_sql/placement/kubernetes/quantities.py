"""Kubernetes quantities as whole thousandths, so that amounts of nodes and pods add up without rounding."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

THOUSANDTHS = 1000
"""Kubernetes itself counts CPUs in thousandths, and no other resource in less than ones."""

_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([a-zA-Z]{0,2}))"
)
_BYTES_STEPS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_BYTES_RESOURCES = ("memory", "ephemeral-storage", "storage")


def parse_quantity(value: object) -> int | None:
    """Return a quantity (``500m``, ``2``, ``16Gi``, ``1e3``) in thousandths, rounded up; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    factor = Decimal(10) ** int(exponent) if exponent is not None else _FACTORS.get(suffix or "")
    if factor is None:
        return None
    return int((Decimal(number) * factor * THOUSANDTHS).to_integral_value(rounding=ROUND_CEILING))


def whole(thousandths: int) -> int:
    """Return how many whole ones an amount holds: devices, pods."""
    return max(thousandths, 0) // THOUSANDTHS


def words(resource: str, thousandths: int) -> str:
    """Return an amount with its resource as people say it: ``4 GPUs``, ``3.5 CPUs``, ``12 GiB of memory``."""
    if resource in _BYTES_RESOURCES:
        return f"{_bytes_words(thousandths // THOUSANDTHS)} of {resource.replace('-', ' ')}"
    noun = resource_noun(resource)
    plural = "" if thousandths == THOUSANDTHS or noun == resource else "s"
    return f"{thousandths / THOUSANDTHS:g} {noun}{plural}"


def resource_noun(resource: str) -> str:
    """Return what one of a resource is called; extended resources other than whole GPUs go by their own names."""
    if "/" in resource:
        return "GPU" if resource.endswith("/gpu") else f"{resource} device"
    return {"cpu": "CPU", "pods": "pod", "secrets": "Secret", "configmaps": "ConfigMap"}.get(resource, resource)


def amount_text(resource: str, thousandths: int) -> str:
    """Return an amount without its resource, for tables: ``3.5``, ``12 GiB``."""
    if resource in _BYTES_RESOURCES:
        return _bytes_words(thousandths // THOUSANDTHS)
    return f"{thousandths / THOUSANDTHS:g}"


def _bytes_words(count: int) -> str:
    for unit, size in _BYTES_STEPS:
        if abs(count) >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} B"
