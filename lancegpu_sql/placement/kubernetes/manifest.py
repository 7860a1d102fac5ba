"""A worker's pod, Secret and claim template, from its request, GPU class and the placement's configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.functions.options import is_placement_variable
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.images import is_allowed
from lancegpu_sql.placement.kubernetes.config import CpuRung, KubernetesConfig
from lancegpu_sql.placement.kubernetes.names import (
    CLASS_LABEL,
    OWNER_LABEL,
    claim_template_name,
    database_labels,
    label_value,
    worker_labels,
)
from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.pod_fields import SCRATCH_PATH, SCRATCH_VOLUME, SHM_PATH, SHM_VOLUME
from lancegpu_sql.placement.pod_security import CONTAINER_SECURITY, POD_SECURITY, WORKER_CONTAINER
from lancegpu_sql.placement.request import WorkerRequest
from lancegpu_sql.placement.worker_environment import THREAD_VARIABLES

_DEFAULT_SHARED_MEMORY_BYTES = (
    1024**3
)  # a limit, not a reservation; the 64 MiB of container engines break PyTorch's loaders
_SPOT_GRACE_SECONDS = 15  # what GKE leaves to pods of a spot node that is taken away
_SPOT_TAINTS = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "kubernetes.azure.com/scalesetpriority",
)
_CLAIM = "gpu"
_POD_IP = "POD_IP"

# An unknown user id has no home and no name; libraries fail or write to / where these are not set.
_CACHES = {
    "HOME": SCRATCH_PATH,
    "USER": "lancegpu",
    "HF_HOME": f"{SCRATCH_PATH}/.cache/huggingface",
    "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH_PATH}/.cache/torchinductor",
    "TRITON_CACHE_DIR": f"{SCRATCH_PATH}/.cache/triton",
}


def worker_pod(
    request: WorkerRequest,
    config: KubernetesConfig,
    *,
    name: str,
    secret_name: str,
    owner: Mapping[str, Any] | None,
    database: str,
    rung: CpuRung | None = None,
) -> dict[str, Any]:
    """Return the pod of one worker.

    Parameters
    ----------
    request, config
        What is asked for, and where.
    name, secret_name
        Of the pod, and of the Secret made before it.
    owner
        The object that the pod belongs to and goes with: its ``apiVersion``, ``kind``, ``name`` and ``uid``.
    database
        What the pod's label names the database by.
    rung
        The size of a CPU worker; None is the smallest.

    Raises
    ------
    InvalidPlacement
        There is no image, it is not allowed, or shared devices are asked for by more than one.
    """
    gpu_class = request.gpu_class
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(request, config, name, owner, database),
        "spec": {
            **deepcopy(dict(POD_SECURITY)),
            **_scheduling(gpu_class, config),
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _grace_seconds(gpu_class, config),
            "containers": [_container(request, config, secret_name, rung)],
            "volumes": _volumes(gpu_class),
        },
    }
    if gpu_class is None:
        return pod
    if gpu_class.device_claim is not None:
        template = claim_template_name(gpu_class.name, _claim_spec(gpu_class, request.gpus))
        pod["spec"]["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": template}]
    overridden: dict[str, Any] = merged(pod, gpu_class.pod_overrides)
    return overridden


def worker_secret(
    *,
    name: str,
    token: str,
    certificate_pem: str,
    key_pem: str,
    owner: Mapping[str, Any] | None,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Return the Secret that a worker's pod reads its environment from."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": dict(labels), **_owned_by(owner)},
        "type": "Opaque",
        "immutable": True,
        "stringData": {"token": token, "certificate": certificate_pem, "key": key_pem},
    }


def claim_template(
    gpu_class: GpuClass, gpus: int, *, owner: Mapping[str, Any] | None, database: str
) -> dict[str, Any] | None:
    """Return the ResourceClaimTemplate that pods of a class refer to; None where the class asks by a resource's name.

    It is the same for all workers of the class with so many GPUs, and must exist before the first of them.
    """
    if gpu_class.device_claim is None:
        return None
    spec = _claim_spec(gpu_class, gpus)
    labels = {**database_labels(database), CLASS_LABEL: label_value(gpu_class.name)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": claim_template_name(gpu_class.name, spec), "labels": labels, **_owned_by(owner)},
        "spec": {"metadata": {"labels": dict(labels)}, "spec": spec},
    }


def disruption_annotations(*, busy: bool) -> dict[str, str]:
    """Return what tells autoscalers whether the worker may be moved: an idle one may, a busy one should not be."""
    return {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false" if busy else "true",
        "karpenter.sh/do-not-disrupt": "true" if busy else "false",
    }


def _metadata(
    request: WorkerRequest, config: KubernetesConfig, name: str, owner: Mapping[str, Any] | None, database: str
) -> dict[str, Any]:
    gpu_class = request.gpu_class
    labels, annotations = (gpu_class.labels, gpu_class.annotations) if gpu_class else ({}, {})
    queue = {"kueue.x-k8s.io/queue-name": gpu_class.queue} if gpu_class and gpu_class.queue else {}
    return {
        "name": name,
        "namespace": config.namespace,
        "labels": {**labels, **queue, **worker_labels(request, database)},
        "annotations": {
            **disruption_annotations(busy=True),
            **annotations,
            OWNER_LABEL: request.owner,  # in words; the label of this name can hold no blanks
        },
        **_owned_by(owner),
    }


def _owned_by(owner: Mapping[str, Any] | None) -> dict[str, Any]:
    if owner is None:
        return {}
    reference = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
    # `kubectl drain` and autoscalers move only pods that have a controller.
    return {"ownerReferences": [{**reference, "controller": True}]}


def _scheduling(gpu_class: GpuClass | None, config: KubernetesConfig) -> dict[str, Any]:
    if gpu_class is None:
        spec: dict[str, Any] = {
            "nodeSelector": dict(config.cpu_node_selector),
            "affinity": _keep_off(config.gpu_node_labels),
            "serviceAccountName": config.service_account,
        }
    else:
        tolerations = [one.model_dump(by_alias=True, exclude_none=True) for one in gpu_class.tolerations]
        if gpu_class.spot:
            tolerations += [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _SPOT_TAINTS]
        spec = {
            "nodeSelector": dict(gpu_class.node_selector),
            "tolerations": tolerations,
            "affinity": dict(gpu_class.affinity),
            "runtimeClassName": gpu_class.runtime_class_name,
            "priorityClassName": gpu_class.priority_class_name,
            "serviceAccountName": gpu_class.service_account or config.service_account,
            "imagePullSecrets": [{"name": name} for name in gpu_class.image_pull_secrets],
        }
    return {key: value for key, value in spec.items() if value}


def _keep_off(labels: tuple[str, ...]) -> dict[str, Any]:
    if not labels:
        return {}
    absent = [{"key": label, "operator": "DoesNotExist"} for label in labels]
    terms = {"nodeSelectorTerms": [{"matchExpressions": absent}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _grace_seconds(gpu_class: GpuClass | None, config: KubernetesConfig) -> int:
    if gpu_class is not None and gpu_class.spot:
        return min(config.termination_grace_seconds, _SPOT_GRACE_SECONDS)
    return config.termination_grace_seconds


def _container(
    request: WorkerRequest, config: KubernetesConfig, secret_name: str, rung: CpuRung | None
) -> dict[str, Any]:
    volumes = request.gpu_class.volumes if request.gpu_class else ()
    return {
        "name": WORKER_CONTAINER,
        "image": _image(request.gpu_class, config),
        "command": [
            config.python,
            "-P",
            "-m",
            "lancegpu_sql.workers",
            "--listen",
            f"$({_POD_IP}):{config.worker_port}",
        ],
        "env": _environment(request, config, secret_name),
        "ports": [{"name": "flight", "containerPort": config.worker_port}],
        "resources": _resources(request, config, rung),
        "securityContext": deepcopy(dict(CONTAINER_SECURITY)),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # a crash's last words come with the pod's status
        "volumeMounts": [
            {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
            {"name": SHM_VOLUME, "mountPath": SHM_PATH},
            *({"name": one.name, "mountPath": one.mount_path, "readOnly": one.read_only} for one in volumes),
        ],
    }


def _image(gpu_class: GpuClass | None, config: KubernetesConfig) -> str:
    if gpu_class is not None and gpu_class.image is not None:
        return gpu_class.image
    of_class = "a CPU worker" if gpu_class is None else f"a worker of GPU class {gpu_class.name!r}"
    if config.image is None:
        where = "" if gpu_class is None else "set image on the class, or "
        raise InvalidPlacement(f"{of_class} has no image: {where}give the placement one with image=…")
    allowed = None if gpu_class is None else gpu_class.allowed_images
    if allowed is not None and not is_allowed(config.image, allowed):
        raise InvalidPlacement(
            f"{of_class} may not run the image {config.image!r}; the class allows "
            f"{', '.join(allowed) or 'none but its own'}",
            image=config.image,
            allowed_images=allowed,
        )
    return config.image


def _environment(request: WorkerRequest, config: KubernetesConfig, secret_name: str) -> list[dict[str, Any]]:
    gpu_class = request.gpu_class
    given = {name: value for name, value in request.env.items() if not is_placement_variable(name)}
    values = {
        **_CACHES,
        **dict.fromkeys(THREAD_VARIABLES, str(request.cpus)),
        **given,
        **(gpu_class.env if gpu_class else {}),  # the operator's word is the last one
        **_devices(gpu_class),
        "LANCEGPU_WORKER_ORPHAN_SECONDS": f"{config.orphan_seconds:g}",
    }
    values.pop(_POD_IP, None)
    from_secret = {
        "LANCEGPU_WORKER_TOKEN": "token",
        "LANCEGPU_WORKER_CERTIFICATE": "certificate",
        "LANCEGPU_WORKER_KEY": "key",
    }
    return [
        {"name": _POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *(
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": key}}}
            for variable, key in from_secret.items()
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
        rung = rung or config.cpu_rungs[0]
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
        resources["claims"] = [{"name": _CLAIM}]
    return resources


def _sizes(gpu_class: GpuClass) -> dict[str, str]:
    sizes = {"memory": gpu_class.memory_bytes, "ephemeral-storage": gpu_class.ephemeral_storage_bytes}
    return {name: _bytes(size) for name, size in sizes.items() if size is not None}


def _volumes(gpu_class: GpuClass | None) -> list[dict[str, Any]]:
    scratch, shared, memory = (
        (None, None, None)
        if gpu_class is None
        else (gpu_class.ephemeral_storage_bytes, gpu_class.shared_memory_bytes, gpu_class.memory_bytes)
    )
    shared = shared or min(_DEFAULT_SHARED_MEMORY_BYTES, memory or _DEFAULT_SHARED_MEMORY_BYTES)
    return [
        {"name": SCRATCH_VOLUME, "emptyDir": {} if scratch is None else {"sizeLimit": _bytes(scratch)}},
        {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": _bytes(shared)}},
        *({"name": volume.name, **volume.source} for volume in (gpu_class.volumes if gpu_class else ())),
    ]


def _claim_spec(gpu_class: GpuClass, gpus: int) -> dict[str, Any]:
    claim = gpu_class.device_claim
    assert claim is not None
    if claim.device_class is not None:
        request: dict[str, Any] = {"exactly": _devices_of(claim.device_class, claim.selectors, claim.count * gpus)}
    else:
        request = {
            "firstAvailable": [
                {"name": f"choice-{place}", **_devices_of(one.device_class, one.selectors, one.count * gpus)}
                for place, one in enumerate(claim.first_available, start=1)
            ]
        }
    return {"devices": {"requests": [{"name": _CLAIM, **request}]}}


def _devices_of(device_class: str, selectors: tuple[str, ...], count: int) -> dict[str, Any]:
    found = {"selectors": [{"cel": {"expression": expression}} for expression in selectors]} if selectors else {}
    return {"deviceClassName": device_class, **found, "allocationMode": "ExactCount", "count": count}


def _cpus(cpus: float) -> str:
    thousandths = math.ceil(round(cpus * 1000, 6))  # Kubernetes counts CPUs in thousandths
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _bytes(size: int) -> str:
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
