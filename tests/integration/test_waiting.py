"""A refresh waits for its GPU class, says for what, and starts by itself; it never runs elsewhere."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, Calls, Gate, gated, noting, open_database, short_folder

import lancegpu_sql as lg
from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database, JobHandle
from lancegpu_sql.errors import Cancelled, InvalidInput, StillWaiting, WaitedTooLong

CLASSES = """
gpu_classes:
  - {name: one, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 1}}
  - {name: none, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 0}}
  - {name: few, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 1}, backup_classes: [one]}
"""

# Refreshes a table in a process of its own; keeps the database open, and with it a warm worker, until its input ends.
PROGRAM = """
import sys
import lancegpu_sql as lg
folder, table = sys.argv[1:]
db = lg.connect(folder + "/db", runtime_folder=folder + "/run", progress="quiet", worker_idle_seconds=600)
job = db.open_table(table).refresh_column_async("y")
print(job.id, flush=True)
job.wait()
print("ended", flush=True)
sys.stdin.read()
db.close()
"""


class Shop:
    """Tables, and Functions of a class with one device, one of which can be held up."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.calls, self.gate = Calls(folder / "calls"), Gate(folder / "gate")

    def table(self, name: str, function: Any = None) -> Any:
        """A table of one row whose y a Function of the class computes."""
        table = self.database.create_table(name, pa.table({"key": [1], "x": [1]}))
        chosen = function or noting(self.calls, gpu=True, gpu_class="one")
        table.add_columns({"y": chosen(key=col("key"), x=col("x"))})
        return table

    def held(self, name: str = "held") -> JobHandle[Any]:
        """A refresh of this process that holds the device until the gate is opened."""
        table = self.table(name, gated(self.calls, self.gate, gpu=True, gpu_class="one"))
        self.gate.arm()
        job = table.refresh_column_async("y")
        self.gate.wait_for_call()
        return job

    @contextmanager
    def elsewhere(self, table: str) -> Iterator[tuple[subprocess.Popen[str], JobHandle[Any]]]:
        """A refresh of another process."""
        command = [sys.executable, "-c", PROGRAM, str(self.folder), table]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process, self.database.get_job(process.stdout.readline().strip())
            finally:
                process.kill()


@pytest.fixture
def shop() -> Iterator[Shop]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        with open_database(folder, gpu_classes=folder / "classes.yaml") as database:
            made = Shop(folder, database)
            yield made
        made.gate.close()


