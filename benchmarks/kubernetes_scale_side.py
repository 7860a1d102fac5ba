"""The agent's side of `kubernetes_scale.py`, in a process of its own: jobs that want workers of a cluster.

Prints, as JSON, what the process took, and what its requests were told.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lancegpu_sql as lg
from lancegpu_sql.placement import GpuClass, Lost, PlacementEvent, Ready, Refused, Waiting, Wanted, WorkerRequest
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

GPUS = GpuClass(name="gpus", node_selector={"pool": "gpus"})
BATCHES = 2
GIVING_SHARE = 0.2
"""How many of the workers are given back before their work is done, where others want them by then."""


class Tally:
    """Counts what requests are told, from any thread."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.all_stand = threading.Event()
        """So many requests have been told where they stand."""
        self._lock = threading.Lock()
        self._states: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def note(self, request_id: str, state: str) -> None:
        """Note where a request stands now."""
        with self._lock:
            self.counts[state] += 1
            self.now[self._states.get(request_id, state)] -= request_id in self._states
            self.now[state] += 1
            self._states[request_id] = state
            if len(self._states) >= self._expected:
                self.all_stand.set()
            self.most[state] = max(self.most[state], self.now[state])


class Work:
    """One worker's share of a job: asked for, computed batch by batch, given back when others want the worker."""

    def __init__(
        self, placement: KubernetesPlacement, job: int, share: int, batch_seconds: float, tally: Tally
    ) -> None:
        self._placement, self._tally = placement, tally
        self._job, self._share, self._batch_seconds = job, share, batch_seconds
        self._gives = random.Random(share * 1000 + job).random() < GIVING_SHARE
        self._happened = threading.Condition()
        self._ready = False
        self._wanted = threading.Event()
        self.requests = 0
        self.trouble: PlacementEvent | None = None

    def run(self) -> None:
        """Ask until all batches are done."""
        batches = BATCHES
        while batches and self.trouble is None:
            self._ready, self.requests = False, self.requests + 1
            self._wanted.clear()
            ticket = self._placement.ask(self._request(), self._hear)
            with self._happened:
                self._happened.wait_for(lambda: self._ready or self.trouble is not None)
            while batches and self.trouble is None:
                self._tally.all_stand.wait()  # so that those who wait and those who compute are there together
                time.sleep(self._batch_seconds)
                batches -= 1
                if self._gives and self._wanted.is_set() and batches:
                    self._gives = False
                    self._tally.note(self._name, "given back")
                    break
            ticket.release()
            self._tally.note(self._name, "over")

    @property
    def _name(self) -> str:
        return f"{self._job}/{self._share}/{self.requests}"

    def _request(self) -> WorkerRequest:
        return WorkerRequest(
            request_id=self._name,
            job_id=f"job-{self._job}",
            owner=f"job {self._job}",
            function="embed",
            version=1,
            gpu_class=GPUS,
            gpus=1,
            cpus=1,
            env={},
            asked_at=1e9 + self._job,
        )

    def _hear(self, event: PlacementEvent) -> None:
        match event:
            case Waiting():
                self._tally.note(self._name, "waiting")
            case Wanted():
                self._wanted.set()
            case Ready() | Lost() | Refused():
                with self._happened:
                    self._ready = isinstance(event, Ready)
                    self.trouble = None if self._ready else event
                    self._happened.notify()
                self._tally.note(self._name, "ready" if self._ready else "trouble")


class Meter:
    """Looks at this process's CPU time every five seconds, and says how far the jobs are."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._ended = threading.Event()
        self.busiest = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        at, spent = time.monotonic(), time.process_time()
        while not self._ended.wait(5.0):
            now, used = time.monotonic(), time.process_time()
            self.busiest = max(self.busiest, (used - spent) / (now - at))
            at, spent = now, used
            states = ", ".join(f"{number} {state}" for state, number in sorted(self._tally.now.items()) if number)
            print(
                f"  {states}; {spent:.1f} s of CPU time, {memory_bytes('VmRSS') / 1e6:.0f} MB",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Look no more."""
        self._ended.set()


def memory_bytes(which: str) -> int:
    """Return VmRSS, or VmHWM, its highest: what `getrusage` says includes what this process was forked from."""
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(which))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Let all jobs run to their end."""
    parser = argparse.ArgumentParser()
    for name, kind in (
        ("kubeconfig", str),
        ("port", int),
        ("pods", int),
        ("jobs", int),
        ("seconds", float),
        ("rate", float),
    ):
        parser.add_argument(name, type=kind)
    asked = parser.parse_args()
    placement = KubernetesPlacement(
        "default",
        kubeconfig=asked.kubeconfig,
        image="worker:benchmark",
        reach="direct",
        worker_port=asked.port,
        queries_per_second=asked.rate,
        query_burst=int(2 * asked.rate),
    )
    tally = Tally(asked.pods)
    with tempfile.TemporaryDirectory() as folder, lg.connect(folder, placement=placement):
        idle_bytes = memory_bytes("VmRSS")
        works = [
            Work(placement, number % asked.jobs, number // asked.jobs, asked.seconds, tally)
            for number in range(asked.pods)
        ]
        begun, spent, meter = time.monotonic(), time.process_time(), Meter(tally)
        with ThreadPoolExecutor(asked.pods) as threads:
            for done in [threads.submit(work.run) for work in works]:
                done.result()
        placement.close()
        seconds, used = time.monotonic() - begun, time.process_time() - spent
        meter.close()
    troubles = [str(work.trouble) for work in works if work.trouble is not None]
    if troubles:
        sys.exit(f"{len(troubles)} requests got no worker; the first: {troubles[0]}")
    measured: dict[str, Any] = {
        "requests": sum(work.requests for work in works),
        "jobs": asked.jobs,
        "seconds": seconds,
        "cores": used / seconds,
        "busiest_cores": meter.busiest,
        "peak_bytes": memory_bytes("VmHWM"),
        "idle_bytes": idle_bytes,
        "most_ready": tally.most["ready"],
        "most_waiting": tally.most["waiting"],
        "given_back": tally.counts["given back"],
        "told": tally.counts["waiting"],
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
