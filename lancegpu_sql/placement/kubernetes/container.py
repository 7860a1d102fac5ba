"""The container of a worker: its image, command, environment, resources and volumes."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.functions.options import is_placement_variable
from lancegpu_sql.functions.secret_sources import kubernetes_sources
from lancegpu_sql.placement.cpu_ladder import CpuRung
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.images import is_allowed
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.preparing import lock_volume, place_of_environment
from lancegpu_sql.placement.pod_fields import SCRATCH_PATH, SCRATCH_VOLUME, SHM_PATH, SHM_VOLUME
from lancegpu_sql.placement.pod_security import CONTAINER_SECURITY, WORKER_CONTAINER
from lancegpu_sql.placement.request import WorkerRequest
from lancegpu_sql.placement.worker_environment import THREAD_VARIABLES

CLAIM = "gpu"
"""What a pod calls its claim of devices."""

# A limit, not a reservation. The 64 MiB that container engines give break PyTorch's data loaders.
_DEFAULT_SHARED_MEMORY_BYTES = 1024**3

# IPv6 too. A port-forward ends at the pod's own localhost, everybody else comes by its address.
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a pod's addresses are its own, and a worker answers who has its token

# An unknown user id has no home and no name; libraries fail or write to / where these are not set.
_CACHES = {
    "HOME": SCRATCH_PATH,
    "USER": "lancegpu",
    "HF_HOME": f"{SCRATCH_PATH}/.cache/huggingface",
    "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH_PATH}/.cache/torchinductor",
    "TRITON_CACHE_DIR": f"{SCRATCH_PATH}/.cache/triton",
}


def container(
    request: WorkerRequest, config: KubernetesConfig, secret_name: str, rung: CpuRung | None
) -> dict[str, Any]:
    """Return the worker's container.

    Raises
    ------
    InvalidPlacement
        There is no image, it is not allowed, or shared devices are asked for by more than one.
    """
    mounting = request.gpu_class or request.prepared_for
    mounted = mounting.volumes if mounting else ()
    return {
        "name": WORKER_CONTAINER,
        "image": _image(request, config),
        "command": [
            config.python,
            "-P",
            "-m",
            "lancegpu_sql.workers",
            "--listen",
            f"{_EVERY_ADDRESS}:{config.worker_port}",
        ],
        "env": _environment(request, config, secret_name),
        "ports": [{"name": "flight", "containerPort": config.worker_port}],
        "resources": _resources(request, config, rung),
        "securityContext": deepcopy(dict(CONTAINER_SECURITY)),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # a crash's last words come with the pod's status
        "volumeMounts": [
            {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
            {"name": SHM_VOLUME, "mountPath": SHM_PATH},
            *({"name": one.name, "mountPath": one.mount_path, "readOnly": one.read_only} for one in mounted),
        ],
    }


def _image(request: WorkerRequest, config: KubernetesConfig) -> str:
    gpu_class = request.gpu_class or request.prepared_for
    if request.image is None and gpu_class is not None and gpu_class.image is not None:
        return gpu_class.image
    of_class = "a CPU worker" if gpu_class is None else f"a worker of GPU class {gpu_class.name!r}"
    image = request.image or config.image
    if image is None:
        where = "" if gpu_class is None else "set image on the class, or "
        raise InvalidPlacement(f"{of_class} has no image: {where}give the placement one with image=…")
    allowed = _cpu_images(request, config) if gpu_class is None else gpu_class.allowed_images
    if allowed is not None and not is_allowed(image, allowed):
        allowing = "the setting kubernetes_cpu_allowed_images" if gpu_class is None else "the class"
        raise InvalidPlacement(
            f"{of_class} may not run the image {image!r}; {allowing} allows {', '.join(allowed) or 'none but its own'}",
            image=image,
            allowed_images=allowed,
        )
    return image


def _cpu_images(request: WorkerRequest, config: KubernetesConfig) -> tuple[str, ...] | None:
    """Return what an image named by a CPU Function may be; the placement's own is always allowed."""
    return None if request.image is None else config.cpu_allowed_images


