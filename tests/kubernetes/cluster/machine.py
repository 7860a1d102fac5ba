"""Whether this machine can hold real nodes, and how it gets what they need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cluster import cgroups
from cluster.real_kubelet.containerd import CNI_PLUGINS

Say = Callable[[str], None]

# What is needed, and the package of Debian and Ubuntu that has it.
NEEDED = {
    "ip": "iproute2",
    "runc": "runc",
    "unshare": "util-linux",
    f"{CNI_PLUGINS}/bridge": "containernetworking-plugins",
    f"{CNI_PLUGINS}/host-local": "containernetworking-plugins",
}
INSTALL_SECONDS = 240.0
NAMESPACES = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]


def why_not() -> str | None:
    """Why there can be no real nodes here, whatever is installed."""
    if os.geteuid() != 0:
        return "real nodes are started by root only"
    if any(Path(part).resolve().is_relative_to("/tmp") for part in (__file__, sys.prefix)):
        return (
            "containers have a /tmp of their own and would not find this checkout, which lies there: clone it elsewhere"
        )
    tried = _run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/run"])
    if tried.returncode != 0:
        return f"real nodes live in namespaces of their own, and none can be made here: {tried.stderr.strip()[-200:]}"
    return cgroups.why_not()


def install(say: Say) -> str | None:
    """Install what is missing, and say so; returns why that did not work, None where all is there."""
    packages = " ".join(_missing())
    if not packages:
        return None
    if shutil.which("apt-get") is None:
        return f"real nodes need {packages} (as Debian calls them), and there is no apt-get"
    say(f"installing {packages}, for real nodes")
    command = f"apt-get install -y -qq --no-install-recommends {packages}"
    done = _run(["sh", "-c", f"{command} || {{ apt-get update -qq && {command}; }}"])
    if done.returncode == 0 and not _missing():
        return None
    return f"real nodes need {packages}, and `{command}` did not work: {done.stderr.strip()[-200:]}"


def _missing() -> list[str]:
    absent = {package for what, package in NEEDED.items() if not (shutil.which(what) or Path(what).exists())}
    return sorted(absent)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env=environment, timeout=INSTALL_SECONDS,
    )  # fmt: skip
