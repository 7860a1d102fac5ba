"""How soon a worker computes once its node has room, beyond what the scheduler and the kubelet take; and a warm one's reuse.

A control plane of the tests and one process node with one simulated GPU, which a pod of others holds. A job asks for a worker
and waits; then the pod is taken away. By this benchmark's own clock and its own watch: when the other pod was gone, when the
worker's pod got the node, when its process began (as the kernel has it), when the first batch ran (as the Function itself
says). Ours is from the process's beginning to there; before it, only the scheduler and the kubelet had to act.

The node is a process node: its pods are processes of this machine, on its cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from clusters import Api, ProcessNode, control_plane, load_words, pod

from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.signature import signature_of
from lancegpu_sql.placement import GpuClass, PlacementEvent, Waiting
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.workers import FunctionLoad, WorkerNeed, WorkerPool
from lancegpu_sql.workers.client import WorkerClient

NO_ONE = threading.Event()
GPUS = GpuClass(name="gpus", node_selector={"pool": "gpus"})
BAR_SECONDS = 0.5


def clock(batch: pa.RecordBatch) -> pa.Array:
    """Say when it is called, in seconds of this machine's monotonic clock."""
    import time

    import pyarrow as pa

    return pa.array([time.monotonic()] * batch.num_rows, pa.float64())


def need(job: str) -> WorkerNeed:
    """Return a job's need for a worker that has `clock` loaded."""
    target: Any = clock
    types = pa.schema([("x", pa.int64())]), pa.schema([("value", pa.float64())])
    load = FunctionLoad("clock", 1, "clock", pack(target, signature_of(target, *types)), {}, "double")
    return WorkerNeed(load, GPUS, 1, 1, {}, job, job)


def computing_at(client: WorkerClient) -> float:
    """Let the worker compute one batch; return when it began."""
    stream = client.open_stream()
    stream.send(0, pa.record_batch([pa.array([1], pa.int64())], names=["x"]))
    stream.done_sending()
    result = stream.receive()
    assert result is not None
    assert result.values is not None
    stream.close()
    return float(result.values[0].as_py())


def process_began_at(process_id: int) -> float:
    """Return when a process began, on the monotonic clock; the kernel counts hundredths of a second, since the boot."""
    ticks = int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK") - since_boot


class Seen:
    """What this benchmark's own watch sees of pods, and when."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._at: dict[tuple[str, str], float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def when(self, pod: str, what: str) -> float:
        """Return when a pod was seen ``bound`` or ``gone``; waits for it."""
        with self._changed:
            self._changed.wait_for(lambda: (pod, what) in self._at, 60)
            return self._at[pod, what]

    def _watch(self) -> None:
        for happened, found in self._api.watch("Pod", "default"):
            what = "gone" if happened == "DELETED" else "bound" if found["spec"].get("nodeName") else "made"
            with self._changed:
                self._at.setdefault((found["metadata"]["name"], what), time.monotonic())
                self._changed.notify_all()


def one_start(api: Api, seen: Seen, pool: WorkerPool, number: int) -> dict[str, float]:
    """Let a job wait for the GPU and get it; return when each step was done, since the node had room."""
    holder, at = f"holder-{number}", {}
    api.create(pod(holder, "sleep 600", gpus=1), "default")
    seen.when(holder, "bound")

    def hear(event: PlacementEvent) -> None:
        if isinstance(event, Waiting) and "room" not in at:
            at["room"] = 0.0
            api.delete("Pod", holder, "default", grace_seconds=0)

    lease = pool.lease(need(f"job-{number}"), hear, NO_ONE)
    at["loaded"] = time.monotonic()
    at["computing"] = computing_at(lease.client)
    (worker,) = api.list("Pod", "default")
    at["room"], at["bound"] = seen.when(holder, "gone"), seen.when(worker["metadata"]["name"], "bound")
    container = worker["status"]["containerStatuses"][0]["containerID"]
    at["process"] = process_began_at(int(container.rpartition("/")[2]))
    lease.release()
    return {step: at[step] - at["room"] for step in ("bound", "process", "loaded", "computing")}


def warm_start(api: Api, pool: WorkerPool) -> tuple[float, bool]:
    """Let two other jobs of the Function compute one after the other; return what the second took, and on the same pod."""
    pool.lease(need("first"), lambda _: None, NO_ONE).release()
    before = [one["metadata"]["uid"] for one in api.list("Pod", "default")]
    begun = time.monotonic()
    lease = pool.lease(need("second"), lambda _: None, NO_ONE)
    took = computing_at(lease.client) - begun
    same = [one["metadata"]["uid"] for one in api.list("Pod", "default")] == before
    lease.release()
    return took, same


def report(rounds: list[dict[str, float]]) -> None:
    """Print the steps, and what is ours."""
    ours = [one["computing"] - one["process"] for one in rounds]

    def part(of: Callable[[dict[str, float]], float]) -> str:
        return f"{statistics.median(map(of, rounds)):.3f} s"

    print(f"  {len(rounds)} rounds, medians, from the node's having room:")
    print(
        f"    scheduler {part(lambda one: one['bound'])}, then kubelet {part(lambda one: one['process'] - one['bound'])}"
    )
    print(
        f"    ours {statistics.median(ours):.3f} s (best {min(ours):.3f})   bar: ≤ {BAR_SECONDS} s: process to loaded Function "
        f"{part(lambda one: one['loaded'] - one['process'])}, to the first batch {part(lambda one: one['computing'] - one['loaded'])}"
    )


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with control_plane() as plane:
        node = ProcessNode(plane, "gpus-1", gpus=1, labels={"pool": "gpus"})
        node.wait_ready()
        seen = Seen(plane.api)
        placement = KubernetesPlacement(
            "default", kubeconfig=str(plane.kubeconfig), image="worker:benchmark", database="benchmark", reach="direct"
        )
        print(f"{load_words()}; a process node of the tests", flush=True)
        cold, warm = WorkerPool(placement, worker_idle_seconds=0), WorkerPool(placement, worker_idle_seconds=60)
        report([one_start(plane.api, seen, cold, number) for number in range(chosen.rounds)])
        took, same = warm_start(plane.api, warm)
        print(
            f"  another job of the same Function: first batch after {took:.3f} s, {'on the same pod' if same else 'ON A NEW POD'}"
        )
        for one in (cold, warm, placement):
            one.close()
        node.close()


if __name__ == "__main__":
    main()