def _environment(request: WorkerRequest, config: KubernetesConfig, secret_name: str) -> list[dict[str, Any]]:
    gpu_class, saying = request.gpu_class, request.gpu_class or request.prepared_for
    given = {name: value for name, value in request.env.items() if not is_placement_variable(name)}
    given = {name: value for name, value in given.items() if name not in request.secrets}
    values = {
        **_CACHES,
        **dict.fromkeys(THREAD_VARIABLES, str(request.cpus)),
        **given,
        **(saying.env if saying else {}),  # the operator's word is the last one
        **_devices(gpu_class),
        "LANCEGPU_WORKER_ORPHAN_SECONDS": f"{config.orphan_seconds:g}",
        **(place_of_environment() if request.environment is not None else {}),
    }
    from_secret = {
        "LANCEGPU_WORKER_TOKEN": "token",
        "LANCEGPU_WORKER_CERTIFICATE": "certificate",
        "LANCEGPU_WORKER_KEY": "key",
    }
    return [
        *(
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": key}}}
            for variable, key in from_secret.items()
        ),
        *(
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for variable, (secret, key) in kubernetes_sources(request.secrets).items()
        ),
        # Kubernetes replaces $(NAME) in values, the token's name too, and reads $$ as one $.
        *({"name": variable, "value": value.replace("$", "$$")} for variable, value in values.items()),
    ]


def _devices(gpu_class: GpuClass | None) -> dict[str, str]:
    """Return what keeps NVIDIA's container runtime from adding GPUs that were not asked for.

    Images made from NVIDIA's say ``all``. A device plugin sets the variable for its pods; a claim's devices come by
    another way, and NVIDIA's own driver for claims sets ``void``, too.
    """
    if gpu_class is None:
        return {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    from_plugin = gpu_class.device_claim is None and gpu_class.resource_name.startswith("nvidia.com/")
    return {} if from_plugin else {"NVIDIA_VISIBLE_DEVICES": "void"}


def _resources(request: WorkerRequest, config: KubernetesConfig, rung: CpuRung | None) -> dict[str, Any]:
    gpu_class = request.gpu_class
    if gpu_class is None:
        rung = rung or config.cpu_rung(request.cpu_rung)
        cpus, both = max(rung.cpus, request.cpus), {"memory": _bytes(rung.memory_bytes)}
    else:
        cpus, both = max(gpu_class.cpu or 0, request.cpus), _sizes(gpu_class)
        if gpu_class.sharing != "exclusive" and request.gpus != 1:
            raise InvalidPlacement(
                f"{request.function} needs {request.gpus} GPUs, but a worker of GPU class {gpu_class.name!r} gets one: "
                f"its devices are shared ({gpu_class.sharing})"
            )
        if gpu_class.device_claim is None:
            both[gpu_class.resource_name] = str(request.gpus)
    # No limit on CPUs: loading a model may use what the node has to spare.
    resources: dict[str, Any] = {"requests": {"cpu": _cpus(cpus), **both}}
    if both:
        resources["limits"] = both
    if gpu_class is not None and gpu_class.device_claim is not None:
        resources["claims"] = [{"name": CLAIM}]
    return resources


def _sizes(gpu_class: GpuClass) -> dict[str, str]:
    sizes = {"memory": gpu_class.memory_bytes, "ephemeral-storage": gpu_class.ephemeral_storage_bytes}
    return {name: _bytes(size) for name, size in sizes.items() if size is not None}


def volumes(request: WorkerRequest, secret_name: str) -> list[dict[str, Any]]:
    """Return the volumes that the pod's containers mount."""
    gpu_class, mounting = request.gpu_class, request.gpu_class or request.prepared_for
    scratch, shared, memory = (
        (None, None, None)
        if gpu_class is None
        else (gpu_class.ephemeral_storage_bytes, gpu_class.shared_memory_bytes, gpu_class.memory_bytes)
    )
    shared = shared or min(_DEFAULT_SHARED_MEMORY_BYTES, memory or _DEFAULT_SHARED_MEMORY_BYTES)
    return [
        {"name": SCRATCH_VOLUME, "emptyDir": {} if scratch is None else {"sizeLimit": _bytes(scratch)}},
        {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": _bytes(shared)}},
        *({"name": volume.name, **volume.source} for volume in (mounting.volumes if mounting else ())),
        *([lock_volume(secret_name)] if request.environment is not None else ()),
    ]


def _cpus(cpus: float) -> str:
    thousandths = math.ceil(round(cpus * 1000, 6))  # Kubernetes counts CPUs in thousandths
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _bytes(size: int) -> str:
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
