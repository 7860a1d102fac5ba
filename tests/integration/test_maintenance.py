"""Agents look after tables by themselves; what killed processes leave goes; a kill in the middle of it loses nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from refresh_kit import Calls, noting, open_database, short_folder

from lancegpu_sql import col, function
from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.database import Database, Table
from lancegpu_sql.database.caretaker import Caretaker
from lancegpu_sql.errors import FunctionFailed
from lancegpu_sql.refresh.lock import lock_name

KILLS = 10 if os.environ.get("TEST_LENGTH") == "full" else 2
LONG_AGO = time.time() - 60 * 86_400


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def db(folder: Path) -> Iterator[Database]:
    with open_database(folder, maintenance_small_fragments=3, checkpoint_retention_days=1.0) as db:
        yield db


def scattered(db: Database, name: str = "t", fragments: int = 4) -> Table:
    """A table of so many fragments, a row each."""
    table = db.create_table(name, pa.table({"key": [0], "x": [0]}))
    for key in range(1, fragments):
        table.add([{"key": key, "x": key}])
    return table


def upkeep_jobs(db: Database) -> list[JobRecord]:
    return [job for job in db.list_jobs() if job.kind in ("optimize", "remove_left_over")]


def test_an_agent_queues_a_job_for_a_table_that_needs_it_and_for_no_other(db: Database) -> None:
    scattered(db, "scattered", 4)
    scattered(db, "whole", 2)
    caretaker = Caretaker(db._services)
    assert len(caretaker.look()) == 1
    (job,) = upkeep_jobs(db)
    assert (job.table, str(job.state)) == ("scattered", "queued")
    assert caretaker.look() == []


def test_agents_that_look_at_once_queue_one_job(db: Database) -> None:
    scattered(db)
    threads = [threading.Thread(target=Caretaker(db._services).look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(upkeep_jobs(db)) == 1


def test_two_agents_look_after_a_table_once(db: Database, folder: Path) -> None:
    table = scattered(db)
    chosen = {"maintenance_small_fragments": 3}
    with AgentProcess(folder, **chosen), AgentProcess(folder, **chosen):
        eventually(lambda: len(table._snapshot().fragments), lambda count: count == 1)
        eventually(lambda: [str(job.state) for job in upkeep_jobs(db)], lambda states: states == ["finished"])
    assert table.count_rows() == 4


def test_agents_leave_tables_alone_where_that_is_switched_off(db: Database, folder: Path) -> None:
    scattered(db)
    with open_database(folder, maintenance=False) as off, Caretaker(off._services) as caretaker:
        caretaker.begin()
        assert not caretaker._thread.is_alive()


def test_an_agent_spares_a_table_under_refresh(db: Database) -> None:
    table = scattered(db)
    table.add_columns({"y": noting(Calls(db._services.folder / "calls"))(key=col("key"), x=col("x"))})
    job = JobRecord.new("refresh_column", table="t", columns=("y",))
    with db._services.runner as runner:
        over = threading.Event()
        running = runner.start(job, lambda _context: {"done": over.wait()})
        assert Caretaker(db._services).look() == []
        over.set()
        running.wait()
    assert len(Caretaker(db._services).look()) == 1


def test_checkpoints_go_when_nobody_went_on_with_them_for_long(db: Database) -> None:
    table = checkpointed(db)
    (parts,) = checkpoints(db)
    assert table.optimize().checkpoints_removed == 0
    age(parts)
    assert table.optimize().checkpoints_removed == 1
    assert checkpoints(db) == []


def test_checkpoints_of_a_dropped_column_go_with_what_is_left_over(db: Database) -> None:
    table = checkpointed(db)
    proof = table._snapshot().computed[0].proof_column
    table.drop_columns(["y"])
    assert db.remove_left_over().removed == 0
    (parts,) = checkpoints(db)
    assert lock_name("t", proof) in parts.parts
    age(parts)
    assert [step.action for step in db.remove_left_over(dry_run=True).steps] == ["remove checkpoints"]
    assert db.remove_left_over().removed == 1
    assert checkpoints(db) == []


def checkpointed(db: Database) -> Table:
    """A table whose refresh failed at its last row."""

    @function
    def failing(x: int) -> int:
        if x == 3:
            raise ValueError("three")
        return x

    table = scattered(db)
    table.add_columns({"y": failing(x=col("x"))})
    with pytest.raises(FunctionFailed):
        table.refresh_column("y", batch_size=1)
    return table


def checkpoints(db: Database) -> list[Path]:
    return [path for path in (db._services.folder / "checkpoints").glob("*/*/*") if any(path.rglob("*.arrow"))]


def age(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_unfinished_folders_and_results_of_nobody_go(db: Database, folder: Path) -> None:
    results = db._services.folder / "results"
    left = [folder / "db" / ".lancegpu-table-0", results / ("0" * 32)]
    for path in left:
        path.mkdir(parents=True)
        (path / "x.arrow").write_bytes(b"x" * 10)
    assert db.remove_left_over().removed == 0
    for path in left:
        age(path)
    assert (Caretaker(db._services).look(), len(upkeep_jobs(db))) != ([], 0)
    assert db.remove_left_over().bytes_removed == 20
    assert not any(path.exists() for path in left)


KILLED = """
import sys
from datetime import timedelta
from pathlib import Path
from refresh_kit import open_database

with open_database(Path(sys.argv[1])) as db:
    table = db.open_table("t")
    while True:
        key = table.count_rows()
        table.add([{"key": key, "x": key}])
        table.optimize(cleanup_older_than=timedelta(0))
        print(key, flush=True)
"""


def test_a_kill_in_the_middle_of_it_loses_nothing(db: Database, folder: Path) -> None:
    table = scattered(db)
    table.add_columns({"y": noting(Calls(folder / "calls"))(key=col("key"), x=col("x"))})
    table.refresh_column("y")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    for kill in range(KILLS):
        run = [sys.executable, "-c", KILLED, str(folder)]
        with subprocess.Popen(
            run, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as one:
            assert one.stdout is not None
            done = [int(one.stdout.readline()) for _ in range(2 + kill)][-1]
            time.sleep(0.003 * kill)  # another step of it each time
            one.kill()
        lance.dataset(table._snapshot().uri).validate()
        keys = sorted(table.to_arrow(["key"])["key"].to_pylist())
        assert keys == list(range(len(keys)))
        assert len(keys) > done
        assert table.optimize().fragments_after == 1
    assert table.columns_status()[0].fresh_rows == 4
