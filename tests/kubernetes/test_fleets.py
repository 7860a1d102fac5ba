"""How many workers a job has on a cluster, where they run, and what becomes of those whose memory does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import worker_functions
from applied import Remembering, counting, need_for, run
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster

from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.workers import WorkerPool

Place = Callable[..., KubernetesPlacement]


@pytest.fixture
def place(cluster: RunningCluster, namespace: str) -> Iterator[Place]:
    """Make a placement in the test's own namespace."""
    made: list[KubernetesPlacement] = []

    def make(**more: object) -> KubernetesPlacement:
        options: dict[str, object] = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": "worker:test",
            "database": "a test's",
            "cpu_node_selector": {"pool": "cpu"},
        }
        made.append(KubernetesPlacement(namespace, **{**options, **more}))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture
def cpu_node(process_node: AddProcessNode) -> None:
    """A node for CPU workers."""
    process_node("cpu-1", labels={"pool": "cpu"})


@pytest.mark.usefixtures("cpu_node")
def test_a_cpu_function_gets_a_second_pod_when_its_work_goes_on(place: Place) -> None:
    pool, watch = WorkerPool(place(), worker_idle_seconds=0), Remembering()
    computed = run(
        need_for(worker_functions.slow_batch), pool, counting(10_000), watch=watch, batch_size=1, max_workers=2
    )
    while "worker_added" not in dict(watch.events):
        assert next(computed)
    computed.close()  # type: ignore[attr-defined]
    pool.close()
