"""Reads fields of JSON from an API server: what is missing, or of another kind than expected, reads as empty.

A newer release, a webhook or another's controller may leave out or add what it likes; reading never fails for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """Return the mapping that stands at a path below `value`."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def entries(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text; a null is an empty one."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> dict[str, str]:
    """Return the entries of a mapping of texts: labels, selectors."""
    return {str(key): text(one) for key, one in mapping(value).items()}


def text_list(value: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def number(value: object) -> int | None:
    """Return a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def moment(value: object) -> datetime | None:
    """Return a time, aware, in UTC."""
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
