"""``python -m cluster.real_kubelet SPEC``: the first process of a node's namespaces; it ends when its owner does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from cluster.real_kubelet import containerd, kubelet, network
from cluster.real_kubelet.image import write_images

Document = Mapping[str, Any]

# Nothing of a node is on a disk: what it writes there goes with it.
IN_MEMORY = ("/run", kubelet.FOLDER)


def main() -> NoReturn:
    """Become a node; each message on the socket is one step of two that must agree, and its end is the node's."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    owner = socket.socket(fileno=spec["socket_fd"])
    for place in IN_MEMORY:
        Path(place).mkdir(
            parents=True, exist_ok=True
        )  # an empty folder on the machine: nothing else of a node is seen there
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "node", place], check=True)
    owner.recv(1)  # the link to the outside is there
    network.join(spec["number"])
    listening = network.listen_as_api_server()
    socket.send_fds(owner, [b"doorway"], [listening.fileno()])
    listening.close()
    essential = _start(spec)
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    _reap(essential)


def _start(spec: Document) -> dict[int, str]:
    """Start what makes a node, with a log for each; returns what it cannot do without, by process id."""
    folder = Path(spec["folder"])
    images = folder / "images.tar"
    write_images(images)
    runtime = containerd.start(Path(spec["programs"]), folder, spec["mounts"])
    containerd.load(Path(spec["programs"]), images)
    agent = _spawn(kubelet.command(spec, folder), folder / "kubelet.log")
    started = {runtime.pid: "containerd", agent.pid: "kubelet"}
    if spec["gpus"]:
        plugin = [sys.executable, "-m", "cluster.real_kubelet.gpu_plugin", spec["resource"], str(spec["gpus"])]
        started[_spawn(plugin, folder / "gpu_plugin.log").pid] = "the device plugin"
    return started


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def _end_with(owner: socket.socket) -> None:
    owner.recv(1)  # nothing comes but the end
    os._exit(0)


def _reap(essential: Mapping[int, str]) -> NoReturn:
    """Do what a first process must: collect orphans. A node without one of its own parts is none."""
    while True:
        pid, status = os.wait()
        if pid in essential:
            sys.exit(f"{essential[pid]} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
