"""A worker's pod, Secret and claim template, from its request, GPU class and the placement's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lancegpu_sql.placement.cpu_ladder import CpuRung
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.container import CLAIM, container, volumes
from lancegpu_sql.placement.kubernetes.names import (
    CLASS_LABEL,
    OWNER_LABEL,
    QUEUE_LABEL,
    claim_template_name,
    database_labels,
    label_value,
    worker_labels,
)
from lancegpu_sql.placement.kubernetes.preparing import LOCK_KEY, preparing_container
from lancegpu_sql.placement.merge_patch import merged
from lancegpu_sql.placement.pod_security import POD_SECURITY
from lancegpu_sql.placement.request import WorkerRequest

_SPOT_GRACE_SECONDS = 15  # what GKE leaves to pods of a spot node that is taken away
_SPOT_TAINTS = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "kubernetes.azure.com/scalesetpriority",
)


def worker_pod(
    request: WorkerRequest,
    config: KubernetesConfig,
    *,
    name: str,
    secret_name: str,
    owner: Mapping[str, Any] | None,
    database: str,
    rung: CpuRung | None = None,
    placement: str = "",
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
    placement
        Whose claim template it refers to, where its class has one.

    Raises
    ------
    InvalidPlacement
        There is no image, it is not allowed, or shared devices are asked for by more than one.
    """
    gpu_class = request.gpu_class
    worker = container(request, config, secret_name, rung)
    first = [preparing_container(request, config, worker)] if request.environment is not None else []
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(request, config, name, owner, database),
        "spec": {
            **deepcopy(dict(POD_SECURITY)),
            **_scheduling(request, config),
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _grace_seconds(gpu_class, config),
            **({"initContainers": first} if first else {}),
            "containers": [worker],
            "volumes": volumes(request, secret_name),
        },
    }
    if gpu_class is None:
        return pod
    if gpu_class.device_claim is not None:
        template = claim_template_name(gpu_class.name, _claim_spec(gpu_class, request.gpus), placement)
        pod["spec"]["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": template}]
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
    lock: str | None = None,
) -> dict[str, Any]:
    """Return the Secret that a worker's pod reads its environment from, and the lock of its packages, where it has its own."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": dict(labels), **_owned_by(owner)},
        "type": "Opaque",
        "immutable": True,
        "stringData": {
            "token": token,
            "certificate": certificate_pem,
            "key": key_pem,
            **({} if lock is None else {LOCK_KEY: lock}),
        },
    }


def claim_template(
    gpu_class: GpuClass, gpus: int, *, owner: Mapping[str, Any] | None, database: str, placement: str = ""
) -> dict[str, Any] | None:
    """Return the ResourceClaimTemplate that pods of a class refer to; None where the class asks by a resource's name.

    It is the same for all of a placement's workers of the class with so many GPUs, and must exist before the first of them.
    """
    if gpu_class.device_claim is None:
        return None
    spec = _claim_spec(gpu_class, gpus)
    labels = {**database_labels(database), CLASS_LABEL: label_value(gpu_class.name)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": claim_template_name(gpu_class.name, spec, placement),
            "labels": labels,
            **_owned_by(owner),
        },
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
    queue = {QUEUE_LABEL: request.queue_name} if request.queue_name else {}
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


def _scheduling(request: WorkerRequest, config: KubernetesConfig) -> dict[str, Any]:
    gpu_class = request.gpu_class
    if gpu_class is None:
        pulled_for = request.prepared_for.image_pull_secrets if request.prepared_for else ()
        spec: dict[str, Any] = {
            "nodeSelector": dict(config.cpu_node_selector),
            "affinity": _keep_off(config.gpu_node_labels),
            "serviceAccountName": config.service_account,
            "imagePullSecrets": [{"name": name} for name in pulled_for],
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
    return {"devices": {"requests": [{"name": CLAIM, **request}]}}


def _devices_of(device_class: str, selectors: tuple[str, ...], count: int) -> dict[str, Any]:
    found = {"selectors": [{"cel": {"expression": expression}} for expression in selectors]} if selectors else {}
    return {"deviceClassName": device_class, **found, "allocationMode": "ExactCount", "count": count}
