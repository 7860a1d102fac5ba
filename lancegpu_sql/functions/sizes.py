"""Sizes of memory as people write them."""

from __future__ import annotations

import re

MOST_BYTES = 2**63 - 1

_BYTES_PER_UNIT = {
    **{unit: 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB"))},
    **{unit: 1024**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), start=1)},
}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B)\s*")


def parse_bytes(value: object) -> object:
    """Return the bytes that a text such as ``24GiB`` stands for; what is no text is left as it is."""
    if not isinstance(value, str):
        return value
    match = _TEXT.fullmatch(value)
    unit = "kB" if match and match[2] == "KB" else match[2] if match else ""
    if match is None or unit not in _BYTES_PER_UNIT:
        raise ValueError(f"{value!r} is no size: write bytes as a number, or a text such as '24GiB' or '80GB'")
    size_bytes = float(match[1]) * _BYTES_PER_UNIT[unit]
    return int(size_bytes) if size_bytes < MOST_BYTES else MOST_BYTES + 1


def shown_gib(size_bytes: int) -> str:
    """Return a size in GiB, as in a message."""
    return f"{size_bytes / 1024**3:.4g} GiB"
