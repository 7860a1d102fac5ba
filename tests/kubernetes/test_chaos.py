"""Workers, pods, nodes and the API server are taken away at random moments: the column equals the reference, nothing is left."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from agents import eventually
from cluster.api import ApiError, Object, path_of
from cluster.pods import phase
from cluster.process_node import AddProcessNode, ProcessNode
from cluster.running import RunningCluster
from refresh_kit import PATIENCE_SECONDS, Calls, by_key, open_database, reference, short_folder, status

import lancegpu_sql as lg
from lancegpu_sql import col
from lancegpu_sql.database import Database, JobHandle
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

FULL = os.environ.get("TEST_LENGTH") == "full"
SECONDS = 300.0 if FULL else 15.0
ROWS = 400
CLASSES = "gpu_classes: [{name: l4, node_selector: {pool: l4}}]"
NODES = ("l4-1", "l4-2")


class Trouble:
    """Takes away what a refresh works with, a random one of what there is."""

    def __init__(self, cluster: RunningCluster, namespace: str, add_node: AddProcessNode, dice: random.Random) -> None:
        self._plane, self._api, self._namespace = cluster.plane, cluster.client(), namespace
        self._add_node, self._dice = add_node, dice
        self._nodes: dict[str, ProcessNode] = {name: self._node(name) for name in NODES}
        self.made: Counter[str] = Counter()

    def make(self) -> None:
        """Do some harm."""
        kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "worker killed": (4, self._kill_worker),
            "pod deleted": (3, self._delete_pod),
            "pod evicted": (3, self._evict_pod),
            "node lost": (1, self._lose_node),
            "API server restarted": (1, self._restart_api_server),
        }
        kind = self._dice.choices([*kinds], [weight for weight, _ in kinds.values()])[0]
        self.made[kind] += 1
        kinds[kind][1]()

    def left(self) -> list[str]:
        """The pods and Secrets that are there."""
        return [
            f"{kind} {one['metadata']['name']}"
            for kind in ("Pod", "Secret")
            for one in self._api.list(kind, self._namespace)
        ]

    def _node(self, name: str) -> ProcessNode:
        return self._add_node(name, gpus=1, labels={"pool": "l4"})

    def _pod(self) -> Object | None:
        pods = [one for one in self._api.list("Pod", self._namespace) if phase(one) == "Running"]
        return self._dice.choice(pods) if pods else None

    def _kill_worker(self) -> None:
        pod = self._pod()
        if pod is not None:
            pid = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
            with suppress(ProcessLookupError, ValueError):  # it has ended
                os.kill(int(pid), signal.SIGKILL)

    def _delete_pod(self) -> None:
        pod = self._pod()
        if pod is not None:
            self._api.delete("Pod", pod["metadata"]["name"], self._namespace)

    def _evict_pod(self) -> None:
        pod = self._pod()
        if pod is not None:
            metadata = {"name": pod["metadata"]["name"], "namespace": self._namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            with suppress(ApiError):  # it is gone
                self._api.raw("POST", path_of("Pod", self._namespace, metadata["name"], "eviction"), body)

    def _lose_node(self) -> None:
        """A node loses its power, and is replaced by one of its name."""
        name = self._dice.choice(NODES)
        self._nodes[name].lose_power()
        self._nodes[name].close()
        self._nodes[name] = self._node(name)

    def _restart_api_server(self) -> None:
        self._plane.stop_api_server()
        time.sleep(self._dice.random())
        self._plane.start_api_server()


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


@pytest.fixture
def db(cluster: RunningCluster, namespace: str, folder: Path) -> Iterator[Database]:
    placement = KubernetesPlacement(namespace, kubeconfig=str(cluster.kubeconfig), image="worker:test")
    with open_database(
        folder, gpu_classes=folder / "classes.yaml", placement=placement, max_workers=2, worker_idle_seconds=60.0
    ) as database:
        yield database


def lasting(calls: Calls) -> Any:
    """A GPU Function that takes long enough to be disturbed."""
    path = str(calls.path)

    @lg.function(name="lasting", gpu=True, gpu_class="l4")
    def last(key: int, x: int | None) -> int | None:
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        time.sleep(0.01)
        return None if x is None or x % 7 == 0 else x * 10

    return last


def wait_a_moment(calls: Calls, job: JobHandle, dice: random.Random) -> None:
    """Wait until some more calls were made, or the job has ended: a moment of the work, not of the clock."""
    calls.take()
    wanted = dice.choice([0, dice.randrange(1, 20), dice.randrange(1, 100)])
    eventually(lambda: job.ended() or calls.waiting() >= wanted)


@pytest.mark.timeout(SECONDS + 2 * PATIENCE_SECONDS)
def test_a_refresh_on_two_nodes_survives_whatever_is_taken_from_it(
    cluster: RunningCluster, namespace: str, process_node: AddProcessNode, db: Database, folder: Path
):
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"to see it again: KILLS_SEED={seed}")
    dice = random.Random(seed)
    trouble, calls = Trouble(cluster, namespace, process_node, dice), Calls(folder / "calls")
    numbers = pa.array(range(ROWS), pa.int64())
    table = db.create_table("t", pa.table({"key": numbers, "x": numbers}))
    table.add_columns({"y": lasting(calls)(key=col("key"), x=col("x"))})
    until, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        rounds += 1
        table.update(f"key % 2 = {rounds % 2}", values_sql={"x": "x + 1000"})
        job = table.refresh_column_async("y", batch_size=5, part_target_seconds=0.05, max_worker_losses=1000)
        while not job.ended() and time.monotonic() < until:
            wait_a_moment(calls, job, dice)
            if not job.ended():
                trouble.make()
        job.wait(PATIENCE_SECONDS)
        assert by_key(table) == {key: reference(x) for key, x in by_key(table, "x").items()}
        assert status(table) == (ROWS, 0, 0, 0)
    print(f"{rounds} refreshes, {dict(trouble.made)}")
    assert trouble.made.total() >= 5
    db.close()
    eventually(trouble.left, lambda left: left == [])
