"""Workers as pods of a real cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, need_for
from cluster.api import Object
from cluster.pods import pod, running
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from placement_suite import Ask, Asked, PlacementSuite
from placing import Place

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.placement import GpuClass, Ready, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.names import label_value
from lancegpu_sql.workers import WorkerPool

L4 = GpuClass(name="l4", node_selector={"pool": "l4"})


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


def test_an_idle_worker_may_be_moved_until_it_computes_again(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, place: Place
):
    process_node("l4-1", gpus=1, labels={"pool": "l4"})
    pool = WorkerPool(place(), worker_idle_seconds=600)
    need = need_for(worker_functions.double, gpu_class=L4)
    pool.lease(need, lambda _: None, NO_ONE).release()
    api = cluster.client()
    (found,) = api.list("Pod", namespace)
    api.until("Pod", found["metadata"]["name"], may_be_moved, namespace)
    lease = pool.lease(need, lambda _: None, NO_ONE)
    api.until("Pod", found["metadata"]["name"], lambda one: not may_be_moved(one), namespace)
    lease.release()
    pool.close()


def may_be_moved(found: Object | None) -> bool:
    """A pod says that autoscalers may take it away."""
    assert found is not None
    return found["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"


class TestKubernetesPlacement(PlacementSuite):
    """What every placement does, with devices of process nodes."""

    logger = "lancegpu_sql.placement.kubernetes.loop"
    no_device = ("no_matching_node", "l4")
    too_large = "1"

    @pytest.fixture
    def placement(self, place: Place) -> KubernetesPlacement:
        return place(python=str(Path(__file__).parent / "stand_in_worker.py"))

    @pytest.fixture(autouse=True)
    def _nodes(self, process_node: AddProcessNode) -> None:
        self._add = process_node
        self._made: set[str] = set()
        self._cpu()

    def _cpu(self) -> None:
        self._add("cpu-1", labels={"pool": "cpu"})

    def gpu_class(self, name: str = "l4", devices: int = 1, max_workers: int | None = None) -> GpuClass:
        if devices and name not in self._made:
            self._made.add(name)
            self._add(f"{name}-1", gpus=devices, labels={"pool": name})
        return GpuClass(name=name, max_workers=max_workers, node_selector={"pool": name})

    def are_the_devices(self, devices: Iterable[str], name: str, count: int) -> bool:
        found = list(devices)
        return len(set(found)) == len(found) == count and all(one.startswith(f"{name}-1/") for one in found)

    def words_for(self, holder: Asked, owner: str) -> str:
        return f"by job {label_value(holder.ticket.request.job_id)}"

    def test_free_workers_counts_what_would_start_now(self, placement: KubernetesPlacement, ask: Ask) -> None:
        """One at a time: what is free in a cluster is not looked at for a hint."""
        one = self.gpu_class(devices=1)
        assert placement.free_workers(one, gpus=1, cpus=1) == 1
        ask(one).next(Ready)
        ask(one).next(Waiting)
        assert placement.free_workers(one, gpus=1, cpus=1) == 0

    @pytest.fixture
    def lose(self, cluster: RunningCluster, namespace: str) -> Callable[[Asked], None]:
        def lose(asked: Asked) -> None:
            found = cluster.client().get("Pod", asked.ticket.pod_name, namespace)
            container = found["status"]["containerStatuses"][0]["containerID"]
            os.kill(int(container.rpartition("/")[2]), signal.SIGKILL)

        return lose
