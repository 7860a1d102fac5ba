"""What a pod has for a Function with an environment of its own: a container that makes it before the worker starts."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.functions import environment_maker
from lancegpu_sql.functions.environment import PLACE_VARIABLE
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.pod_fields import SCRATCH_PATH, SCRATCH_VOLUME
from lancegpu_sql.placement.pod_security import CONTAINER_SECURITY
from lancegpu_sql.placement.request import WorkerRequest

ENVIRONMENT_CONTAINER = "environment"
"""The container that makes the environment."""

LOCK_KEY = "lock.txt"
"""In the pod's Secret: what is installed."""

LOCK_VOLUME = "lancegpu-lock"
_LOCK_PATH = "/run/lancegpu"
_PLACE = f"{SCRATCH_PATH}/.lancegpu/environment.json"
_FOLDER = "lancegpu-environments"

# A Secret takes 1 MiB in all.
_MOST_LOCK_BYTES = 900 * 1024


def preparing_container(request: WorkerRequest, config: KubernetesConfig, worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container that makes a request's environment, in the image of the worker's, with what that has but devices.

    Raises
    ------
    InvalidPlacement
        The lock is too long for a Secret.
    """
    environment = request.environment
    assert environment is not None
    if len(environment.lock.encode()) > _MOST_LOCK_BYTES:
        raise InvalidPlacement(
            f"{request.function} has so many packages ({len(environment.packages)}) that their lock does not fit into a Secret: "
            "have them in the worker's image (image=...)"
        )
    keeping = _keeping(request)
    folder = SCRATCH_PATH if keeping is None else _mount_path(keeping)
    own = {
        environment_maker.LOCK_VARIABLE: f"{_LOCK_PATH}/{LOCK_KEY}",
        environment_maker.PYTHON_VARIABLE: environment.python_version,
        environment_maker.IMPORTS_VARIABLE: " ".join(environment.imports),
        environment_maker.FOLDER_VARIABLE: f"{folder}/{_FOLDER}",
        environment_maker.BUILDS_VARIABLE: "yes" if config.environment_builds else "",
        PLACE_VARIABLE: _PLACE,
        # Requests that are alike exchange their pods, so what is installed must show in the pod.
        "LANCEGPU_WORKER_LOCK_DIGEST": environment.digest,
    }
    plain = [one for one in worker["env"] if "valueFrom" not in one]
    return {
        "name": ENVIRONMENT_CONTAINER,
        "image": worker["image"],
        "command": [config.python, "-P", "-m", "lancegpu_sql.functions.environment_maker"],
        "env": [*plain, *({"name": name, "value": value} for name, value in own.items())],
        "resources": _resources(request.gpu_class, worker),
        "securityContext": deepcopy(dict(CONTAINER_SECURITY)),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *_mounts(keeping, worker),
            {"name": LOCK_VOLUME, "mountPath": _LOCK_PATH, "readOnly": True},
        ],
    }


def lock_volume(secret_name: str) -> dict[str, Any]:
    """Return the volume with the lock, out of the pod's Secret."""
    items = [{"key": LOCK_KEY, "path": LOCK_KEY}]
    return {"name": LOCK_VOLUME, "secret": {"secretName": secret_name, "items": items}}


def place_of_environment() -> dict[str, str]:
    """Return the variable that tells the worker where its environment was made."""
    return {PLACE_VARIABLE: _PLACE}


def _resources(gpu_class: GpuClass | None, worker: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the worker's container has but its devices."""
    resources = deepcopy(worker["resources"])
    resources.pop("claims", None)
    if gpu_class is not None:
        for sizes in (resources.get("requests", {}), resources.get("limits", {})):
            sizes.pop(gpu_class.resource_name, None)
    return dict(resources)


def _mounts(keeping: GpuClass | None, worker: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the scratch space and the class's volumes; the one where environments are kept can be written to."""
    kept_on = None if keeping is None else keeping.environment_volume
    return [
        {**one, "readOnly": False} if one["name"] == kept_on else dict(one)
        for one in worker["volumeMounts"]
        if one["name"] == SCRATCH_VOLUME or "readOnly" in one
    ]


def _keeping(request: WorkerRequest) -> GpuClass | None:
    """Return the class on whose volume the environment is kept; None where it goes with the pod."""
    gpu_class = request.gpu_class or request.prepared_for
    return gpu_class if gpu_class is not None and gpu_class.environment_volume is not None else None


def _mount_path(gpu_class: GpuClass) -> str:
    volume = next(one for one in gpu_class.volumes if one.name == gpu_class.environment_volume)
    return volume.mount_path.rstrip("/")
