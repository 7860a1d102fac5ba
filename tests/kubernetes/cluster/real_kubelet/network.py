"""A node's own network: one link to the machine that it is on, a bridge for its pods, and the API server's service address."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

API_SERVER = ("10.96.0.1", 443)
"""Where pods look for it. On a real cluster kube-proxy sends them on; here a doorway does."""

LINK = "eth0"


def machine_address(number: int) -> str:
    """The machine's end of the link to a node."""
    return f"198.19.{number}.1"  # 198.18.0.0/15 is for tests of networks (RFC 2544): no real one uses it


def node_address(number: int) -> str:
    """The node's end of it."""
    return f"198.19.{number}.2"


def pod_subnet(number: int) -> str:
    """The addresses of a node's pods."""
    return f"198.18.{number}.0/24"


def join(number: int) -> None:
    """Take the node's addresses. There is no way out: what a test does not bring is not there, and that is told at once."""
    for words in (
        "link set lo up",
        f"address add {API_SERVER[0]}/32 dev lo",
        f"address add {node_address(number)}/30 dev {LINK}",
        f"link set {LINK} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # between the link and the bridge, in this namespace only


def listen_as_api_server() -> socket.socket:
    """A socket that belongs to the node's network, whoever accepts from it."""
    return socket.create_server(API_SERVER)


def write_cni(folder: Path, number: int) -> None:
    """Tell containerd how a pod gets its address."""
    ranges = [[{"subnet": pod_subnet(number)}]]
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    document = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
    (folder / "pods.conflist").write_text(json.dumps(document))
