"""Paired YAML files: what is asked for (``NAME.asked.yaml``) and the objects it becomes (``NAME.pod.yaml``).

``python tests/pods.py`` writes the second files anew; what changed is then to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.config import KubernetesConfig
from lancegpu_sql.placement.kubernetes.manifest import claim_template, worker_pod
from lancegpu_sql.placement.kubernetes.names import worker_name
from lancegpu_sql.placement.request import WorkerRequest

FOLDER = Path(__file__).parent / "unit" / "placement" / "kubernetes" / "pods"
NAMES = sorted(path.name.removesuffix(".asked.yaml") for path in FOLDER.glob("*.asked.yaml"))
DATABASE = "shop"


@dataclass(frozen=True)
class Case:
    """One pair."""

    name: str
    request: WorkerRequest
    config: KubernetesConfig
    owner: dict[str, Any] | None

    def objects(self) -> list[dict[str, Any]]:
        """The claim template, where there is one, and the pod."""
        gpu_class = self.request.gpu_class
        template = None
        if gpu_class is not None:
            template = claim_template(gpu_class, self.request.gpus, owner=self.owner, database=DATABASE)
        return [one for one in (template, self.pod()) if one is not None]

    def pod(self) -> dict[str, Any]:
        """The pod."""
        name = worker_name(self.request)
        return worker_pod(self.request, self.config, name=name, secret_name=name, owner=self.owner, database=DATABASE)

    @property
    def expected(self) -> Path:
        """Where what it should become stands."""
        return FOLDER / f"{self.name}.pod.yaml"


def request_for(gpu_class: GpuClass | None = None, **changes: Any) -> WorkerRequest:
    """A request for a worker."""
    asked: dict[str, Any] = {
        "request_id": "0123456789abcdef",
        "job_id": "01930000-0000-7000-8000-000000000000",
        "owner": "job 01930000 (refresh of reviews.score, process 4711)",
        "function": "embed",
        "version": 1,
        "gpus": 0 if gpu_class is None else 1,
        "cpus": 1,
        "env": {},
        "asked_at": 0.0,
    }
    return WorkerRequest(gpu_class=gpu_class, **{**asked, **changes})


def case(name: str, **config: Any) -> Case:
    """Read what is asked for; keywords change the configuration."""
    asked = yaml.safe_load((FOLDER / f"{name}.asked.yaml").read_text())
    gpu_class = GpuClass.from_spec(asked["gpu_class"]) if "gpu_class" in asked else None
    defaults = {"namespace": "ml", "image": "registry.example.com/lancegpu:1"}
    return Case(
        name,
        request_for(gpu_class, **asked["request"]),
        KubernetesConfig(**{**defaults, **asked.get("config", {}), **config}),
        asked.get("owner"),
    )


if __name__ == "__main__":
    for one in map(case, NAMES):
        one.expected.write_text(yaml.safe_dump_all(one.objects(), sort_keys=False, width=120))
