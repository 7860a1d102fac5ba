"""The kubelet of a node: its configuration and command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.real_kubelet import containerd, network

FOLDER = "/var/lib/kubelet"
"""Its own, and where device plugins look for it: that path is compiled in."""

LEASE_SECONDS = 8
HEARTBEAT = "2s"


def command(spec: Mapping[str, Any], folder: Path) -> list[str]:
    """The command line, with the files it names written to `folder`."""
    network.write_cni(folder / "cni", spec["number"])
    resolver = folder / "resolv.conf"
    resolver.touch()  # no names are looked up in pods
    config = folder / "kubelet.json"
    config.write_text(json.dumps(_configuration(spec, resolver)))
    return [
        str(Path(spec["programs"]) / "kubelet"),
        f"--kubeconfig={spec['kubeconfig']}",
        f"--config={config}",
        f"--root-dir={FOLDER}",
        f"--cert-dir={FOLDER}/pki",
        f"--hostname-override={spec['name']}",
        f"--node-ip={network.node_address(spec['number'])}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in spec['labels'].items())}",
    ]


def _configuration(spec: Mapping[str, Any], resolver: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.node_address(spec["number"]),
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": spec["authority"]},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{spec['cgroup']}",
        "failCgroupV1": False,  # since 1.35 it refuses such a machine unless told so
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "nodeStatusUpdateFrequency": HEARTBEAT,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "syncFrequency": "2s",
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "serializeImagePulls": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(resolver),
        "clusterDomain": "cluster.local",
        # A machine that is short of something for others' reasons must not evict a test's pods.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "registerWithTaints": spec["taints"],
    }
