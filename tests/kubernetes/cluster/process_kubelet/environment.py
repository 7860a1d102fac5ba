"""What a container's process finds in its environment. Pure, but for the look-up it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Document = Mapping[str, Any]
# The data of a Secret or ConfigMap by kind and name; None where there is none.
LookUp = Callable[[str, str], Mapping[str, str] | None]

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SUFFIXES |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


class MissingReference(Exception):
    """The environment names an object or a key that is not there (yet)."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put values in the place of ``$(NAME)``; ``$$`` is a dollar, and an unknown name stays as it is."""

    def value(found: re.Match[str]) -> str:
        dollar, name = found.groups()
        return "$" if dollar else variables.get(name, found[0])

    return _REFERENCE.sub(value, text)


def of_container(container: Document, pod: Document, facts: Mapping[str, str], look_up: LookUp) -> dict[str, str]:
    """The variables that a container declares, ``envFrom`` first; later ones may refer to earlier ones."""
    variables: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind, reference in _references(source, "secretRef", "configMapRef"):
            data = _data(kind, reference, look_up)
            variables |= {f"{source.get('prefix', '')}{key}": value for key, value in data.items()}
    for declared in container.get("env", ()):
        value = _value(declared, container, pod, facts, look_up, variables)
        if value is not None:
            variables[declared["name"]] = value
    return variables


def bytes_or_count(quantity: str) -> float:
    """A Kubernetes quantity, such as 500m or 2Gi, as a number."""
    number = quantity.rstrip("".join(_SUFFIXES))
    return float(number) * _SUFFIXES[quantity[len(number) :]]


def _value(
    declared: Document,
    container: Document,
    pod: Document,
    facts: Mapping[str, str],
    look_up: LookUp,
    known: Mapping[str, str],
) -> str | None:
    source = declared.get("valueFrom")
    if source is None:
        return expand(declared.get("value", ""), known)
    if "fieldRef" in source:
        return _field(source["fieldRef"]["fieldPath"], pod, facts)
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], container)
    for kind, reference in _references(source, "secretKeyRef", "configMapKeyRef"):
        data = _data(kind, reference, look_up)
        if reference["key"] in data:
            return data[reference["key"]]
        if not reference.get("optional"):
            raise MissingReference(f"couldn't find key {reference['key']} in {kind} {reference['name']}")
    return None


def _field(path: str, pod: Document, facts: Mapping[str, str]) -> str:
    if path in facts:
        return facts[path]
    metadata = pod["metadata"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str(metadata.get(subscript[1], {}).get(subscript[2], ""))
    where, name = path.split(".")
    return str(pod[where].get(name, ""))


def _resource(reference: Document, container: Document) -> str:
    kind, resource = reference["resource"].split(".", 1)
    amount = bytes_or_count(container.get("resources", {}).get(kind, {}).get(resource, "0"))
    divisor = bytes_or_count(reference.get("divisor") or "1") or 1.0
    return str(-int(-amount // divisor))  # rounded up, as a kubelet does


def _references(source: Document, secret: str, config_map: str) -> list[tuple[str, Document]]:
    named = (("Secret", source.get(secret)), ("ConfigMap", source.get(config_map)))
    return [(kind, reference) for kind, reference in named if reference is not None]


def _data(kind: str, reference: Document, look_up: LookUp) -> Mapping[str, str]:
    data = look_up(kind, reference["name"])
    if data is None and not reference.get("optional"):
        raise MissingReference(f'{kind.lower()} "{reference["name"]}" not found')
    return data or {}
