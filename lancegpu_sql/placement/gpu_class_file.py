"""Reads an operator's file of GPU classes; a mistake is told with its file, line and the valid keys."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from lancegpu_sql.errors import InvalidGpuClass
from lancegpu_sql.placement.gpu_class import GpuClass, LocalDevices, Toleration, duplicate_names
from lancegpu_sql.placement.pod_fields import DeviceAlternative, DeviceClaim, Volume
from lancegpu_sql.settings import requirement

if TYPE_CHECKING:
    import yaml
    from pydantic_core import ErrorDetails

_TOP_KEY = "gpu_classes"
_EXAMPLE = f"write:\n{_TOP_KEY}:\n  - name: l4\n    local: {{devices: auto}}"
_DEVICES = "write auto for all devices of this machine, or a list of different numbers, such as [0, 1]"

_MOST_BYTES = 4 * 1024 * 1024
# What anchors and merge keys stand for counts each time: a few lines of them can stand for billions.
_MOST_NODES = 50_000
_MOST_NUMBER = 2**63 - 1
_SHOWN_CHARACTERS = 60

KeyPath = tuple[Hashable, ...]


def load_gpu_classes(path: str | Path) -> tuple[GpuClass, ...]:
    """Read the classes of a file, in its order.

    Raises
    ------
    InvalidGpuClass
        If the file cannot be read or is wrong; `path`, `line` (of the first mistake) and `valid_keys` say where.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode("utf-8")
    except OSError as exc:
        raise _unreadable(path, exc.strerror or str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise _unreadable(path, "it is not UTF-8 text") from exc
    except ValueError as exc:  # a zero byte in the path
        raise _unreadable(path, str(exc)) from exc
    if len(content) > _MOST_BYTES:
        raise _unreadable(path, f"it is larger than {_MOST_BYTES} bytes")
    return parse_gpu_classes(text, str(path))


def _unreadable(path: str | Path, reason: str) -> InvalidGpuClass:
    return InvalidGpuClass(
        f"could not read the GPU classes of {path}: {reason}", path=str(path), line=None, valid_keys=()
    )


def parse_gpu_classes(text: str, path: str) -> tuple[GpuClass, ...]:
    """Read the classes of a file's text; `path` is for messages."""
    document, lines = _read_yaml(text, path)
    if not isinstance(document, dict) or not isinstance(document.get(_TOP_KEY), list):
        raise _refuse(path, [(1, f"it should hold a list of classes under the key {_TOP_KEY!r}; {_EXAMPLE}")])
    if unknown := [key for key in document if key != _TOP_KEY]:
        line = lines.get((unknown[0],), 1)
        raise _refuse(path, [(line, _unknown_key(str(unknown[0]), (_TOP_KEY,)))], valid_keys=(_TOP_KEY,))
    classes: list[GpuClass] = []
    mistakes: list[tuple[int, str]] = []
    valid_keys: tuple[str, ...] = ()
    for position, spec in enumerate(document[_TOP_KEY]):
        where: KeyPath = (_TOP_KEY, position)
        try:
            classes.append(GpuClass.model_validate(spec))
        except ValidationError as exc:
            label = spec.get("name") if isinstance(spec, dict) else None
            for detail in exc.errors(include_url=False):
                keys = _keys_at(detail["loc"])
                valid_keys = keys if not mistakes else valid_keys
                mistake = (_line_of(lines, where + detail["loc"]), _describe(detail, label, keys))
                if mistake not in mistakes:  # each alternative of a type gives its own account
                    mistakes.append(mistake)
    if not mistakes:
        for first, again in duplicate_names([gpu_class.name for gpu_class in classes]):
            first_line, line = (_line_of(lines, (_TOP_KEY, position, "name")) for position in (first, again))
            mistakes.append((line, f"class {classes[again].name!r} stands twice; the first is in line {first_line}"))
        mistakes.extend(_unknown_backups(classes, lines))
    if mistakes:
        raise _refuse(path, mistakes, valid_keys=valid_keys)
    return tuple(classes)


def _unknown_backups(classes: Sequence[GpuClass], lines: dict[KeyPath, int]) -> Iterator[tuple[int, str]]:
    known = [one.name for one in classes]
    for position, one in enumerate(classes):
        for at, name in enumerate(one.backup_classes):
            if name not in known:
                line = _line_of(lines, (_TOP_KEY, position, "backup_classes", at))
                yield (
                    line,
                    f"class {one.name!r}: backup_classes: there is no class {name!r}; there are {', '.join(known)}",
                )


def _read_yaml(text: str, path: str) -> tuple[Any, dict[KeyPath, int]]:
    import yaml  # loaded here alone: only an operator's file needs it

    class Loader(yaml.SafeLoader):
        """Says where a value is that its type cannot read."""

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                value = super().construct_object(node, deep=deep)
                if isinstance(value, int) and abs(value) > _MOST_NUMBER:
                    raise ValueError
            except (ValueError, OverflowError) as exc:
                kind = node.tag.rpartition(":")[2]
                told = f"{_shown(node.value)} is no {kind} that can be read; write a text in quotes"
                raise yaml.constructor.ConstructorError(None, None, told, node.start_mark) from exc
            return value

    try:
        loader = Loader(text)
    except yaml.YAMLError as exc:  # a character that no YAML may hold
        raise _refuse(path, [(1, f"it is no YAML: {exc}")]) from exc
    try:
        root = loader.get_single_node()
        if root is None:
            return None, {}
        if _count_nodes(root, {}) > _MOST_NODES:
            raise _refuse(path, [(1, f"its anchors stand for more than {_MOST_NODES} values; write less of them")])
        lines: dict[KeyPath, int] = {}
        for where, line in _walk(root, ()):
            if where in lines:
                raise _refuse(path, [(line, f"key {where[-1]!r} stands twice; the first is in line {lines[where]}")])
            lines[where] = line
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise _refuse(path, [(mark.line + 1 if mark else 1, f"it is no YAML: {exc.problem}")]) from exc
    except yaml.YAMLError as exc:
        raise _refuse(path, [(1, f"it is no YAML: {exc}")]) from exc
    except RecursionError as exc:
        raise _refuse(path, [(1, "it refers to itself or is nested too deeply")]) from exc
    finally:
        loader.dispose()


def _count_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the nodes that a node stands for; each is looked at once, however often it is referred to."""
    if id(node) not in known:
        if isinstance(node.value, str):
            return 1
        known[id(node)] = _MOST_NODES  # one that holds itself holds too many
        below = (part for child in node.value for part in (child if isinstance(child, tuple) else (child,)))
        known[id(node)] = 1 + sum(_count_nodes(part, known) for part in below)
    return known[id(node)]


def _walk(node: yaml.Node, where: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    """Yield each key path below `node` with its line, counted from 1; a key that stands twice comes twice."""
    if isinstance(node.value, str):
        return
    for position, child in enumerate(node.value):
        if isinstance(child, tuple):
            key, value = child
            if key.value == "<<" or not isinstance(key.value, str):
                continue
            below = (*where, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _walk(value, below)
        else:
            yield (*where, position), child.start_mark.line + 1
            yield from _walk(child, (*where, position))


def _line_of(lines: dict[KeyPath, int], where: KeyPath) -> int:
    # A missing key, or the name of a union's branch in the path, has no line of its own: the nearest one above has.
    while where and where not in lines:
        where = where[:-1]
    return lines.get(where, 1)


def _keys_at(location: Sequence[int | str]) -> tuple[str, ...]:
    nested: dict[str, type[BaseModel]] = {
        "local": LocalDevices,
        "tolerations": Toleration,
        "volumes": Volume,
        "device_claim": DeviceClaim,
    }
    model = nested.get(str(location[0]), GpuClass) if len(location) > 1 else GpuClass
    if location[:2] == ("device_claim", "first_available") and len(location) > 2:
        model = DeviceAlternative
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _describe(detail: ErrorDetails, label: str | None, keys: tuple[str, ...]) -> str:
    location = ".".join(str(part) for part in detail["loc"])
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    of_class = f"class {label!r}: " if label else ""
    match detail["type"]:
        case "extra_forbidden":
            return of_class + _unknown_key(name, keys)
        case "missing":
            return f"{of_class}the key {location!r} is missing; valid keys: {', '.join(keys)}"
        case "model_type" | "dict_type" if not detail["loc"]:
            return f"a class should be a mapping with the keys {', '.join(keys)}"
        case _:
            if detail["loc"][:2] == ("local", "devices"):
                return f"{of_class}local.devices: {_DEVICES}"
            shown = f" (got {_shown(detail['input'])})" if not isinstance(detail["input"], dict | list) else ""
            return f"{of_class}{location or 'it'}: {_demand(detail)}{shown}"


def _demand(detail: ErrorDetails) -> str:
    match detail["loc"]:
        case ("name",) if detail["type"] == "string_pattern_mismatch":
            return "a name has letters, digits, -, _ and . and no others, at most 63, a letter or digit first and last"
        case _ if detail["type"] == "string_type":
            return "must be a text: write it in quotes"
        case _:
            return requirement(detail)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _unknown_key(name: str, keys: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, keys, n=1)
    return f"unknown key {name!r}{f', did you mean {close[0]!r}?' if close else ''}; valid keys: {', '.join(keys)}"


def _refuse(path: str, mistakes: Sequence[tuple[int, str]], *, valid_keys: tuple[str, ...] = ()) -> InvalidGpuClass:
    ordered = sorted(mistakes)
    message = "\n".join(f"{path}:{line}: {text}" for line, text in ordered)
    return InvalidGpuClass(message, path=path, line=ordered[0][0], valid_keys=valid_keys)
