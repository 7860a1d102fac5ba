"""JSON merge patches (RFC 7386), with the lists of a pod that have names merged by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The RFC replaces every list as a whole. For these that would mean to repeat what is generated, and to lose what a
# later release adds; the API server's own strategic merge knows them by the same keys.
_KEY_OF_LIST = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
}


def merged(document: Any, patch: Any) -> Any:
    """Return `document` with `patch` applied; neither is changed. A null removes a key."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        elif key in _KEY_OF_LIST and isinstance(change, list | tuple):
            result[key] = _merged_list(result.get(key, ()), change, _KEY_OF_LIST[key])
        else:
            result[key] = merged(result.get(key), change)
    return result


def _merged_list(items: Any, changes: Any, key: str) -> list[Any]:
    result = list(items)
    places = {item[key]: place for place, item in enumerate(result)}
    for change in changes:
        name = change.get(key) if isinstance(change, Mapping) else None
        if name in places:
            result[places[name]] = merged(result[places[name]], change)
        else:
            result.append(merged(None, change))
    return result
