"""A node whose pods are processes of this machine, as a test holds it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cluster import processes
from cluster.api import Object
from cluster.control_plane import ControlPlane

# Pretended: nothing is held to it, and no test should meet it by accident.
RESOURCES = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "200"}
GPU = "nvidia.com/gpu"
ROOT = Path(__file__).parent.parent


class AddProcessNode(Protocol):
    """What the fixture `process_node` is."""

    def __call__(
        self,
        name: str,
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str | int] | None = None,
        annotations: Mapping[str, str] | None = None,
        far_away: bool = False,
    ) -> ProcessNode: ...


def ready(node: Object | None) -> bool:
    """Whether pods are scheduled to this node: the control plane has seen it ready, and taken its first taint away."""
    if node is None:
        return False
    conditions = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


class ProcessNode:
    """Starts one, tells it what to pretend, and takes it away with everything on it.

    The addresses of pods on a node that is `far_away` lead nowhere, as those of a cluster do for a laptop: only its kubelet
    reaches them.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        resources: Mapping[str, str | int] | None = None,
        annotations: Mapping[str, str] | None = None,
        far_away: bool = False,
    ) -> None:
        self.name, self._plane = name, plane
        user = f"system:node:{name}"
        certificate = plane.certificate(user, groups=("system:nodes",))
        reading, writing = os.pipe()
        spec = {
            "name": name,
            "kubeconfig": str(plane.user(user, groups=("system:nodes",))),
            "certificate": str(certificate.certificate),
            "key": str(certificate.key),
            "folder": str(plane.folder / "nodes" / name),
            "answers_fd": writing,
            "labels": dict(labels or {}),
            "taints": [dict(taint) for taint in taints],
            "annotations": dict(annotations or {}),
            "far_away": far_away,
            "resources": {**RESOURCES, **({GPU: str(gpus)} if gpus else {}), **_as_text(resources or {})},
        }
        path = plane.folder / f"node-{name}.json"
        path.write_text(json.dumps(spec))
        bin_folder = str(Path(sys.executable).parent)
        self._process = processes.start(
            [sys.executable, "-m", "cluster.process_kubelet", path],
            self.log,
            env={"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            keep=(writing,),
        )
        os.close(writing)
        self._answers = os.fdopen(reading)

    @property
    def log(self) -> Path:
        """What the node's process has printed: its own faults."""
        return self._plane.folder / f"node-{self.name}.log"

    def wait_ready(self) -> None:
        """Wait until pods are scheduled to it."""
        self._await_answer("registered")
        self._plane.api.until("Node", self.name, ready)

    def stop_heartbeats(self) -> None:
        """Be silent: after some seconds the node is `Unknown`; its pods go on, and what is asked of them is done."""
        self._tell("stop_heartbeats")

    def resume_heartbeats(self) -> None:
        """Speak again."""
        self._tell("resume_heartbeats")

    def freeze(self) -> None:
        """Stop the kubelet alone, as a machine cut off from the network: no heartbeat, no report, pods never end."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the kubelet go on."""
        self._process.send_signal(signal.SIGCONT)

    def lose_power(self) -> None:
        """Kill the kubelet and every process of its pods; the objects stay, and tell nothing of it."""
        processes.end([self._process], grace_seconds=0)

    def close(self) -> None:
        """Take away the node, its pods and their processes."""
        self.thaw()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(processes.GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.lose_power()
        self._answers.close()
        self._plane.api.delete("Node", self.name)
        self._plane.api.delete_all("Pod", fieldSelector=f"spec.nodeName={self.name}")

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        self._await_answer(command)

    def _await_answer(self, wanted: str) -> None:
        answer = self._answers.readline().strip()
        if answer != wanted:
            raise RuntimeError(f"the process node {self.name} ended: {self.log.read_text()[-2000:]}")


def _as_text(resources: Mapping[str, str | int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in resources.items()}
