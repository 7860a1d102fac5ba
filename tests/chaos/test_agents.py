"""Two agents on one database, killed at random: all jobs end, each is published once, columns equal the reference."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from published import publications
from refresh_kit import Calls, by_key, open_database, reference, short_folder, status

from lancegpu_sql import col, function
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database, JobHandle, Table

FULL = os.environ.get("TEST_LENGTH") == "full"
SECONDS = {"sqlite": 60.0 if FULL else 20.0, "postgresql": 60.0 if FULL else 15.0}
ROWS = 300
TABLES = ("a", "b", "c")
CLASSES = "gpu_classes: [{name: two, local: {simulated: 2}}]"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


def lasting(calls: Calls, name: str) -> Any:
    """A GPU Function that takes long enough to be killed at."""
    path = str(calls.path)

    @function(name=name, gpu=True, gpu_class="two")
    def last(key: int, x: int | None) -> int | None:
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        time.sleep(0.01)
        return None if x is None or x % 7 == 0 else x * 10

    return last


def make_tables(db: Database, calls: Calls) -> list[Table]:
    """Tables of several fragments, one column each to refresh, on two devices for all of them."""
    numbers = pa.array(range(ROWS), pa.int64())
    tables = []
    for name in TABLES:
        table = db.create_table(name, pa.table({"key": numbers[:100], "x": numbers[:100]}))
        table.add(pa.table({"key": numbers[100:], "x": numbers[100:]}))
        table.add_columns({"y": lasting(calls, f"lasting_{name}")(key=col("key"), x=col("x"))})
        tables.append(table)
    return tables


class Agents:
    """Two agents, either of which may be gone for a moment."""

    def __init__(self, folder: Path, stack: ExitStack, **settings: object) -> None:
        self._folder, self._stack, self._settings = folder, stack, settings
        self._agents = [self._start(), self._start()]
        self.deaths: Counter[str] = Counter()

    def _start(self) -> AgentProcess:
        return self._stack.enter_context(
            AgentProcess(self._folder, lease_seconds=3, worker_idle_seconds=1, **self._settings)
        )

    def disturb(self, dice: random.Random, job: JobHandle) -> None:
        """Do harm to the one that runs a job, or to any; a dead one is followed by another."""
        owner = job.record.owner
        pids = [agent.process.pid for agent in self._agents]
        at = pids.index(owner.pid) if owner is not None and owner.pid in pids else dice.randrange(2)
        victim = self._agents[at]
        how = dice.choices(["kill", "terminate", "stop"], [5, 2, 1])[0]
        self.deaths[how] += 1
        if how == "stop":
            victim.process.send_signal(signal.SIGSTOP)
            time.sleep(dice.random())
            victim.process.send_signal(signal.SIGCONT)
            return
        if how == "kill":
            victim.kill()
        else:
            victim.terminate()
        self._agents[at] = self._start()


def wait_a_moment(calls: Calls, wanted: int, jobs: list[JobHandle]) -> None:
    """Wait until so many calls more were made, or the jobs have ended: a moment of the work, not of the clock."""
    calls.take()
    eventually(lambda: calls.waiting() >= wanted or all(job.ended() for job in jobs))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("catalog", ["sqlite", "postgresql"])
def test_every_job_ends_and_is_published_once_whatever_befalls_its_agents(
    folder: Path, catalog: str, catalog_settings: dict[str, str], dice: random.Random
) -> None:
    with open_database(folder, gpu_classes=folder / "classes.yaml", **catalog_settings) as db, ExitStack() as stack:
        calls = Calls(folder / "calls")
        tables = make_tables(db, calls)
        agents = Agents(folder, stack, **catalog_settings)
        jobs: dict[str, JobHandle] = {}
        rounds = 0
        until = time.monotonic() + SECONDS[catalog]
        while time.monotonic() < until:
            rounds += 1
            for table in tables:
                table.update(f"key % 3 = {rounds % 3}", values_sql={"x": "x + 1000"})
                job = table.refresh_column("y", wait=False, batch_size=5, part_target_seconds=0.05)
                jobs[job.id] = job
            latest = list(jobs.values())[-len(TABLES) :]
            for _ in range(dice.randrange(1, 3)):
                wait_a_moment(calls, dice.randrange(len(TABLES) * ROWS // 3), latest)
                agents.disturb(dice, dice.choice(latest))
            for job in latest:
                eventually(job.status, lambda state: state.ended)
        told = Counter(event.kind for job in jobs.values() for event in job.events())
        print(f"{len(jobs)} jobs, interrupted {told['interrupted']} times; agents: {dict(agents.deaths)}")
        assert {str(job.status()) for job in jobs.values()} == {JobState.FINISHED}
        for table in tables:
            assert by_key(table) == {key: reference(x) for key, x in by_key(table, "x").items()}
            assert status(table) == (ROWS, 0, 0, 0)
            counts = publications(f"{db.uri}/{table.name}.lance")
            assert set(counts.values()) == {1}, counts
            assert set(counts) == {one.id for one in jobs.values() if one.record.table == table.name}
        assert not list((folder / "db" / ".lancegpu" / "checkpoints").rglob("*.arrow"))
