"""What a GPU class becomes on a cluster, for people to read before anything is sent."""

from __future__ import annotations

import time
from dataclasses import replace

from lancegpu_sql.database.gpu_classes import check_runs_on, known_gpu_classes
from lancegpu_sql.database.services import Services
from lancegpu_sql.errors import GpuClassNotFound, InvalidInput
from lancegpu_sql.functions.environment_store import environment_of
from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes import KubernetesConfig, KubernetesPlacement, options_of
from lancegpu_sql.placement.kubernetes.manifest import claim_template, worker_pod
from lancegpu_sql.placement.kubernetes.names import worker_name
from lancegpu_sql.placement.kubernetes.render import render
from lancegpu_sql.placement.request import WorkerRequest

_HEADER = "# One worker of GPU class {}. Names, job and owner are a worker's own; these are examples.\n"


def rendered_worker(
    services: Services, gpu_class: str, function: str | None, *, namespace: str | None, image: str | None
) -> str:
    """Return the objects of one worker of a class, as YAML.

    Raises
    ------
    GpuClassNotFound, FunctionNotFound
        There is none of that name.
    InvalidInput
        The Function uses no GPU, or more than a worker of the class may have.
    InvalidPlacement
        There is no image, or it is not allowed.
    """
    config = _config(services, namespace, image)
    request = _example(services, _named(services, gpu_class), function)
    assert request.gpu_class is not None
    name = worker_name(request)
    pod = worker_pod(request, config, name=name, secret_name=name, owner=None, database="DATABASE")
    template = claim_template(request.gpu_class, request.gpus, owner=None, database="DATABASE")
    if template is None:
        return _HEADER.format(gpu_class) + render([pod])
    template["metadata"]["namespace"] = config.namespace  # beside its pod, wherever the two are applied
    return _HEADER.format(gpu_class) + render([template, pod])


def _config(services: Services, namespace: str | None, image: str | None) -> KubernetesConfig:
    """Return what the database's workers are sent with, and what was said instead."""
    if isinstance(services.placement, KubernetesPlacement):
        config = services.placement.config
    else:
        config = KubernetesConfig(services.settings.kubernetes_namespace or "default", **options_of(services.settings))
    return replace(config, namespace=namespace or config.namespace, image=image or config.image)


def _named(services: Services, name: str) -> GpuClass:
    known = {one.name: one for one in known_gpu_classes(services.catalog)}
    if name not in known:
        raise GpuClassNotFound(
            f"This database has no GPU class {name!r}; it has: {', '.join(known) or 'none'}.", gpu_class=name
        )
    return known[name]


def _example(services: Services, gpu_class: GpuClass, function: str | None) -> WorkerRequest:
    found = None if function is None else services.catalog.function(function)
    if found is not None and not found.placement.gpu:
        raise InvalidInput(
            f"Function {found.name} uses no GPU: it runs in workers of no GPU class.", function=found.name
        )
    if found is not None:
        check_runs_on(services, found, gpu_class.name)
    return WorkerRequest(
        request_id="example",
        job_id="JOB",
        owner="job JOB (refresh of TABLE.COLUMN)",
        function=found.name if found else "FUNCTION",
        version=found.version if found else 1,
        gpu_class=gpu_class,
        gpus=found.placement.gpus if found else 1,
        cpus=found.placement.cpus if found else 1,
        env=found.env if found else {},
        asked_at=time.time(),
        environment=environment_of(found) if found else None,
        image=found.placement.image if found else None,
        secrets=found.placement.secrets if found else {},
    )
