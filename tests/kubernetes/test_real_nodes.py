"""Workers in containers: a kubelet, images, limits that the kernel enforces, and a device plugin with simulated GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cluster.api import Object
from cluster.kubectl import Kubectl
from cluster.pods import condition
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from gate import Gate
from placement_suite import Asked, request_for

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.errors import EnvironmentFailed, InvalidPlacement, WorkerLost
from lancegpu_sql.functions.environment import Environment, own_python_version
from lancegpu_sql.placement import GpuClass, Ready, Refused, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.placement.kubernetes.config import CpuRung

REAL = GpuClass(name="real", node_selector={"pool": "real"})
MIB = 1024**2
PATIENCE_SECONDS = 60

CLASSES = """
gpu_classes:
  - name: real
    gpu_model: simulated
    gpu_memory_bytes: 1GiB
    node_selector: {pool: real}
    memory_bytes: 512MiB
    shared_memory_bytes: 48MiB
"""


Place = Callable[..., KubernetesPlacement]


@pytest.fixture
def place(cluster: RunningCluster, real_node: RealNode, namespace: str) -> Iterator[Place]:
    """Make a placement in the test's own namespace, which enforces the restricted standard."""
    made: list[KubernetesPlacement] = []

    def make(**more: Any) -> KubernetesPlacement:
        options = {
            "kubeconfig": str(cluster.kubeconfig),
            "image": real_node.worker_image,
            "database": "a test's",
            "cpu_node_selector": {"pool": "real"},
        }
        made.append(KubernetesPlacement(namespace, **{**options, **more}))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture
