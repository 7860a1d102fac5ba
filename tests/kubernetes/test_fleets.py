"""How many workers a job has on a cluster, where they run, and what becomes of those whose memory does not suffice."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, Remembering, counting, need_for, run, values_of
from cluster.process_kubelet.simulation import SIMULATE, Simulation
from cluster.process_node import AddProcessNode
from cluster.running import RunningCluster
from placing import Place

import lancegpu_sql as lg
from lancegpu_sql.errors import WorkerLost
from lancegpu_sql.placement import GpuClass, PlacementEvent, Waiting
from lancegpu_sql.placement.kubernetes import CpuRung
from lancegpu_sql.workers import WorkerPool


def ignore(_event: PlacementEvent) -> None:
    """Listen to nothing."""


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


OWN = GpuClass(name="own", node_selector={"pool": "own"})
SPARE = GpuClass(name="spare", node_selector={"pool": "spare"})


def test_a_pod_of_a_backup_class_takes_over_where_the_own_class_is_full_and_the_other_is_withdrawn(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, place: Place
) -> None:
    for name in ("own", "spare"):
        process_node(f"{name}-1", gpus=1, labels={"pool": name})
    pool = WorkerPool(place(), worker_idle_seconds=0)
    need = replace(need_for(worker_functions.double, gpu_class=OWN), backups=(SPARE,))
    first = pool.lease(need, ignore, NO_ONE)
    second = pool.lease(need, ignore, NO_ONE)
    assert [first.gpu_class, second.gpu_class] == ["own", "spare"]
    assert second.devices[0].startswith("spare-1/")
    assert len(cluster.client().list("Pod", namespace)) == 2
    first.release()
    second.release()
    pool.close()


def test_where_all_classes_are_full_the_first_with_room_is_used(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, place: Place
) -> None:
    for name in ("own", "spare"):
        process_node(f"{name}-1", gpus=1, labels={"pool": name})
    pool = WorkerPool(place(), worker_idle_seconds=0)
    holders = [pool.lease(need_for(worker_functions.double, gpu_class=one), ignore, NO_ONE) for one in (OWN, SPARE)]
    heard: list[Waiting] = []

    def listen(event: PlacementEvent) -> None:
        if isinstance(event, Waiting) and not heard:
            heard.append(event)
            threading.Thread(target=holders[1].release).start()

    need = replace(need_for(worker_functions.double_all, gpu_class=OWN), backups=(SPARE,))
    taken = pool.lease(need, listen, NO_ONE)
    assert taken.gpu_class == "spare"
    assert "'spare' (in_use)" in heard[0].message
    assert len(cluster.client().list("Pod", namespace)) == 2
    taken.release()
    holders[0].release()
    pool.close()


SMALL, LARGE = CpuRung("small", 0.1, 64 * 1024**2), CpuRung("large", 0.1, 128 * 1024**2)


class Kept:
    """What is known of Functions' workers, as a catalog keeps it."""

    def __init__(self) -> None:
        self.rung: str | None = None

    def cpu_rung(self, name: str, version: int) -> str | None:
        return self.rung

    def keep_cpu_rung(self, name: str, version: int, rung: str) -> None:
        self.rung = rung


def limits(cluster: RunningCluster, namespace: str) -> list[str]:
    """The memory of the pods that run."""
    pods = cluster.client().list("Pod", namespace)
    return [one["spec"]["containers"][0]["resources"]["limits"]["memory"] for one in pods]


@pytest.mark.usefixtures("cpu_node")
def test_a_cpu_worker_killed_for_memory_is_replaced_one_rung_up_and_the_next_pool_begins_there(
    cluster: RunningCluster, namespace: str, place: Place
) -> None:
    kept, watch, placement = Kept(), Remembering(), place(cpu_rungs=(SMALL, LARGE))
    need = need_for(worker_functions.slow_batch)
    pool = WorkerPool(placement, worker_idle_seconds=0, rungs=kept)
    computed = run(need, pool, counting(300), watch=watch, batch_size=10, max_workers=1, max_worker_losses=0)
    values = next(computed).values.to_pylist()
    (found,) = cluster.client().list("Pod", namespace)
    killed = {"metadata": {"annotations": {SIMULATE: Simulation.OUT_OF_MEMORY}}}
    cluster.client().patch("Pod", found["metadata"]["name"], killed, namespace)
    assert values + values_of(computed) == [2 * number for number in range(300)]
    told = dict(watch.events)["worker_outgrown"]
    assert "killed for memory at small (0.0625 GiB); the next one is large (0.125 GiB)" in told
    pool.close()
    pool = WorkerPool(placement, worker_idle_seconds=0, rungs=kept)
    lease = pool.lease(need, ignore, NO_ONE)
    assert limits(cluster, namespace) == ["128Mi"]
    lease.release()
    pool.close()


@pytest.mark.usefixtures("cpu_node")
def test_at_the_top_of_the_ladder_the_rows_are_blamed(cluster: RunningCluster, namespace: str, place: Place) -> None:
    pool = WorkerPool(place(cpu_rungs=(SMALL,)), worker_idle_seconds=0)
    inputs = counting(10_000)
    computed = run(
        need_for(worker_functions.slow_batch), pool, inputs, batch_size=1, max_workers=1, max_worker_losses=0
    )
    next(computed)
    (found,) = cluster.client().list("Pod", namespace)
    killed = {"metadata": {"annotations": {SIMULATE: Simulation.OUT_OF_MEMORY}}}
    cluster.client().patch("Pod", found["metadata"]["name"], killed, namespace)
    with pytest.raises(WorkerLost, match="kubernetes_cpu_ladder") as raised:
        list(computed)
    assert raised.value.facts["cause"] == "memory"
    pool.close()


@pytest.mark.usefixtures("cpu_node")
def test_the_pods_of_a_refresh_stand_in_the_queue_that_it_names(
    cluster: RunningCluster, namespace: str, place: Place, tmp_path: Path
) -> None:
    with lg.connect(tmp_path / "db", placement=place(), progress="quiet") as database:
        table = database.create_table("numbers", pa.table({"number": [1, 2]}))
        table.add_columns({"twice": lg.function(worker_functions.double)(lg.col("number"))})
        assert table.refresh_column("twice", queue="team-a").rows_assigned == 2
        (found,) = cluster.client().list("Pod", namespace)
        assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
