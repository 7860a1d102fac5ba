"""Two agents keep schedules while an unfair coin kills one of them: every due refresh happens, and is published once.

`make test` takes a sample, in which they die the faster; ``KILLS_SECONDS=60`` is a minute with a death every five seconds, and
`make test-full` ten, on a catalog in PostgreSQL one.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from published import publications
from refresh_kit import Calls, by_key, noting, open_database, reference, short_folder, status

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobRecord
from lancegpu_sql.catalog.schedule_models import ScheduleRecord
from lancegpu_sql.database import Database, MaterializedView, Table
from lancegpu_sql.jobs.schedules.rule import jitter_offset

FULL = os.environ.get("TEST_LENGTH") == "full"
USUAL_SECONDS = {"sqlite": 600.0 if FULL else 6.0, "postgresql": 60.0 if FULL else 6.0}
ROWS = 60
SCHEDULES = {"a": "every 1 second", "b": "every 2 seconds jitter 1 second", "c": "on change"}
VIEWS = {
    "sums": ("SELECT count(*) AS key, sum(x) AS y FROM b", "every 1 second"),
    "made": ("SELECT key, noting_v(key, x) AS y FROM c", "on change"),
}
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


def make_views(db: Database, folder: Path) -> list[MaterializedView]:
    """One that is computed anew each time, and one whose changed rows are."""
    db.create_function(noting(Calls(folder / "calls"), "noting_v", gpu=True, gpu_class="two"))
    return [
        db.create_materialized_view(name, query, schedule=when, with_no_data=True)
        for name, (query, when) in VIEWS.items()
    ]


def record(db: Database, name: str) -> ScheduleRecord:
    """The schedule of a table's column, or of a view."""
    subject = f"view {name}" if name in VIEWS else f"column {name}.y"
    return db._services.catalog.schedule(subject).schedule


def is_right(db: Database, name: str) -> bool:
    """Whether a table's column, or a view, is what its sources say."""
    table = db.open_table(name)
    if name == "sums":
        x = by_key(db.open_table("b"), "x")
        return by_key(table) == {len(x): sum(x.values())}
    source = db.open_table("c") if name == "made" else table
    return by_key(table) == {key: reference(x) for key, x in by_key(source, "x").items()}


def check_once_for_each_time(db: Database, schedule: ScheduleRecord, jobs: list[JobRecord]) -> None:
    """No two jobs were queued for one due time, and those of an interval lie where it says."""
    due = [datetime.fromisoformat(db.get_job(job.id).events()[0].detail["due"]) for job in jobs]
    assert len(set(due)) == len(due), due
    if schedule.rule.kind == "interval":
        first = schedule.created_at + jitter_offset(schedule.rule, schedule.subject)
        step = timedelta(seconds=schedule.rule.every_seconds or 0.0)
        assert {(one - first) % step for one in due} == {timedelta(0)}


class Coin:
    """Kills an agent again and again, the first one three times out of four, and lets another take its place."""

    def __init__(
        self,
        agents: list[AgentProcess],
        start: Callable[[], AgentProcess],
        every_seconds: float,
        dice: random.Random,
    ) -> None:
        self._agents, self._start, self._every_seconds, self._dice = agents, start, every_seconds, dice
        self._over = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self.deaths = 0

    def _toss(self) -> None:
        # By the clock, for that is what schedules go by; whatever is being done then.
        while not self._over.wait(self._every_seconds * (0.9 + self._dice.random() / 5)):
            at = self._dice.choices([0, 1], [3, 1])[0]
            self._agents[at].kill()
            self._agents[at] = self._start()
            self.deaths += 1

    def __enter__(self) -> Self:
        self._tossing = self._thread.submit(self._toss)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.shutdown()
        if error is None:
            self._tossing.result()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("catalog", ["sqlite", "postgresql"])
def test_every_due_refresh_happens_and_is_published_once_whoever_is_killed(
    folder: Path, catalog: str, catalog_settings: dict[str, str], dice: random.Random
) -> None:
    seconds = float(os.environ.get("KILLS_SECONDS") or USUAL_SECONDS[catalog])
    with open_database(folder, gpu_classes=folder / "classes.yaml", **catalog_settings) as db, ExitStack() as stack:
        tables, _ = make_tables(db, folder), make_views(db, folder)
        names = [*SCHEDULES, *VIEWS]

        def start() -> AgentProcess:
            quick = {"lease_seconds": 3, "worker_idle_seconds": 1, "on_change_debounce_seconds": 0.2}
            return stack.enter_context(AgentProcess(folder, **quick, **catalog_settings))

        def all_are_right() -> None:
            for name in names:
                eventually(lambda name=name: is_right(db, name))

        agents = [start(), start()]
        all_are_right()
        changes, until = 0, time.monotonic() + seconds
        with Coin(agents, start, 5.0 if seconds >= 60.0 else 2.0, random.Random(dice.random())) as coin:
            while time.monotonic() < until or coin.deaths < 3:
                for table in tables:
                    table.update(f"key % 3 = {dice.randrange(3)}", values_sql={"x": "x + 1000"})
                changes += 1
                all_are_right()
        runs = {name: check(db, name, changes) for name in names}
        print(f"{changes} changes, {coin.deaths} agents killed; refreshes: {runs}")
        assert all(count > 2 for count in runs.values())


def check(db: Database, name: str, changes: int) -> int:
    """All refreshes of a table or a view ended well, and each published once; returns how many there were."""
    schedule = record(db, name)
    db.disable_schedule(name if name in VIEWS else f"{name}.y")
    eventually(lambda: record(db, name).job_id is None)
    jobs = [job for job in db.list_jobs(name) if job.kind == schedule.job_kind]  # agents also tidy up
    assert {str(job.state) for job in jobs} == {"finished"}
    assert record(db, name).streak == 0
    assert is_right(db, name)
    refreshes = {job.id for job in jobs}
    made = Counter({job: count for job, count in publications(f"{db.uri}/{name}.lance").items() if job in refreshes})
    assert set(made.values()) == {1}, made
    if name in VIEWS:
        assert made.total() > changes, "a change was not published"
    else:
        assert made.total() == changes + 1, "a change was published twice, or not"
        assert status(db.open_table(name)) == (ROWS, 0, 0, 0)
    check_once_for_each_time(db, schedule, jobs)
    return len(jobs)