def wait_for(job: JobHandle[Any], reached: Callable[[], Any]) -> None:
    """Look whenever the job's record changes, and a few times a second."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    record = job.record
    while not reached():
        assert time.monotonic() < give_up, job.record
        record = job.next_change(record, 0.2)


def waits(job: JobHandle[Any]) -> bool:
    return job.status() is JobState.WAITING


def test_a_second_job_waits_names_the_holder_and_starts_by_itself(shop: Shop) -> None:
    first = shop.held()
    second = shop.table("other").refresh_column_async("y")
    wait_for(second, lambda: waits(second))
    waiting = second.waiting_on
    assert waiting is not None
    assert waiting.gpu_class == "one"
    assert first.id in waiting.message
    with pytest.raises(StillWaiting, match="waiting"):
        second.wait(0)
    shop.gate.open()
    assert second.wait().rows_assigned == 1
    assert second.waiting_on is None
    assert first.wait().rows_assigned == 1


def test_a_job_of_another_process_waits_and_starts_by_itself(shop: Shop) -> None:
    first = shop.held()
    shop.table("other")
    with shop.elsewhere("other") as (_, second):
        wait_for(second, lambda: waits(second))
        assert second.waiting_on is not None
        assert first.id in second.waiting_on.message
        shop.gate.open()
        assert second.wait().rows_assigned == 1


def test_the_oldest_request_is_served_first(shop: Shop) -> None:
    shop.held()
    jobs = []
    for key in (1, 2, 3):
        table = shop.database.create_table(f"t{key}", pa.table({"key": [key], "x": [1]}))
        table.add_columns({"y": noting(shop.calls, gpu=True, gpu_class="one")(key=col("key"), x=col("x"))})
        jobs.append(table.refresh_column_async("y"))
        wait_for(jobs[-1], lambda: waits(jobs[-1]))
    shop.gate.open()
    for job in jobs:
        job.wait()
    assert [int(line) for line in shop.calls.path.read_text().split()] == [1, 1, 2, 3]


def test_an_idle_warm_worker_of_another_process_gives_its_device_up(shop: Shop) -> None:
    shop.table("other")
    table = shop.table("mine", gated(shop.calls, shop.gate, gpu=True, gpu_class="one"))
    with shop.elsewhere("other") as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "ended\n"
        assert table.refresh_column_async("y").wait(PATIENCE_SECONDS).rows_assigned == 1
        assert process.poll() is None


def test_a_holder_that_is_killed_frees_its_device_at_once(shop: Shop) -> None:
    shop.table("other", gated(shop.calls, shop.gate, gpu=True, gpu_class="one"))
    table = shop.table("mine")
    shop.gate.arm()
    with shop.elsewhere("other") as (process, _):
        shop.gate.wait_for_call()
        job = table.refresh_column_async("y")
        wait_for(job, lambda: waits(job))
        process.kill()
        assert job.wait(PATIENCE_SECONDS).rows_assigned == 1


def test_a_class_without_devices_waits_says_so_and_can_be_cancelled(shop: Shop) -> None:
    table = shop.table("t", noting(shop.calls, gpu=True, gpu_class="none"))
    version = table.version
    job = table.refresh_column_async("y")
    wait_for(job, lambda: waits(job))
    waiting = job.waiting_on
    assert waiting is not None
    assert (waiting.gpu_class, waiting.can_be_met) == ("none", False)
    job.cancel()
    with pytest.raises(Cancelled):
        job.wait(PATIENCE_SECONDS)
    assert job.status() is JobState.CANCELLED
    assert not shop.calls.take(), "it ran elsewhere"
    assert table.version == version


def test_a_job_that_may_wait_only_so_long_fails_and_says_for_what_it_waited(shop: Shop) -> None:
    job = shop.table("t", noting(shop.calls, gpu=True, gpu_class="none")).refresh_column_async(
        "y", max_wait_seconds=0.3
    )
    with pytest.raises(
        WaitedTooLong, match=r"longer than 0.3 s \(max_wait_seconds\): .*'none' has no devices"
    ) as caught:
        job.wait(PATIENCE_SECONDS)
    assert (caught.value.gpu_class, caught.value.can_be_met) == ("none", False)  # type: ignore[attr-defined]
    assert job.status() is JobState.FAILED
    assert not shop.calls.take(), "it ran elsewhere"


def test_a_job_runs_on_a_backup_class_while_its_own_is_full_and_says_so(shop: Shop) -> None:
    holder = shop.table("held", gated(shop.calls, shop.gate, gpu=True, gpu_class="few"))
    shop.gate.arm()
    first = holder.refresh_column_async("y")
    shop.gate.wait_for_call()
    job = shop.table("other", noting(shop.calls, gpu=True, gpu_class="few")).refresh_column_async("y")
    assert job.wait(PATIENCE_SECONDS).rows_assigned == 1
    (ready,) = [event for event in job.events() if event.kind == "worker ready"]
    assert "on simulated:one/0" in ready.message
    assert "on GPU class 'one' (a backup of 'few')" in ready.message
    assert [worker["gpu_class"] for worker in job.timings()["workers"].values()] == ["one"]
    shop.gate.open()
    first.wait()


def test_a_job_that_waits_names_its_own_class_and_the_backups_that_were_tried(shop: Shop) -> None:
    first = shop.held()
    holder = shop.table("few_too", gated(shop.calls, shop.gate, "gated_too", gpu=True, gpu_class="few"))
    second = holder.refresh_column_async("y")
    wait_for(second, lambda: any(event.kind == "worker ready" for event in second.events()))
    job = shop.table("other", noting(shop.calls, gpu=True, gpu_class="few")).refresh_column_async("y")
    wait_for(job, lambda: waits(job))
    waiting = job.waiting_on
    assert waiting is not None
    assert waiting.gpu_class == "few"
    assert waiting.message.endswith("; its backup cannot have it now either: 'one' (in_use)")
    assert waiting.detail["backups"][0]["gpu_class"] == "one"
    shop.gate.open()
    for each in (first, second, job):
        each.wait(PATIENCE_SECONDS)


def test_a_queue_is_refused_where_there_is_no_cluster(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="queue='team-a' names a queue of a Kubernetes cluster"):
        shop.table("t").refresh_column("y", queue="team-a")


def test_a_waiting_job_of_another_process_is_cancelled_from_here(shop: Shop) -> None:
    shop.table("t", noting(shop.calls, gpu=True, gpu_class="none"))
    with shop.elsewhere("t") as (_, job):
        wait_for(job, lambda: waits(job))
        job.cancel()
        with pytest.raises(Cancelled):
            job.wait(PATIENCE_SECONDS)
    assert not shop.calls.take()


def test_a_waiting_job_whose_process_dies_is_seen_and_resumed(shop: Shop) -> None:
    first = shop.held()
    shop.table("other")
    with shop.elsewhere("other") as (process, second):
        wait_for(second, lambda: waits(second))
        process.kill()
        process.wait()
        assert second.status() is JobState.QUEUED
    shop.gate.open()
    first.wait()
    assert shop.database.resume_job(second.id).rows_assigned == 1


def test_two_databases_share_the_devices_of_a_host(shop: Shop) -> None:
    first = shop.held()
    another = lg.connect(
        shop.folder / "another",
        gpu_classes=shop.folder / "classes.yaml",
        runtime_folder=shop.folder / "run",
        progress="quiet",
    )
    with another:
        table = another.create_table("t", pa.table({"key": [1], "x": [1]}))
        table.add_columns({"y": noting(shop.calls, gpu=True, gpu_class="one")(key=col("key"), x=col("x"))})
        second = table.refresh_column_async("y")
        wait_for(second, lambda: waits(second))
        assert second.waiting_on is not None
        assert first.id in second.waiting_on.message
        shop.gate.open()
        assert second.wait(PATIENCE_SECONDS).rows_assigned == 1
