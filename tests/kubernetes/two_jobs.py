"""Whole jobs of one GPU class on the test cluster: one holds what the other waits for, until a test lets it go on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
import yaml
from cluster.api import Api
from cluster.running import RunningCluster
from refresh_kit import PATIENCE_SECONDS, Calls, Gate, gated, noting

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobState, WaitingOn
from lancegpu_sql.cli import main
from lancegpu_sql.database.job_handle import JobHandle
from lancegpu_sql.database.schedule_infos import ScheduleInfo
from lancegpu_sql.placement.kubernetes import KubernetesPlacement

GPU_CLASS = "l4"
ROWS = 3


class TwoJobs:
    """A database with two columns, each by a Function of its own; the first one's call stops at a gate."""

    def __init__(self, database: lg.Database, folder: Path, gate: Gate) -> None:
        self.database, self._gate = database, gate
        calls = Calls(folder / "calls")
        chosen = {"gpu": True, "gpu_class": GPU_CLASS}
        for function in (gated(calls, gate, "holding", **chosen), noting(calls, "following", **chosen)):
            table = database.create_table(function.name, pa.table({"key": range(ROWS), "x": [1] * ROWS}))
            table.add_columns({"y": function(lg.col("key"), lg.col("x"))})

    def hold(self, **options: Any) -> JobHandle[Any]:
        """Start the first job; returns when its call stands at the gate, on its device."""
        self._gate.arm()
        job = self._start("holding", **options)
        self._gate.wait_for_call()
        return job

    def follow(self, **options: Any) -> JobHandle[Any]:
        """Start the second job."""
        return self._start("following", **options)

    def schedule(self, name: str) -> ScheduleInfo:
        """Return how a schedule stands."""
        return next(one for one in self.database.list_schedules() if one.schedule == name)

    def let_go(self) -> None:
        """Let the first job's call go on."""
        self._gate.open()

    def _start(self, table: str, **options: Any) -> JobHandle[Any]:
        return self.database.open_table(table).refresh_column_async("y", **options)


class MakeJobs(Protocol):
    """What the fixture `make_jobs` is: ``make_jobs(queue="team", …)``, keys of the GPU class."""

    def __call__(self, **of_class: Any) -> TwoJobs: ...


@contextmanager
def two_jobs(folder: Path, kubeconfig: Path, namespace: str, of_class: Mapping[str, Any]) -> Iterator[TwoJobs]:
    """The jobs, in a namespace whose nodes are labelled with its name."""
    spec = {"name": GPU_CLASS, "node_selector": {"pool": namespace}, **of_class}
    classes = folder / "classes.yaml"
    classes.write_text(yaml.safe_dump({"gpu_classes": [spec]}))
    placement = KubernetesPlacement(namespace, kubeconfig=str(kubeconfig), image="worker:test")
    gate = Gate(folder / "gate")
    with lg.connect(folder / "db", gpu_classes=classes, placement=placement, progress="quiet") as database:
        yield TwoJobs(database, folder, gate)
    placement.close()
    gate.close()


def told(job: JobHandle[Any], holds: Callable[[WaitingOn], bool]) -> WaitingOn:
    """What a waiting job says, as soon as it is as wanted."""
    record = job.record
    while record.state != JobState.WAITING or record.waiting_on is None or not holds(record.waiting_on):
        changed = job.next_change(record, PATIENCE_SECONDS)
        assert changed != record, record
        record = changed
    return record.waiting_on


def checked(jobs: TwoJobs, namespace: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `lancegpu classes check` says of their class, on the cluster of ``KUBECONFIG``; with its exit status."""
    command = [
        "--db",
        jobs.database.uri,
        "classes",
        "check",
        GPU_CLASS,
        "--namespace",
        namespace,
        "--image",
        "worker:test",
    ]
    status = main([*command, "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    return {**found, "status": status}


def shell(cluster: RunningCluster, line: str, *, given: str = "") -> str:
    """What a line for a shell prints, with the cluster's kubectl; it must succeed."""
    path = f"{cluster.plane.programs.folder}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        ["bash", "-c", line], env=environment, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_behind(api: Api, namespace: str) -> dict[str, list[str]]:
    """What there still is of workers."""
    kinds = ("Pod", "Secret", "ResourceClaim", "ResourceClaimTemplate")
    found = {kind: [one["metadata"]["name"] for one in api.list(kind, namespace)] for kind in kinds}
    return {kind: names for kind, names in found.items() if names}
