"""Nodes and pods that are only objects, by the hundred: kwok pretends to be their kubelets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cluster import processes
from cluster.control_plane import ControlPlane
from cluster.process_node import GPU, RESOURCES, ready

OURS = "kwok.x-k8s.io/node"


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
    """Starts kwok with the first node."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
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
        for name in names:
            self._plane.api.create(
                {
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "annotations": {OURS: "fake", **(annotations or {})},
                        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
                    },
                    "spec": {"taints": [dict(taint) for taint in taints]},
                    "status": {"capacity": capacity, "allocatable": capacity},
                }
            )
        for name in names:
            self._plane.api.until("Node", name, ready)

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

    def _start(self) -> subprocess.Popen[bytes]:
        programs = self._plane.programs
        stages = [word for path in programs.files for word in ("-c", path)]
        selector = f"--manage-nodes-with-annotation-selector={OURS}=fake"
        command = [programs["kwok"], "--kubeconfig", self._plane.kubeconfig, selector, *stages]
        return processes.start([*command, "--node-lease-duration-seconds=40"], self._plane.folder / "kwok.log")