def column(place: Place, tmp_path: Path) -> Iterator[Callable[..., lg.Table]]:
    """Make a table of three numbers with a column `value` that a Function computes of them."""
    (tmp_path / "classes.yaml").write_text(CLASSES)
    opened: list[lg.Database] = []

    def make(function: Any, **more: Any) -> lg.Table:
        placed = place(**more)
        db = lg.connect(tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", placement=placed, progress="quiet")
        opened.append(db)
        table = db.create_table("numbers", pa.table({"number": [1, 2, 3]}))
        table.add_columns({"value": function(lg.col("number"))})
        return table

    yield make
    for db in opened:
        db.close()


def values(table: lg.Table) -> list[Any]:
    """What stands in the computed column."""
    return list(table.to_arrow(["value"])["value"].to_pylist())


@lg.function(gpu=True, gpu_class="real")
def surroundings(number: int) -> str:
    """What a worker finds where it runs."""
    import json
    import os
    from pathlib import Path

    def writable(folder: Path) -> bool:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tried").touch()
        except OSError:
            return False
        return True

    caches = ("HOME", "HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    shared = os.statvfs("/dev/shm")
    found = {
        "root": os.getuid() == 0,
        "writable caches": [name for name in caches if writable(Path(os.environ[name]))],
        "writable root": writable(Path("/")),
        "shared memory": shared.f_blocks * shared.f_frsize,
        "devices": os.environ["NVIDIA_VISIBLE_DEVICES"].rpartition("-")[0],
        "token": Path("/var/run/secrets/kubernetes.io").exists(),
        "number": number,
    }
    return json.dumps(found)


def test_a_container_that_cannot_make_the_environment_says_so_in_uvs_words(place: Place):
    packages = Environment(own_python_version(), f"lancegpu-nowhere==1.0 --hash=sha256:{'0' * 64}\n")
    offline = GpuClass(name="real", node_selector={"pool": "real"}, env={"UV_OFFLINE": "1"})
    asked = Asked(place(), replace(request_for(offline), environment=packages))
    error = asked.next(Refused).error
    assert isinstance(error, EnvironmentFailed)
    assert "lancegpu-nowhere" in error.message


def test_a_worker_of_an_unknown_user_finds_what_it_needs_under_the_restricted_standard(
    column: Callable[..., lg.Table],
):
    table = column(surroundings)
    assert table.refresh_column("value").rows_assigned == 3
    found = [json.loads(one) for one in values(table)]
    assert [one.pop("number") for one in found] == [1, 2, 3]
    assert found[0] == {
        "root": False,
        "writable caches": ["HOME", "HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"],
        "writable root": False,
        "shared memory": 48 * MIB,
        "devices": "simulated-gpu",
        "token": False,
    }


def devices_of(pod: Object) -> list[str]:
    """The devices that a pod's kubelet has given it."""
    (container,) = pod["status"]["containerStatuses"]
    return [one["resourceID"] for given in container["allocatedResourcesStatus"] for one in given["resources"]]


def test_workers_get_a_device_each_and_a_third_waits(
    cluster: RunningCluster, real_node: RealNode, namespace: str, place: Place
):
    node = cluster.client().get("Node", real_node.name)
    assert node is not None
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    placement = place(python=str(Path(__file__).parent / "stand_in_worker.py"))
    for _ in range(2):
        Asked(placement, request_for(REAL)).next(Ready)
    assert Asked(placement, request_for(REAL)).next(Waiting).reason == "in_use"
    running = [one for one in cluster.client().list("Pod", namespace) if condition(one, "Ready")]
    assert sorted(device for one in running for device in devices_of(one)) == ["simulated-gpu-0", "simulated-gpu-1"]


@lg.function
def hungry(number: int) -> int:
    """For one row more memory than its container may have."""
    return number + len(bytearray(1024**3 if number == 2 else 0))


def test_a_row_for_which_the_kernel_kills_workers_for_memory_is_told_and_the_others_are_computed(
    column: Callable[..., lg.Table],
):
    table = column(hungry, cpu_rungs=(CpuRung("tiny", 0.1, 256 * MIB),))
    with pytest.raises(WorkerLost, match="memory limit was reached") as caught:
        table.refresh_column("value", batch_size=1, max_worker_losses=0)
    assert caught.value.facts["cause"] == "memory"
    assert table.refresh_column("value", where="number <> 2").rows_remaining == 1
    assert values(table) == [1, None, 3]


def held(gate: Gate) -> Any:
    """A Function that waits at a gate, and gives the name of the pod in which it ran."""
    address = gate.address

    @lg.function(gpu=True, gpu_class="real")
    def worker_name(number: int) -> str:
        import os
        import socket

        name = os.uname().nodename
        with socket.create_connection(address) as gate:
            gate.sendall(name.encode())
            gate.recv(1)
        return name

    return worker_name


@pytest.fixture
def gate(real_node: RealNode) -> Iterator[Gate]:
    """A gate that containers reach."""
    with Gate(real_node.machine_address) as made:
        yield made


def waiting_for(job: lg.JobHandle[Any], reason: str) -> None:
    """Wait until a job says that it waits for this reason."""
    record = job.record
    while record.waiting_on is None or record.waiting_on.reason != reason:
        assert record.state in {JobState.RUNNING, JobState.WAITING}
        record = job.next_change(record, PATIENCE_SECONDS)


def asked_to_end(pod: Object | None) -> bool:
    """Whether somebody wants the pod to go."""
    return pod is None or "deletionTimestamp" in pod["metadata"]


def test_a_drain_lets_the_call_in_flight_finish_and_the_rest_is_done_when_the_node_is_back(
    cluster: RunningCluster,
    namespace: str,
    real_node: RealNode,
    kubectl: Kubectl,
    column: Callable[..., lg.Table],
    gate: Gate,
):
    table = column(held(gate))
    job = table.refresh_column_async("value", batch_size=1)
    first = gate.next()
    with ThreadPoolExecutor(1) as beside:
        draining = beside.submit(kubectl, "drain", real_node.name, "--delete-emptydir-data")
        cluster.client().until("Pod", first.worker, asked_to_end, namespace)
        first.let_go()
        drained = draining.result()
    assert (drained.returncode, drained.stderr) == (0, "")
    waiting_for(job, "cordoned")
    kubectl("uncordon", real_node.name)
    gate.open()
    assert job.wait(PATIENCE_SECONDS).rows_assigned == 3
    assert values(table).count(first.worker) == 1
    assert len(set(values(table))) == 2


def test_a_call_that_outlasts_the_grace_of_its_pod_is_made_again_elsewhere(
    cluster: RunningCluster, namespace: str, column: Callable[..., lg.Table], gate: Gate
):
    table = column(held(gate), termination_grace_seconds=1)
    job = table.refresh_column_async("value", batch_size=1)
    first = gate.next()
    cluster.client().delete("Pod", first.worker, namespace)
    second = gate.next()
    for one in (first, second):
        one.let_go()
    gate.open()
    assert job.wait(PATIENCE_SECONDS).rows_assigned == 3
    assert set(values(table)) == {second.worker}


@pytest.mark.parametrize(
    ("image", "told"),
    [
        pytest.param("localhost/nothing:1", "cannot pull the image 'localhost/nothing:1'", id="that nobody has"),
        pytest.param(RealNode.root_image, "wants to run as root", id="made for root"),
    ],
)
def test_an_image_that_cannot_be_used_is_waited_for_and_then_told_in_the_kubelets_words(
    place: Place, image: str, told: str
):
    asked = Asked(place(image=image, image_pull_grace_seconds=0.5), request_for(REAL))
    waiting = asked.next(Waiting)
    while waiting.reason != "image":
        waiting = asked.next(Waiting)
    error = asked.next(Refused).error
    assert isinstance(error, InvalidPlacement)
    assert told in error.message
    assert "the kubelet says" in error.message
