"""What a Kubernetes placement is told once, for all its workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lancegpu_sql.errors import InvalidPlacement
from lancegpu_sql.placement.cpu_ladder import CpuRung, check_cpu_ladder, parse_cpu_ladder, rung_named
from lancegpu_sql.placement.images import check_rule, parse_image
from lancegpu_sql.settings import Settings

GPU_NODE_LABELS = (
    "nvidia.com/gpu.present",  # NVIDIA's GPU operator
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-count",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)
"""Labels by which clusters mark their GPU nodes."""

ReachChoice = Literal["auto", "direct", "port_forward"]

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_DEFAULTS = Settings()
DEFAULT_CPU_RUNGS = parse_cpu_ladder(_DEFAULTS.kubernetes_cpu_ladder)


@dataclass(frozen=True)
class KubernetesConfig:
    """Where workers run, what they run, and how patient the placement is.

    Parameters
    ----------
    namespace
        Where pods and Secrets are made.
    context, kubeconfig, in_cluster
        How the API server is reached: a context of a kubeconfig file (None: the current one, the usual file), or the
        service account of the pod that this process runs in; ``"auto"`` takes the second where there is one.
    image, service_account
        Of workers whose GPU class names none.
    reach
        How workers are reached: ``"direct"``, at their pods' addresses; ``"port_forward"``, through the API server, as
        from a laptop; ``"auto"`` tries both outside the cluster, remembers what works, and prefers the first.
    python
        The interpreter in the image.
    worker_port
        Where a worker listens, in its own pod.
    orphan_seconds
        After how long without its owner a worker ends by itself.
    termination_grace_seconds
        How long a worker that must go may take to finish or hand back the batch in flight.
    image_pull_grace_seconds
        How long an image that cannot be pulled is waited for.
    cpu_rungs
        The sizes of CPU workers, smallest first.
    cpu_node_selector
        The nodes of CPU workers.
    cpu_allowed_images
        What an image may be that a CPU Function names; None allows any.
    environment_builds
        Whether packages without a wheel may be built for a Function's environment.
    gpu_node_labels
        CPU workers stay off nodes that carry one of these labels.
    request_timeout_seconds, queries_per_second, query_burst
        Of calls to the API server.

    Raises
    ------
    InvalidPlacement
        A value that cannot be.
    """

    namespace: str
    context: str | None = None
    kubeconfig: str | None = None
    in_cluster: bool | Literal["auto"] = "auto"
    image: str | None = None
    service_account: str | None = None
    reach: ReachChoice = "auto"
    python: str = "python"
    worker_port: int = 7861
    orphan_seconds: float = _DEFAULTS.kubernetes_orphan_seconds
    termination_grace_seconds: int = _DEFAULTS.kubernetes_termination_grace_seconds
    image_pull_grace_seconds: float = _DEFAULTS.kubernetes_image_pull_grace_seconds
    cpu_rungs: tuple[CpuRung, ...] = DEFAULT_CPU_RUNGS
    cpu_node_selector: Mapping[str, str] = field(default_factory=dict)
    gpu_node_labels: tuple[str, ...] = GPU_NODE_LABELS
    cpu_allowed_images: tuple[str, ...] | None = None
    environment_builds: bool = False
    request_timeout_seconds: float = 30.0
    queries_per_second: float = 20.0
    query_burst: int = 40

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidPlacement(f"{self.namespace!r} cannot name a namespace: use a-z, 0-9 and -, at most 63.")
        if self.image is not None:
            try:
                parse_image(self.image)
            except ValueError as exc:
                raise InvalidPlacement(str(exc), image=self.image) from exc
        if self.reach not in get_args(ReachChoice):
            raise InvalidPlacement(f"reach is one of {', '.join(get_args(ReachChoice))}, not {self.reach!r}.")
        # Below 1024 a worker, which is never root, could not listen everywhere.
        if not 1024 <= self.worker_port <= 65535:
            raise InvalidPlacement(f"worker_port is a number from 1024 to 65535, not {self.worker_port}.")
        if self.in_cluster is True and (self.context or self.kubeconfig):
            raise InvalidPlacement(
                "in_cluster=True uses the pod's own service account: leave context and kubeconfig out."
            )
        check_cpu_ladder(self.cpu_rungs)
        for rule in self.cpu_allowed_images or ():
            try:
                check_rule(rule)
            except ValueError as exc:
                raise InvalidPlacement(str(exc)) from exc
        for name in (
            "orphan_seconds",
            "termination_grace_seconds",
            "request_timeout_seconds",
            "queries_per_second",
            "query_burst",
        ):
            if getattr(self, name) <= 0:
                raise InvalidPlacement(f"{name} is more than 0, not {getattr(self, name)}.")

    def cpu_rung(self, name: str | None) -> CpuRung:
        """Return the size of CPU workers that has that name; the smallest where there is none, or none is named."""
        return rung_named(self.cpu_rungs, name)


def options_of(settings: Settings) -> dict[str, Any]:
    """Return what the settings say of a placement, as `KubernetesConfig` takes it; where it is, they say beside that.

    Raises
    ------
    InvalidPlacement
        A text that is not written as it should be.
    """
    marks = settings.kubernetes_gpu_node_labels
    images = settings.kubernetes_cpu_allowed_images
    return {
        "context": settings.kubernetes_context,
        "image": settings.kubernetes_image,
        "service_account": settings.kubernetes_service_account,
        "reach": settings.kubernetes_reach,
        "orphan_seconds": settings.kubernetes_orphan_seconds,
        "termination_grace_seconds": settings.kubernetes_termination_grace_seconds,
        "image_pull_grace_seconds": settings.kubernetes_image_pull_grace_seconds,
        "cpu_rungs": parse_cpu_ladder(settings.kubernetes_cpu_ladder),
        "cpu_node_selector": _labels(settings.kubernetes_cpu_node_selector or ""),
        "cpu_allowed_images": None if images is None else tuple(_parts(images)),
        "environment_builds": settings.environment_builds,
        "gpu_node_labels": GPU_NODE_LABELS if marks is None else tuple(_parts(marks)),
    }


def _parts(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for part in _parts(text):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not key or not equals:
            raise InvalidPlacement(
                f"{part!r} is no label: the setting kubernetes_cpu_node_selector is as 'pool=cpu, a=b'"
            )
        labels[key] = value
    return labels
