"""examples/kubernetes on a real node: its image, simulated GPUs, a namespace of its own, a volume on this machine's disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cluster.api import Api
from cluster.kubectl import Kubectl
from cluster.real_node import RealNode
from suites import TESTS

EXAMPLE = TESTS.parent / "examples" / "kubernetes"
DEPLOYMENT = "deploy/lancegpu-agent"
AGENTS = "app.kubernetes.io/name=lancegpu-agent"
WORKERS = "app.kubernetes.io/managed-by=lancegpu"
CLASS = {"name": "default", "gpu_model": "simulated", "gpu_memory_bytes": "1GiB", "node_selector": {"pool": "real"}}

_SMALL = [
    {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"pool": "real"}},
    {"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests", "value": {"cpu": "100m"}},
    {"op": "add", "path": "/spec/template/spec/containers/0/readinessProbe/periodSeconds", "value": 1},
]


def write_overlay(
    folder: Path,
    node: RealNode,
    namespace: str,
    classes: Sequence[Mapping[str, Any]] = (CLASS,),
    *,
    agent: Sequence[Mapping[str, Any]] = (),
    patches: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Change the example as its document says to; `agent` is what else changes of the Deployment."""
    shutil.copytree(EXAMPLE / "base", folder / "base")
    base = folder / "base" / "kustomization.yaml"
    changed = yaml.safe_load(base.read_text())
    name, _, tag = node.worker_image.rpartition(":")
    changed["images"] = [{"name": "lancegpu-sql", "newName": name, "newTag": tag}]
    base.write_text(yaml.safe_dump(changed))
    (folder / "base" / "gpu_classes.yaml").write_text(yaml.safe_dump({"gpu_classes": [dict(one) for one in classes]}))
    here = folder / "overlay"
    here.mkdir()
    (here / "volume.yaml").write_text(yaml.safe_dump(_volume(folder / "disk", namespace)))
    small = {
        "target": {"kind": "Deployment", "name": "lancegpu-agent"},
        "patch": yaml.safe_dump([*_SMALL, *map(dict, agent)]),
    }
    told = {"namespace": namespace, "resources": ["../base", "volume.yaml"], "patches": [*map(dict, patches), small]}
    (here / "kustomization.yaml").write_text(yaml.safe_dump(told))
    return here


def inside(kubectl: Kubectl, namespace: str, *command: str, stdin: str = "", pod: str = DEPLOYMENT) -> str:
    """Run something in an agent's pod, as the example's document does, and return what it printed."""
    ran = kubectl("-n", namespace, "exec", "-i", pod, "-c", "agent", "--", *command, stdin=stdin)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def names(api: Api, kind: str, namespace: str, labels: str) -> list[str]:
    """The names of the objects of a kind that carry some labels."""
    return [one["metadata"]["name"] for one in api.list(kind, namespace, labelSelector=labels)]


def _volume(disk: Path, namespace: str) -> dict[str, Any]:
    disk.mkdir()
    disk.chmod(0o777)  # what a StorageClass would make for the pod's group
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "capacity": {"storage": "100Gi"},
            "claimRef": {"namespace": namespace, "name": "lancegpu-database"},
            "hostPath": {"path": str(disk)},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
