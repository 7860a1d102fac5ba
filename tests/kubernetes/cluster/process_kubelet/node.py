"""The Node object: registered, kept alive by its lease, and the pods bound to it."""

from __future__ import annotations

import base64
import itertools
import os
import platform
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.api import Api, ApiError
from cluster.process_kubelet import devices, status
from cluster.process_kubelet.pod import Changed, Gone, PodRun

Document = Mapping[str, Any]

LEASES = "kube-node-lease"
LEASE_SECONDS = 8
HEARTBEAT_SECONDS = 2.0
RETRY_SECONDS = 0.2
PODS_PER_NODE = 250
# Addresses of pods begin with the first; nobody listens at those that begin with the second.
SUBNETS, NOWHERE = "127.77.", "127.78."
CONDITIONS = {
    "Ready": ("True", "KubeletReady"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
}


class ProcessKubelet:
    """Runs the pods that the scheduler binds to one node."""

    def __init__(self, api: Api, spec: Document, folder: Path, subnet: str, port: int) -> None:
        self.api, self.name, self._folder, self._subnet = api, str(spec["name"]), folder, subnet
        resources: Mapping[str, str] = spec["resources"]
        self.devices = devices.DevicePool({name: int(n) for name, n in resources.items() if devices.is_device(name)})
        host, server_port = api.server.removeprefix("https://").rsplit(":", 1)
        self.base_environment: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": server_port,
        }
        self._far_away: bool = spec["far_away"]
        self._node = _document(spec, self._status(resources, port))
        self._pods: dict[str, PodRun] = {}
        self._numbers = itertools.count()
        self._beating, self._stopped = threading.Event(), threading.Event()
        self._beating.set()

    def start(self) -> None:
        """Register, and begin to serve; returns at once."""
        self.api.create(dict(self._node))
        for work in (self._beat, self._follow_pods):
            threading.Thread(target=work, daemon=True).start()

    def stop(self) -> None:
        """Kill the pods' processes; their objects and the Node stay, as when a machine loses power."""
        self._stopped.set()
        for run in list(self._pods.values()):
            run.inbox.put(Gone())
        for run in list(self._pods.values()):
            run.join(5)

    def stop_heartbeats(self) -> None:
        """Be silent, as if the network to the control plane were down; pods go on."""
        self._beating.clear()

    def resume_heartbeats(self) -> None:
        """Speak again: the node is ready once more."""
        self._say_ready()
        self._beating.set()

    def find(self, namespace: str, name: str) -> PodRun | None:
        """The pod of this name, where it is here."""
        found = [run for run in self._pods.values() if (run.namespace, run.name) == (namespace, name)]
        return found[-1] if found else None

    def address_told(self, pod_ip: str) -> str:
        """The address that the cluster is told of a pod: where the node is far away, one that leads nowhere from here."""
        return pod_ip.replace(SUBNETS, NOWHERE, 1) if self._far_away else pod_ip

    def look_up(self, namespace: str, kind: str, name: str) -> Mapping[str, str] | None:
        """The data of a Secret or a ConfigMap; None where it is not there, or not yet for this node to see."""
        try:
            found = self.api.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 403:
                return None
            raise
        if found is None:
            return None
        data: Mapping[str, str] = found.get("data") or {}
        return data if kind == "ConfigMap" else {key: base64.b64decode(value).decode() for key, value in data.items()}

    def _follow_pods(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow_once()
            except (OSError, ApiError, ValueError):
                self._stopped.wait(RETRY_SECONDS)  # the API server is away: ask again for everything

    def _follow_once(self) -> None:
        seen: set[str] = set()
        bound_here = f"spec.nodeName={self.name}"
        for kind, pod in self.api.watch("Pod", fieldSelector=bound_here, on_listed=lambda: self._forget_all_but(seen)):
            seen.add(pod["metadata"]["uid"])
            self._handle(kind, pod)

    def _forget_all_but(self, seen: set[str]) -> None:
        for uid in self._pods.keys() - seen:
            self._pods.pop(uid).inbox.put(Gone())

    def _handle(self, kind: str, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        run = self._pods.get(uid)
        if kind == "DELETED":
            if run is not None:
                self._pods.pop(uid).inbox.put(Gone())
        elif run is not None:
            run.inbox.put(Changed(pod))
        elif pod.get("status", {}).get("phase") == "Pending" or "deletionTimestamp" in pod["metadata"]:
            self._begin(uid, pod)

    def _begin(self, uid: str, pod: Document) -> None:
        number = next(self._numbers) % PODS_PER_NODE + 1
        folder = self._folder / f"{pod['metadata']['namespace']}_{pod['metadata']['name']}_{uid}"
        self._pods[uid] = run = PodRun(self, pod, f"{self._subnet}.{number}", folder)
        run.inbox.put(Changed(pod))
        run.start()

    def _beat(self) -> None:
        while not self._stopped.wait(HEARTBEAT_SECONDS):
            if self._beating.is_set():
                try:
                    self._renew()
                except (OSError, ApiError):
                    continue  # the next beat is soon

    def _renew(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": status.now_exactly()}
        try:
            self.api.patch("Lease", self.name, {"spec": spec}, LEASES)
        except ApiError as error:
            if error.status != 404:
                raise
            self.api.create({"kind": "Lease", "metadata": {"name": self.name, "namespace": LEASES}, "spec": spec})

    def _say_ready(self) -> None:
        self._renew()
        self.api.patch("Node", self.name, {"status": {"conditions": _conditions()}}, part="status")

    def _status(self, resources: Mapping[str, str], port: int) -> dict[str, Any]:
        return {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "conditions": _conditions(),
            "addresses": [
                {"type": "InternalIP", "address": f"{self._subnet}.{PODS_PER_NODE + 4}"},
                {"type": "Hostname", "address": self.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": {
                **dict.fromkeys(("machineID", "systemUUID", "bootID", "osImage", "kubeProxyVersion"), ""),
                "kernelVersion": platform.release(),
                "kubeletVersion": "v1.37.0-process",
                "containerRuntimeVersion": "process://1",
                "operatingSystem": "linux",
                "architecture": _architecture(),
            },
        }


def _document(spec: Document, node_status: Document) -> dict[str, Any]:
    name = spec["name"]
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": _architecture()}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **spec["labels"]}, "annotations": dict(spec["annotations"])},
        "spec": {"taints": list(spec["taints"])},
        "status": dict(node_status),
    }


def _conditions() -> list[dict[str, str]]:
    now = status.now()
    return [
        {"type": kind, "status": holds, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, (holds, reason) in CONDITIONS.items()
    ]


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
