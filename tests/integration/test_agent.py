"""Agents: queued jobs are run, held, taken over and given back, each row computed and published once."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

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

from lancegpu_sql import col, function
from lancegpu_sql.catalog.models import JobRecord, JobState, ProcessIdentity
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import Database, JobHandle, Table
from lancegpu_sql.errors import Conflict, StillWaiting
from lancegpu_sql.jobs import JobContext, JobRunner

CLASSES = "gpu_classes: [{name: two, local: {simulated: 2}}, {name: none, local: {simulated: 0}}]"


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


def rows_kept(job: JobHandle) -> int:
    """How many of the first rows are in checkpoints, as the job has told."""
    told = [event.message.split()[0] for event in job.events() if event.kind == "part done"]
    return max((int(rows.replace(",", "")) for rows in told), default=0)


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
        kept = eventually(lambda: rows_kept(job))  # what the worker has computed may still be on its way
        holder.kill()
        job.wait(PATIENCE_SECONDS)
        assert job.record.owner is not None
        assert job.record.owner.pid == other.process.pid
    shop.check(table)
    assert max(shop.calls.take()[key] for key in range(kept)) == 1, "what was finished was computed again"


def test_an_agent_told_to_end_lets_the_call_in_flight_finish_and_gives_the_job_back(shop: Shop) -> None:
    table = shop.table(at=30)
    with AgentProcess(shop.folder, shutdown_grace_seconds=60) as agent:
        shop.gate.arm()
        job = submit(table)
        shop.gate.wait_for_call()
        agent.process.terminate()
        eventually(shop.db.list_agents, lambda agents: not agents)  # it has heard
        shop.gate.open()
        told = agent.process.communicate(timeout=PATIENCE_SECONDS)[1]
        assert (agent.process.returncode, "queued again" in told) == (0, True), told
    assert (job.status(), shop.db.list_agents()) == (JobState.QUEUED, [])
    with AgentProcess(shop.folder):
        job.wait(PATIENCE_SECONDS)
    shop.check(table)
    assert set(shop.calls.take().values()) == {1}, "what was finished was computed again"


def test_the_log_of_an_agent_tells_of_its_jobs(shop: Shop) -> None:
    with AgentProcess(shop.folder) as agent:
        job = submit(shop.table())
        job.wait(PATIENCE_SECONDS)
        told = agent.terminate()
    assert f" INFO Job {job.id}: " in told
    assert ": finished, " in told


def test_an_agent_told_to_end_does_not_wait_for_ever(shop: Shop) -> None:
    table = shop.table(at=30)
    with AgentProcess(shop.folder, shutdown_grace_seconds=1) as agent:
        shop.gate.arm()
        job = submit(table)
        shop.gate.wait_for_call()
        assert "queued again" in agent.terminate()
    assert job.status() is JobState.QUEUED


def test_an_agent_that_ends_in_a_process_leaves_it_its_own_jobs(shop: Shop) -> None:
    table, stop = shop.table(at=30), threading.Event()
    stop.set()
    shop.gate.arm()
    job = table.refresh_column_async("y")
    shop.gate.wait_for_call()
    shop.db.run_agent(stop=stop)  # one look, and it ends
    shop.gate.open()
    assert job.wait(PATIENCE_SECONDS).rows_assigned == 60
    assert shop.table("later").refresh_column("y").rows_assigned == 60


def slow(folder: Path, name: str) -> Any:
    """A GPU Function that takes its time until the file `hurry` is there."""
    hurry = str(folder / "hurry")

    @function(name=name, gpu=True, gpu_class="two")
    def take_time(key: int, x: int | None) -> int | None:
        if not Path(hurry).exists():
            time.sleep(0.02)
        return None if x is None or x % 7 == 0 else x * 10

    return take_time


def test_three_jobs_share_two_devices_oldest_first(shop: Shop) -> None:
    tables = []
    for name in ("first", "second", "third"):
        numbers = pa.array(range(3000), pa.int64())
        tables.append(shop.db.create_table(name, pa.table({"key": numbers, "x": numbers})))
        tables[-1].add_columns({"y": slow(shop.folder, f"slow_{name}")(key=col("key"), x=col("x"))})
    with AgentProcess(shop.folder):
        first = submit(tables[0], part_target_seconds=0.5)
        eventually(lambda: "worker_added" in kinds(first))  # alone, it takes both
        second, third = submit(tables[1]), submit(tables[2])
        eventually(lambda: "worker ready" in kinds(second))  # it gave one back
        eventually(third.status, lambda state: state is JobState.WAITING)
        assert third.waiting_on is not None
        assert "refresh of second.y" in third.waiting_on.message
        assert (first.status(), second.status()) == (JobState.RUNNING, JobState.RUNNING)
        (shop.folder / "hurry").touch()
        for job in (first, second, third):
            job.wait(PATIENCE_SECONDS)
    for table in tables:
        shop.check(table)
    ready = [min(event.id for event in job.events() if event.kind == "worker ready") for job in (first, second, third)]
    assert ready == sorted(ready)


def test_an_agent_tells_how_it_does(shop: Shop) -> None:
    table = shop.table()
    with AgentProcess(shop.folder, "--port", "0") as agent:
        url = re.findall(r"http://127\.0\.0\.1:\d+", agent.told)[0]
        assert page(f"{url}/healthz") == "ok\n"
        submit(table).wait(PATIENCE_SECONDS)
        told = eventually(lambda: page(f"{url}/metrics"), lambda text: 'lancegpu_jobs{state="finished"} 1' in text)
        assert "lancegpu_schedules_due 0" in told
        assert 'lancegpu_rows_total{function="noting_t",outcome="computed"} 60' in told
        assert re.search(r'lancegpu_calls_total\{function="noting_t"\} \d+', told)
        spent = re.findall(r'lancegpu_worker_seconds_total\{function="noting_t",state="(\w+)"\} [\d.]+', told)
        assert sorted(spent) == ["busy", "idle", "starting"]
        waits = submit(shop.table("u", gpu=True, gpu_class="none"))
        eventually(waits.status, lambda state: state is JobState.WAITING)
        waiting = r'lancegpu_job_waiting_seconds\{gpu_class="none",reason="no_device"\} [\d.]+'
        assert re.search(waiting, page(f"{url}/metrics"))
        waits.cancel()
        with pytest.raises(HTTPError, match="404"):
            page(f"{url}/secrets")


def page(url: str) -> str:
    with urlopen(url, timeout=PATIENCE_SECONDS) as reply:
        return str(reply.read().decode())


ELSEWHERE = ProcessIdentity(host="elsewhere", pid=4711, started_at=1.0, boot="1" * 36)


def held_elsewhere(shop: Shop, table: Table) -> JobHandle:
    """A job of the table that a process of another host works on."""
    job = submit(table)
    shop.db._services.catalog.update_job(job.id, state=JobState.RUNNING, owner=ELSEWHERE, lease="elsewhere")
    return job


def test_a_silent_hosts_job_is_taken_over_within_the_lease(shop: Shop) -> None:
    table = shop.table()
    job = held_elsewhere(shop, table)
    with AgentProcess(shop.folder, lease_seconds=2):
        began = time.monotonic()
        eventually(lambda: job.record.owner, lambda owner: owner != ELSEWHERE)
        assert time.monotonic() - began <= 2.5
        job.wait(PATIENCE_SECONDS)
    shop.check(table)
    assert any("No sign of life of process 4711 on elsewhere" in event.message for event in job.events())


def test_a_job_of_another_host_that_gives_signs_of_life_is_left_to_it(shop: Shop) -> None:
    job, other = held_elsewhere(shop, shop.table()), held_elsewhere(shop, shop.table("silent"))
    catalog = shop.db._services.catalog
    catalog.update_job(other.id, lease="silent")
    with AgentProcess(shop.folder, lease_seconds=1):

        def the_silent_one_is_taken() -> bool:
            catalog.beat_jobs({job.id: "elsewhere"})
            return other.record.owner != ELSEWHERE

        eventually(the_silent_one_is_taken)
        assert job.record.owner == ELSEWHERE
        other.wait(PATIENCE_SECONDS)


def test_a_process_that_lost_its_job_stops_and_says_so(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        with JobRunner(catalog, tmp_path, watch_interval_seconds=0.02, lease_seconds=0.1) as runner:

            def work(context: JobContext) -> dict[str, Any]:
                assert context.cancelled.wait(PATIENCE_SECONDS)
                return {}

            job = runner.start(JobRecord.new("refresh_column", table="t", columns=["y"]), work)
            catalog.update_job(job.id, owner=ELSEWHERE, lease="elsewhere")
            with pytest.raises(Conflict, match="taken over by another process"):
                job.wait(PATIENCE_SECONDS)
        assert catalog.job(job.id).owner == ELSEWHERE


def test_an_idle_agent_costs_next_to_nothing(shop: Shop) -> None:
    with AgentProcess(shop.folder, lease_seconds=6) as agent:
        before, began = cpu_seconds(agent), time.monotonic()
        beats = shop.db.list_agents()[0].heartbeat
        eventually(lambda: shop.db.list_agents()[0].heartbeat > beats)
        share = (cpu_seconds(agent) - before) / (time.monotonic() - began)
    print(f"an idle agent takes {share:.1%} of a core")
    assert share < 0.1


def cpu_seconds(agent: AgentProcess) -> float:
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_two_refreshes_that_share_no_lock_publish_each_row_once(shop: Shop, tmp_path: Path) -> None:
    table = shop.table(at=30)
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "t.lance").symlink_to(
        shop.folder / "db" / "t.lance"
    )  # as from a host that shares the disk alone
    with open_database(tmp_path, runtime_folder=shop.folder / "run") as elsewhere:
        elsewhere.create_function(gated(shop.calls, shop.gate, "gated_t", at=30))
        shop.gate.arm()
        here = table.refresh_column_async("y")
        shop.gate.wait_for_call()
        there = elsewhere.open_table("t").refresh_column_async("y").wait(PATIENCE_SECONDS)
        shop.gate.open()
        assert (there.rows_assigned, here.wait(PATIENCE_SECONDS).rows_assigned) == (60, 0)
    shop.check(table)


def test_a_job_of_this_process_is_paused_and_goes_on_here(shop: Shop) -> None:
    table = shop.table(at=30)
    shop.gate.arm()
    job = table.refresh_column_async("y", batch_size=5, part_target_seconds=0.01)
    shop.gate.wait_for_call()
    shop.db.pause_job(job.id)
    with pytest.raises(StillWaiting, match="is paused; what it finished is kept"):
        job.wait(PATIENCE_SECONDS)
    assert (job.status(), job.record.owner) == (JobState.PAUSED, None)
    assert shop.db.resume_job(job.id).rows_assigned == 60
    shop.check(table)
