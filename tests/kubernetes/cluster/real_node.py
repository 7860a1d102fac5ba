"""A real node of the test cluster, as a test holds it: pods are containers, under limits that the kernel enforces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from cluster import cgroups, kubeconfig, machine, processes
from cluster.api import Object
from cluster.control_plane import ControlPlane
from cluster.doorway import Doorway
from cluster.process_node import GPU, ROOT, ready
from cluster.real_kubelet import image, network

CHECKOUT = ROOT.parents[1]
# A safety net: it takes two or three.
START_SECONDS = 60.0
POLL_SECONDS = 0.005
LINKS = range(1, 255)


class RealNode:
    """Starts one in namespaces of its own, and takes it away with everything on it.

    Its GPUs are simulated: a device plugin offers them, and a pod is told which ones it has.
    """

    worker_image = image.WORKER_IMAGE
    root_image = image.ROOT_IMAGE

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        *,
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.name, self.gpus, self._plane = name, gpus, plane
        self.folder = plane.folder / f"node-{name}"
        self.folder.mkdir(exist_ok=True)
        self._group = cgroups.make(os.getpid(), name)
        self._owner, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner.settimeout(START_SECONDS)
        self._link = next(number for number in LINKS if not _link_exists(number))
        spec = {
            "name": name,
            "number": self._link,
            "gpus": gpus,
            "resource": GPU,
            "labels": dict(labels or {}),
            "taints": [dict(taint) for taint in taints],
            "cgroup": self._group,
            "programs": str(plane.programs.folder),
            "kubeconfig": str(self._kubeconfig()),
            "authority": str(plane.authority.own.certificate),
            "mounts": image.folders(CHECKOUT),
            "folder": str(self.folder),
            "socket_fd": theirs.fileno(),
        }
        path = self.folder / "spec.json"
        path.write_text(json.dumps(spec))
        self._process = processes.start(
            [*machine.NAMESPACES, sys.executable, "-m", "cluster.real_kubelet", path],
            self.log,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            keep=(theirs.fileno(),),
        )
        theirs.close()
        try:
            self._doorway = self._connect()
        except BaseException:
            self._end()
            raise

    @property
    def machine_address(self) -> str:
        """Where pods reach what this machine serves."""
        return network.machine_address(self._link)

    @property
    def log(self) -> Path:
        """What the node's first process has printed; the others' logs are beside it."""
        return self.folder / "node.log"

    def wait_ready(self) -> None:
        """Wait until pods are scheduled to it, and its GPUs are there."""
        self._plane.api.until("Node", self.name, self._complete, seconds=START_SECONDS)

    def close(self) -> None:
        """Take away the node, its pods and their containers; what is left of it is its log."""
        self._doorway.close()
        self._end()
        self._plane.api.delete("Node", self.name)
        self._plane.api.delete_all("Pod", fieldSelector=f"spec.nodeName={self.name}")

    def _end(self) -> None:
        """End its first process, and with it all others; the link and the mounts go with their namespaces."""
        self._owner.close()
        try:
            self._process.wait(processes.GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            processes.end([self._process], grace_seconds=0)
        cgroups.remove(self._group)

    def _complete(self, node: Object | None) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the node {self.name} ended: {self.log.read_text()[-2000:]}")
        return ready(node) and (node or {})["status"]["allocatable"].get(GPU, "0") == str(self.gpus)

    def _kubeconfig(self) -> Path:
        user = f"system:node:{self.name}"
        certificate = self._plane.certificate(user, groups=("system:nodes",))
        host, port = network.API_SERVER
        authority = self._plane.authority.own.certificate
        return kubeconfig.write(self.folder / "kubeconfig", f"https://{host}:{port}", authority, user=certificate)

    def _connect(self) -> Doorway:
        """Give it its link to this machine, and let it reach the API server."""
        here = network.machine_address(self._link)
        name = _link_name(self._link)
        _ip(f"link add {name} type veth peer name {network.LINK} netns {self._first_process()}")
        _ip(f"address add {here}/30 dev {name}")
        _ip(f"link set {name} up")
        _ip(f"route add {network.pod_subnet(self._link)} via {network.node_address(self._link)}")
        self._owner.send(b"linked")
        _, (fd,), *_ = socket.recv_fds(self._owner, 16, 1)
        server = urlsplit(self._plane.server)
        assert server.hostname is not None
        assert server.port is not None
        return Doorway(socket.socket(fileno=fd), (server.hostname, server.port))

    def _first_process(self) -> str:
        """The child of what made the namespaces."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            found = children.read_text().split()
            if found:
                return found[0]
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"the node {self.name} did not start: {self.log.read_text()[-2000:]}")


def _link_name(number: int) -> str:
    return f"lancegpu{number}"


def _link_exists(number: int) -> bool:
    return Path("/sys/class/net", _link_name(number)).exists()


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {words}: {done.stderr.strip()}")
