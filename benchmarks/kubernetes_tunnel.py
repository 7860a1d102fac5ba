"""What it costs to reach workers through the API server's port-forward, beside reaching them at their pods' addresses.

Starts the test cluster (compiled once, with Go) with one node, and has one worker give batches back as they are, by both
ways in turn. Prints MB/s of arguments and results together and how long a call of one row takes: medians of the rounds, and
their ratios. Owner, API server, kubelet and worker share this machine's cores, and nothing of a network is in it.

The node is a process node: its kubelet is a Python program of the tests, and carries bytes slower than a real one.
``--real`` takes a real kubelet and containerd, as root.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from clusters import ControlPlane, ProcessNode, RealNode, control_plane, load_words

from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.signature import signature_of
from lancegpu_sql.placement import GpuClass
from lancegpu_sql.placement.kubernetes import KubernetesPlacement
from lancegpu_sql.workers import FunctionLoad, WorkerNeed, WorkerPool
from lancegpu_sql.workers.client import WorkerClient

BATCH_ROWS, ROW_BYTES = 1024, 4096  # as much as a call of a refresh carries by default: 4 MiB
CALLS_IN_FLIGHT = 3
NO_ONE = threading.Event()
GPUS = GpuClass(name="gpus", node_selector={"pool": "gpus"})
WAYS = ("direct", "port_forward")


def echo(batch: pa.RecordBatch) -> pa.Array:
    """Give back what came."""
    return batch.column(0)


def rows(count: int) -> pa.RecordBatch:
    """Return rows of bytes that no compression would make smaller."""
    content = (bytes(range(256)) * (ROW_BYTES // 256 + 1))[:ROW_BYTES]
    return pa.record_batch([pa.array([content] * count, pa.binary())], names=["bytes"])


def need() -> WorkerNeed:
    """Return the need for a worker that has `echo` loaded."""
    target: Any = echo
    types = pa.schema([("bytes", pa.binary())]), pa.schema([("value", pa.binary())])
    load = FunctionLoad("echo", 1, "echo", pack(target, signature_of(target, *types)), {}, "binary")
    return WorkerNeed(load, GPUS, 1, 1, {}, "benchmark", "benchmark")


def seconds_for(client: WorkerClient, batch: pa.RecordBatch, calls: int, in_flight: int) -> float:
    """Return how long so many calls take, results read."""
    stream = client.open_stream()
    room = threading.Semaphore(in_flight)

    def send() -> None:
        for number in range(calls):
            room.acquire()
            stream.send(number, batch)
        stream.done_sending()

    started = time.perf_counter()
    sender = threading.Thread(target=send)
    sender.start()
    while (result := stream.receive()) is not None:
        assert result.values is not None
        assert len(result.values) == batch.num_rows
        room.release()
    took = time.perf_counter() - started
    sender.join()
    stream.close()
    return took


@contextmanager
def cluster(*, real: bool) -> Iterator[tuple[ControlPlane, str]]:
    """Start a control plane and a node with two devices; yields the image for its pods as well."""
    with control_plane() as plane:
        kind = RealNode if real else ProcessNode
        node = kind(plane, "gpus-1", gpus=2, labels={"pool": "gpus"})
        node.wait_ready()
        yield plane, RealNode.worker_image if real else "worker:benchmark"
        node.close()


def measure(plane: ControlPlane, image: str, rounds: int, calls: int) -> None:
    """Take both ways in turn, and print what each costs."""
    clients: dict[str, WorkerClient] = {}
    closing: list[Any] = []
    for way in WAYS:
        placement = KubernetesPlacement(
            "default", kubeconfig=str(plane.kubeconfig), image=image, database="benchmark", reach=way
        )
        pool = WorkerPool(placement, worker_idle_seconds=0)
        clients[way] = pool.lease(need(), lambda _: None, NO_ONE).client
        closing += [pool, placement]
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    waits: dict[str, list[float]] = {way: [] for way in WAYS}
    batch, one = rows(BATCH_ROWS), rows(1)
    for _ in range(rounds):
        for way, client in clients.items():
            rates[way].append(2 * calls * batch.nbytes / seconds_for(client, batch, calls, CALLS_IN_FLIGHT) / 1e6)
            waits[way].append(seconds_for(client, one, 100, 1) / 100 * 1e3)
    for one_of_them in closing:
        one_of_them.close()
    direct, tunnel = (statistics.median(rates[way]) for way in WAYS)
    print(
        f"  calls of 4 MiB, both directions: direct {direct:.0f} MB/s; port-forward {tunnel:.0f} MB/s ({direct / tunnel:.1f} x slower)   bar: none"
    )
    direct, tunnel = (statistics.median(waits[way]) for way in WAYS)
    print(f"  a call of one row: direct {direct:.2f} ms; port-forward {tunnel:.2f} ms")


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=25, help="calls of 4 MiB in a round")
    parser.add_argument("--real", action="store_true", help="a real kubelet and containerd; needs root")
    chosen = parser.parse_args()
    with cluster(real=chosen.real) as (plane, image):
        print(
            f"{load_words()}; {'kubelet and containerd' if chosen.real else 'a process node of the tests'}", flush=True
        )
        measure(plane, image, chosen.rounds, chosen.calls)


if __name__ == "__main__":
    main()
