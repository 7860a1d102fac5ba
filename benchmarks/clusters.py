"""What the benchmarks of clusters share: a control plane of the tests' own, or one line that says why there is none."""

# ruff: noqa: E402 - the cluster is found beside the tests
from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS / "kubernetes"), str(TESTS)]

from cluster import build
from cluster.api import Api
from cluster.control_plane import ControlPlane
from cluster.folder import own_folder
from cluster.kwok import Kwok
from cluster.pods import pod
from cluster.process_node import ProcessNode
from cluster.real_node import RealNode

__all__ = ["Api", "ControlPlane", "Kwok", "ProcessNode", "RealNode", "control_plane", "load_words", "pod"]


@contextmanager
def control_plane(*, node_grace_seconds: int = 40) -> Iterator[ControlPlane]:
    """Start one, without nodes, of which each may be silent for so long; where none can be had, say why in one line and end the benchmark."""
    reason = build.why_not()
    if reason is not None:
        print(f"left out: no cluster can be started here: {reason}")
        raise SystemExit(0)
    build.build(lambda line: print(f"test cluster: {line}", flush=True))
    with own_folder() as folder:
        plane = ControlPlane(folder, build.cached(), node_grace_seconds)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


def load_words() -> str:
    """Return how busy this machine is: what others run beside a benchmark is in its figures."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
