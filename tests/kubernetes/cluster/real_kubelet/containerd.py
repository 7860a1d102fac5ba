"""The container runtime of a node: containerd, with runc."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.real_kubelet.image import SANDBOX_IMAGE

SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"  # where Debian has them
READY_SECONDS = 30.0
# No event tells that a socket answers.
POLL_SECONDS = 0.02

CONFIG = """version = 3
root = "/run/containerd/root"
state = "/run/containerd/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{sandbox}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true  # this machine may itself be held in a container that may not lower it
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{cni_plugins}"]
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{base}"
"""


def start(programs: Path, folder: Path, mounts: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it; every container sees the folders `mounts` of this machine, read-only: images need not hold them."""
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}  # it looks for its shim there
    base = folder / "base-spec.json"
    base.write_text(json.dumps(_base_spec(programs, mounts)))
    config = folder / "containerd.toml"
    config.write_text(
        CONFIG.format(socket=SOCKET, sandbox=SANDBOX_IMAGE, cni_plugins=CNI_PLUGINS, cni=folder / "cni", base=base)
    )
    with (folder / "containerd.log").open("ab") as log:
        process = subprocess.Popen(
            [programs / "containerd", "--config", config],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
    _await_socket()
    return process


def load(programs: Path, images: Path) -> None:
    """Give it the images of an archive."""
    subprocess.run([programs / "ctr", "-a", SOCKET, "-n", "k8s.io", "images", "import", images], check=True)


def _base_spec(programs: Path, mounts: Sequence[str]) -> dict[str, object]:
    """What containerd would begin each container with, and the mounts."""
    printed = subprocess.run([programs / "ctr", "oci", "spec"], check=True, capture_output=True).stdout
    spec: dict[str, object] = json.loads(printed)
    bound = [
        {"destination": one, "source": one, "type": "bind", "options": ["rbind", "ro", "nosuid", "nodev"]}
        for one in mounts
    ]
    spec["mounts"] = [*spec["mounts"], *bound]  # type: ignore[misc]
    return spec


def _await_socket() -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as one:
            if one.connect_ex(SOCKET) == 0:
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"containerd did not answer within {READY_SECONDS} s")
        time.sleep(POLL_SECONDS)
