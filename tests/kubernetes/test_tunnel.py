"""Workers of a cluster for somebody outside of it: their pods' addresses lead nowhere, and the API server is the way."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, need_for, numbers
from cluster.api import Api
from cluster.process_node import AddProcessNode
from cluster.real_node import RealNode
from cluster.running import RunningCluster
from placement_suite import Asked, request_for

import lancegpu_sql as lg
from lancegpu_sql.errors import ClusterForbidden
from lancegpu_sql.placement import GpuClass, Ready, Refused
from lancegpu_sql.placement.kubernetes import KubernetesConfig, KubernetesPlacement
from lancegpu_sql.placement.kubernetes.client import ClusterClient
from lancegpu_sql.placement.kubernetes.upgrade import Upgraded
from lancegpu_sql.workers import WorkerPool

L4 = GpuClass(name="l4", node_selector={"pool": "l4"})
CLASSES = "gpu_classes: [{name: l4, gpu_model: L4, gpu_memory_bytes: 24GiB, node_selector: {pool: l4}}]"
PATIENCE_SECONDS = 60
ROWS, BATCH_ROWS = 12, 4

Place = Callable[..., KubernetesPlacement]


class Outside(ClusterClient):
    """Keeps the ways to pods that it opened."""

    def __init__(self, config: KubernetesConfig) -> None:
        super().__init__(config)
        self.ways: list[Upgraded] = []

    def forward(self, pod: str, port: int) -> Upgraded:
        self.ways.append(super().forward(pod, port))
        return self.ways[-1]

    def break_all(self) -> None:
        """Cut every way, as a network does: nobody says goodbye."""
        for way in self.ways:
            if way.socket.fileno() >= 0:
                socket.socket.shutdown(way.socket, socket.SHUT_RDWR)


@pytest.fixture
def options(cluster: RunningCluster) -> dict[str, Any]:
    """What a placement on the test cluster is told."""
    return {"kubeconfig": str(cluster.kubeconfig), "image": "worker:test"}


@pytest.fixture
def outside(cluster: RunningCluster, namespace: str, options: dict[str, Any]) -> Outside:
    """The cluster as somebody outside of it has it, who may run workers and forward ports."""
    user = f"laptop-{namespace}"
    grant(cluster.client(), namespace, user, ["create", "get"])
    return Outside(KubernetesConfig(namespace, **{**options, "kubeconfig": str(cluster.plane.user(user))}))


@pytest.fixture
def place(namespace: str, options: dict[str, Any]) -> Iterator[Place]:
    """Make a placement in the test's own namespace."""
    made: list[KubernetesPlacement] = []

    def make(**more: Any) -> KubernetesPlacement:
        made.append(KubernetesPlacement(namespace, database="a test's", **{**options, **more}))
        return made[-1]

    yield make
    for placement in made:
        placement.close()


@pytest.fixture
def far_away(process_node: AddProcessNode) -> None:
    """A pool of one node with one GPU, whose pods' addresses lead nowhere from here."""
    process_node("l4-1", gpus=1, labels={"pool": "l4"}, far_away=True)


def tunnels() -> list[str]:
    """The threads of tunnels."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith(("lancegpu-tunnel", "lancegpu-carrier"))]


@lg.function(gpu=True, gpu_class="l4", batch_size=BATCH_ROWS)
def twice_when_told(number: int, folder: str) -> int:
    """Stop in the second batch until the file `go` is there, and say so by the file `reached`."""
    if number == BATCH_ROWS:
        Path(folder, "reached").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.01)
    return 2 * number


@pytest.mark.usefixtures("far_away")
def test_a_refresh_from_outside_outlives_the_break_of_its_tunnel(outside: Outside, place: Place, tmp_path: Path):
    (tmp_path / "classes.yaml").write_text(CLASSES)
    db = lg.connect(
        tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", placement=place(cluster=outside), progress="quiet"
    )
    values = pa.table({"number": range(ROWS), "folder": [str(tmp_path)] * ROWS})
    table = db.create_table("numbers", values)
    table.add_columns({"twice": twice_when_told(lg.col("number"), lg.col("folder"))})
    job = table.refresh_column_async("twice")
    wait_for(tmp_path / "reached")
    outside.break_all()
    (tmp_path / "go").touch()
    assert job.wait(PATIENCE_SECONDS).rows_assigned == ROWS
    assert "worker_lost" in [event.kind for event in db.get_job(job.id).events()]
    assert table.to_arrow(["twice"])["twice"].to_pylist() == [2 * number for number in range(ROWS)]
    db.close()
    assert tunnels() == []
    assert [way.socket.fileno() for way in outside.ways] == [-1] * len(outside.ways)


def wait_for(path: Path) -> None:
    """Look until a file is there that another process makes."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.usefixtures("far_away")
