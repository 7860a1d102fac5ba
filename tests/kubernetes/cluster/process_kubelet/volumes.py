"""A pod's volumes: folders of the host, and the paths in a container's environment that stand for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.process_kubelet.environment import LookUp, MissingReference

Document = Mapping[str, Any]


def prepare(pod: Document, folder: Path, look_up: LookUp) -> dict[str, Path]:
    """Make the folder of each volume; Secrets and ConfigMaps are written as files."""
    return {
        volume["name"]: _prepare_one(volume, folder / volume["name"], look_up)
        for volume in pod["spec"].get("volumes", ())
    }


def mounts(container: Document, volumes: Mapping[str, Path]) -> dict[str, Path]:
    """Mount path: the folder that stands for it."""
    return {
        mount["mountPath"].rstrip("/"): volumes[mount["name"]] / mount.get("subPath", "")
        for mount in container.get("volumeMounts", ())
    }


def rewritten(variables: Mapping[str, str], places: Mapping[str, Path]) -> dict[str, str]:
    """The variables with their mount paths replaced, since a process sees the host's own paths."""
    moved = {name: _moved(value, places) for name, value in variables.items()}
    if "/tmp" in places:
        moved.setdefault("TMPDIR", str(places["/tmp"]))
    return moved


def _moved(value: str, places: Mapping[str, Path]) -> str:
    # The longest first: a volume may be mounted below another.
    for path in sorted(places, key=len, reverse=True):
        if value == path or value.startswith(f"{path}/"):
            return f"{places[path]}{value[len(path) :]}"
    return value


def _prepare_one(volume: Document, folder: Path, look_up: LookUp) -> Path:
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    folder.mkdir(parents=True, exist_ok=True)
    if "secret" in volume:
        _write(folder, "Secret", volume["secret"]["secretName"], volume["secret"], look_up)
    elif "configMap" in volume:
        _write(folder, "ConfigMap", volume["configMap"]["name"], volume["configMap"], look_up)
    return folder


def _write(folder: Path, kind: str, name: str, source: Document, look_up: LookUp) -> None:
    data = look_up(kind, name)
    if data is None and not source.get("optional"):
        raise MissingReference(f'{kind.lower()} "{name}" not found')
    paths = {item["key"]: item["path"] for item in source.get("items", ())}
    for key, value in (data or {}).items():
        if not paths or key in paths:
            target = folder / paths.get(key, key)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(value)
