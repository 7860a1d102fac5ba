"""Objects as people read them: YAML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def render(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as YAML documents, in the order of their keys, as `kubectl apply -f -` takes them."""
    import yaml  # loaded here alone: only people read it

    return yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=120)
