"""Workers as pods of a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, need_for
from cluster.pods import pod, running
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.placement import GpuClass
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.workers import WorkerPool

L4 = GpuClass(name="l4", node_selector={"pool": "l4"})

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


def test_a_worker_of_a_gpu_class_computes_on_a_node_of_its_pool(place: Place, process_node: AddProcessNode):
    process_node("l4-1", gpus=1, labels={"pool": "l4"})
    pool = WorkerPool(place(), worker_idle_seconds=0)
    lease = pool.lease(need_for(worker_functions.double, gpu_class=L4), lambda _: None, NO_ONE)
    assert lease.devices[0].startswith("l4-1/")
    lease.release()
    pool.close()


CLASSES = """
gpu_classes:
  - {name: l4, gpu_model: L4, gpu_memory_bytes: 24GiB, node_selector: {pool: l4}}
"""


@lg.function(gpu=True, gpu_class="l4")
def twice(number: int) -> int:
    """The GPU Function of these tests."""
    return 2 * number


@pytest.fixture
def database(place: Place, tmp_path: Path) -> Iterator[lg.Database]:
    """A database with a table of three numbers and a column that a GPU of class l4 computes."""
    (tmp_path / "classes.yaml").write_text(CLASSES)
    db = lg.connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", placement=place(), progress="quiet")
    table = db.create_table("numbers", pa.table({"number": [1, 2, 3]}))
    table.add_columns({"twice": twice(lg.col("number"))})
    yield db
    db.close()


def test_a_refresh_waits_for_the_only_gpu_and_goes_on_when_it_is_free(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, database: lg.Database
):
    process_node("l4-1", gpus=1, labels={"pool": "l4"})
    api = cluster.client()
    api.create(pod("foreign", "sleep 600", gpus=1), namespace)
    api.until("Pod", "foreign", running, namespace)
    job = database.open_table("numbers").refresh_column_async("twice")
    seen = database.get_job(job.id)
    record = seen.record
    while record.state != JobState.WAITING:
        record = seen.next_change(record, 30)
    assert record.waiting_on.reason == "in_use"
    assert "1 pod that is not ours" in record.waiting_on.message
    api.delete("Pod", "foreign", namespace)
    assert job.wait(60).rows_assigned == 3
    assert database.open_table("numbers").to_arrow(["twice"])["twice"].to_pylist() == [2, 4, 6]
