"""Two agents keep schedules while an unfair coin kills one of them: every due refresh happens, and is published once."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from refresh_kit import Calls, by_key, noting, open_database, reference, short_folder, status

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.catalog.schedule_models import ScheduleRecord
from lancegpu_sql.database import Database, Table
from lancegpu_sql.jobs.schedules.rule import jitter_offset
from lancegpu_sql.tables.publishing import JOB_PROPERTY

FULL = os.environ.get("TEST_LENGTH") == "full"
SECONDS = 600.0 if FULL else 12.0
BETWEEN_KILLS_SECONDS = 5.0 if FULL else 1.0
ROWS = 60
SCHEDULES = {"a": "every 1 second", "b": "every 2 seconds jitter 1 second", "c": "on change"}
CLASSES = "gpu_classes: [{name: two, local: {simulated: 2}}]"


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


def make_tables(db: Database, folder: Path) -> list[Table]:
    """A table for each kind of schedule; two devices for all of them."""
    numbers, tables = pa.array(range(ROWS), pa.int64()), []
    for name, when in SCHEDULES.items():
        table = db.create_table(name, pa.table({"key": numbers, "x": numbers}))
        make = noting(Calls(folder / "calls"), f"noting_{name}", gpu=True, gpu_class="two")
        table.add_columns({"y": make(key=col("key"), x=col("x"))})
        table.set_schedule("y", when, batch_size=20)
        tables.append(table)
    return tables


def record(db: Database, table: Table) -> ScheduleRecord:
    return db._services.catalog.schedule(f"column {table.name}.y").schedule


def is_right(table: Table) -> bool:
    return by_key(table) == {key: reference(x) for key, x in by_key(table, "x").items()}


def publications(table: Table) -> Counter[str]:
    """How many commits each job made."""
    dataset = lance.dataset(f"{table._services.tables.uri}/{table.name}.lance")
    found: Counter[str] = Counter()
    for version in range(1, dataset.version + 1):
        transaction = dataset.read_transaction(version)
        if transaction is not None and JOB_PROPERTY in transaction.transaction_properties:
            found[transaction.transaction_properties[JOB_PROPERTY]] += 1
    return found


def check_once_for_each_time(schedule: ScheduleRecord, jobs: list[JobRecord]) -> None:
    """No two jobs were queued for one due time of an interval."""
    if schedule.rule.kind == "interval":
        first = schedule.created_at + jitter_offset(schedule.rule, schedule.subject)
        step = timedelta(seconds=schedule.rule.every_seconds or 0.0)
        due = Counter((job.created_at - first) // step for job in jobs)
        assert set(due.values()) == {1}, due


@pytest.mark.timeout(900)
def test_every_due_refresh_happens_and_is_published_once_whoever_is_killed(folder: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"to see it again: KILLS_SEED={seed}")
    dice = random.Random(seed)
    with open_database(folder, gpu_classes=folder / "classes.yaml") as db, ExitStack() as stack:
        tables = make_tables(db, folder)

        def start() -> AgentProcess:
            settings = {"lease_seconds": 3, "worker_idle_seconds": 1, "on_change_debounce_seconds": 0.2}
            return stack.enter_context(AgentProcess(folder, **settings))

        agents, deaths, changes = [start(), start()], 0, 0
        for table in tables:
            eventually(lambda table=table: is_right(table))
        until, killed_at = time.monotonic() + SECONDS, time.monotonic()
        while time.monotonic() < until or deaths < 3:
            for table in tables:
                table.update(f"key % 3 = {dice.randrange(3)}", values_sql={"x": "x + 1000"})
            changes += 1
            if time.monotonic() - killed_at >= BETWEEN_KILLS_SECONDS:
                time.sleep(dice.random())  # a moment of the clock, for that is what schedules go by
                at = dice.choices([0, 1], [3, 1])[0]
                agents[at].kill()
                agents[at] = start()
                deaths, killed_at = deaths + 1, time.monotonic()
            for table in tables:
                eventually(lambda table=table: is_right(table))
        runs = {}
        for table in tables:
            schedule = record(db, table)
            db.disable_schedule(f"{table.name}.y")
            eventually(lambda table=table: record(db, table).job_id is None)
            jobs = db.list_jobs(table.name)
            assert {str(job.state) for job in jobs} == {"finished"}
            assert status(table) == (ROWS, 0, 0, 0)
            assert record(db, table).streak == 0
            made = publications(table)
            assert set(made.values()) == {1}, made
            assert made.total() == changes + 1, "a change was published twice, or not"
            assert set(made) <= {job.id for job in jobs}
            check_once_for_each_time(schedule, jobs)
            runs[table.name] = len(jobs)
        print(f"{changes} changes, {deaths} agents killed; refreshes: {runs}")
        assert all(count > 2 for count in runs.values())
