"""Agents: queued jobs are run, held, taken over and given back, each row computed and published once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from refresh_kit import (
    PATIENCE_SECONDS,
    Calls,
    Gate,
    by_key,
    gated,
    noting,
    open_database,
    reference,
    short_folder,
    status,
)

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database, JobHandle, Table
from lancegpu_sql.errors import StillWaiting

CLASSES = "gpu_classes: [{name: two, local: {simulated: 2}}]"


@dataclass
class Shop:
    """A database, and a Function that can be held up at a gate."""

    folder: Path
    db: Database
    calls: Calls
    gate: Gate

    def table(self, name: str = "t", rows: int = 60, *, at: int | None = None, **options: object) -> Table:
        """A table whose column `y` is to be refreshed, the row `at` waiting at the gate once that is armed."""
        numbers = pa.array(range(rows), pa.int64())
        table = self.db.create_table(name, pa.table({"key": numbers, "x": numbers}))
        make = noting(self.calls, f"noting_{name}", **options) if at is None else None
        make = make or gated(self.calls, self.gate, f"gated_{name}", at=at, **options)
        table.add_columns({"y": make(key=col("key"), x=col("x"))})
        return table

    def check(self, table: Table) -> None:
        """The column equals the reference, in one commit."""
        assert by_key(table) == {key: reference(key) for key in range(table.count_rows())}
        assert status(table) == (table.count_rows(), 0, 0, 0)


@pytest.fixture
def shop() -> Iterator[Shop]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        gate = Gate(folder / "gate")
        with open_database(folder, gpu_classes=folder / "classes.yaml") as db:
            yield Shop(folder, db, Calls(folder / "calls"), gate)
        gate.close()


def submit(table: Table, **options: object) -> JobHandle:
    return table.refresh_column("y", wait=False, **({"batch_size": 5, "part_target_seconds": 0.01} | options))


def kinds(job: JobHandle) -> list[str]:
    return [event.kind for event in job.events()]


def test_a_job_left_to_an_agent_is_run_by_it(shop: Shop) -> None:
    table = shop.table()
    with AgentProcess(shop.folder) as agent:
        job = submit(table)
        assert job.wait(PATIENCE_SECONDS).rows_assigned == 60
        assert job.record.owner is not None
        assert job.record.owner.pid == agent.process.pid
    shop.check(table)
    assert "unserved" not in kinds(job)
    assert {"queued", "started", "part done", "published", "finished"} <= set(kinds(job))


def test_a_job_submitted_where_no_agent_serves_says_so_and_stays_queued(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    table = shop.table()
    job = submit(table)
    assert (job.status(), kinds(job)) == (JobState.QUEUED, ["queued", "unserved"])
    assert f"No agent serves this database: job {job.id} stays queued" in caplog.text
    with pytest.raises(StillWaiting, match="no agent serves"):
        job.wait()
    with AgentProcess(shop.folder):
        job.wait(PATIENCE_SECONDS)
    shop.check(table)


def test_the_same_refresh_left_twice_is_one_job(shop: Shop) -> None:
    table = shop.table()
    assert submit(table).id == submit(table).id


def test_a_job_is_paused_resumed_and_cancelled_from_another_process(shop: Shop) -> None:
    table = shop.table(at=30)
    with AgentProcess(shop.folder):
        shop.gate.arm()
        job = submit(table)
        shop.gate.wait_for_call()
        job.pause()
        eventually(job.status, lambda state: state is JobState.PAUSED)
        with pytest.raises(StillWaiting, match="is paused"):
            job.wait()
        shop.gate.arm()
        resumed = shop.db.resume_job(job.id, wait=False)
        shop.gate.wait_for_call()
        resumed.cancel()
        eventually(job.status, lambda state: state is JobState.CANCELLED)
        shop.db.resume_job(job.id, wait=False).wait(PATIENCE_SECONDS)
    shop.check(table)
    assert max(shop.calls.take()[key] for key in range(25)) == 1, "what was finished was computed again"


def test_a_killed_agents_job_is_taken_over_at_once_and_goes_on_from_its_checkpoints(shop: Shop) -> None:
    table = shop.table(at=30)
    with AgentProcess(shop.folder) as first, AgentProcess(shop.folder) as second:
        shop.gate.arm()
        job = submit(table)
        shop.gate.wait_for_call()
        owner = job.record.owner
        assert owner is not None
        holder, other = (first, second) if owner.pid == first.process.pid else (second, first)
        holder.kill()
        job.wait(PATIENCE_SECONDS)
        assert job.record.owner is not None
        assert job.record.owner.pid == other.process.pid
    shop.check(table)
    assert max(shop.calls.take()[key] for key in range(25)) == 1, "what was finished was computed again"


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_told_to_end_keeps_what_is_finished_and_gives_the_job_back(shop: Shop, word: int) -> None:
    table = shop.table(at=30)
    with AgentProcess(shop.folder, shutdown_grace_seconds=10) as agent:
        shop.gate.arm()
        job = submit(table)
        shop.gate.wait_for_call()
        agent.process.send_signal(word)
        told = agent.process.communicate(timeout=PATIENCE_SECONDS)[1]
        assert (agent.process.returncode, "queued again" in told) == (0, True), told
    assert (job.status(), shop.db.list_agents()) == (JobState.QUEUED, [])
    with AgentProcess(shop.folder):
        job.wait(PATIENCE_SECONDS)
    shop.check(table)
    assert max(shop.calls.take()[key] for key in range(25)) == 1, "what was finished was computed again"