def test_an_idle_worker_is_reached_again_after_a_restart_of_the_api_server(cluster: RunningCluster, place: Place):
    pool = WorkerPool(place(), worker_idle_seconds=600)
    need = need_for(worker_functions.double, gpu_class=L4)
    lease = pool.lease(need, lambda _: None, NO_ONE)
    name = lease.worker_name
    cluster.plane.stop_api_server()
    cluster.plane.start_api_server()
    wait_until_it_answers(lease.client)
    lease.release()
    again = pool.lease(need, lambda _: None, NO_ONE)
    assert (again.worker_name, again.started_seconds) == (name, 0)
    again.release()
    pool.close()


def wait_until_it_answers(client: Any) -> None:
    """Ask a worker until it answers: Flight leaves a way that broke alone for a moment."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            client.health(5)
        except lg.WorkerLost:
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            return


def test_an_address_in_reach_is_used_and_no_way_is_opened(outside: Outside, place: Place, process_node: AddProcessNode):
    process_node("l4-1", gpus=1, labels={"pool": "l4"})
    asked = Asked(place(cluster=outside), request_for(L4))
    assert asked.next(Ready).address.startswith("grpc+tls://127.77.")
    assert tunnels() == []


@pytest.mark.usefixtures("far_away")
@pytest.mark.parametrize("granted", [[], ["get"]])
def test_who_may_not_forward_ports_is_refused_at_once(
    cluster: RunningCluster, namespace: str, place: Place, granted: list[str]
):
    user = f"laptop-{len(granted)}"
    grant(cluster.client(), namespace, user, granted)
    asked = Asked(place(kubeconfig=str(cluster.plane.user(user)), reach="port_forward"), request_for(L4))
    error = asked.next(Refused).error
    assert isinstance(error, ClusterForbidden)
    assert "the verbs create and get on pods/portforward" in error.message
    assert "`lancegpu agent`" in error.message


def grant(api: Api, namespace: str, user: str, on_ports: list[str]) -> None:
    """Let a user run workers, and these verbs on port-forward."""
    rules = [{"apiGroups": [""], "resources": ["pods", "secrets", "configmaps", "events"], "verbs": ["*"]}]
    if on_ports:
        rules.append({"apiGroups": [""], "resources": ["pods/portforward"], "verbs": on_ports})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
    api.create({"kind": "Role", "metadata": {"name": user}, "rules": rules}, namespace)
    subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    api.create({"kind": "RoleBinding", "metadata": {"name": user}, "roleRef": role, "subjects": subjects}, namespace)


def test_a_real_kubelet_lets_the_api_server_through(place: Place, real_node: RealNode):
    pool = WorkerPool(place(image=real_node.worker_image, reach="port_forward"), worker_idle_seconds=0)
    real = GpuClass(name="real", node_selector={"pool": "real"})
    lease = pool.lease(need_for(worker_functions.double_all, gpu_class=real), lambda _: None, NO_ONE)
    stream = lease.client.open_stream()
    stream.send(0, numbers(range(500_000)))
    stream.done_sending()
    result = stream.receive()
    assert result is not None
    assert result.values.to_pylist() == [2 * number for number in range(500_000)]
    stream.close()
    lease.release()
    pool.close()
    assert tunnels() == []
