"""Nodes and pods that are only objects, by the hundred: kwok pretends to be their kubelets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from cluster import processes
from cluster.api import WAIT_SECONDS
from cluster.control_plane import ControlPlane
from cluster.process_node import GPU, RESOURCES, ready

OURS = "kwok.x-k8s.io/node"
# It does four things at a time by default, of pods and of nodes each.
OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": dict.fromkeys(("podPlayStageParallelism", "nodePlayStageParallelism", "nodeLeaseParallelism"), 16),
}


class AddKwokNodes(Protocol):
    """What the fixture `kwok_node` is."""

    def __call__(
        self,
        *names: str,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str | int] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...


class Kwok:
    """Starts kwok with the first node.

    Its pods get addresses of `pod_addresses`, behind which there is nobody, unless they are addresses of this machine. Its nodes
    tell that they live four times in `lease_seconds`.
    """

    def __init__(self, plane: ControlPlane, *, pod_addresses: str = "10.0.0.1/16", lease_seconds: int = 40) -> None:
        self._plane, self._pod_addresses, self._lease_seconds = plane, pod_addresses, lease_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def add(
        self,
        names: Sequence[str],
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str | int] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Make equal nodes; returns when pods are scheduled to all of them."""
        if self._process is None:
            self._process = self._start()
        capacity = {**RESOURCES, **({GPU: str(gpus)} if gpus else {})}
        capacity |= {name: str(amount) for name, amount in (resources or {}).items()}
        status = {"capacity": capacity, "allocatable": capacity}
        spec = {"taints": [dict(taint) for taint in taints]}

        def create(name: str) -> None:
            metadata = {
                "name": name,
                "annotations": {OURS: "fake", **(annotations or {})},
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
            }
            self._plane.api.create({"kind": "Node", "metadata": metadata, "spec": spec, "status": status})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(create, names))
        self._wait_ready(names)

    def remove(self, names: Iterable[str]) -> None:
        """Take away nodes and what is bound to them."""
        gone = set(names)
        for name in gone:
            self._plane.api.delete("Node", name)
        for pod in self._plane.api.list("Pod"):
            if pod["spec"].get("nodeName") in gone:
                self._plane.api.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)

    def stop(self) -> None:
        """End kwok."""
        if self._process is not None:
            processes.end([self._process])

    def _wait_ready(self, names: Iterable[str]) -> None:
        missing = set(names)
        while missing:
            for happened, node in self._plane.api.watch("Node", timeout_seconds=WAIT_SECONDS):
                if happened != "DELETED" and ready(node):
                    missing.discard(node["metadata"]["name"])
                if not missing:
                    break

    def _start(self) -> subprocess.Popen[bytes]:
        programs, options = self._plane.programs, self._plane.folder / "kwok.json"
        options.write_text(json.dumps(OPTIONS))
        stages = [word for path in (options, *programs.files) for word in ("-c", path)]
        selector = f"--manage-nodes-with-annotation-selector={OURS}=fake"
        command = [programs["kwok"], "--kubeconfig", self._plane.kubeconfig, selector, *stages]
        command += [f"--cidr={self._pod_addresses}", f"--node-lease-duration-seconds={self._lease_seconds}"]
        return processes.start(command, self._plane.folder / "kwok.log")
