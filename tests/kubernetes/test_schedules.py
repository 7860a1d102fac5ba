"""A schedule whose GPU class has no room waits with its reason, holds up no other, and is kept when capacity comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from agents import eventually
from cluster.process_node import AddProcessNode
from refresh_kit import PATIENCE_SECONDS, Calls, by_key, noting
from two_jobs import GPU_CLASS, ROWS, MakeJobs, TwoJobs

import lancegpu_sql as lg
from lancegpu_sql.database.schedule_infos import ScheduleInfo


@pytest.fixture
def jobs(namespace: str, process_node: AddProcessNode, make_jobs: MakeJobs) -> TwoJobs:
    """Two jobs of a class that has one GPU."""
    process_node("scheduled-1", gpus=1, labels={"pool": namespace})
    return make_jobs()


@pytest.fixture
def agent(jobs: TwoJobs) -> Iterator[None]:
    """An agent that does one thing at a time."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: jobs.database.run_agent(stop=stop, concurrency=1))
    thread.start()
    yield
    stop.set()
    thread.join(PATIENCE_SECONDS)


def known(jobs: TwoJobs, name: str) -> ScheduleInfo:
    return next(one for one in jobs.database.list_schedules() if one.schedule == name)


@pytest.mark.usefixtures("agent")
def test_a_scheduled_refresh_without_room_waits_others_go_on_and_capacity_makes_it_right(
    jobs: TwoJobs, tmp_path: Path
) -> None:
    plain = jobs.database.create_table("plain", pa.table({"key": range(ROWS), "x": [1] * ROWS}))
    plain.add_columns({"y": noting(Calls(tmp_path / "plain"), "plainly")(lg.col("key"), lg.col("x"))})
    following = jobs.database.open_table("following")
    holding = jobs.hold()
    following.set_schedule("y", "every 1 second")
    plain.set_schedule("y", "every 1 second")
    eventually(lambda: known(jobs, "following.y").state, lambda state: state == "waiting")
    assert GPU_CLASS in str(eventually(lambda: known(jobs, "following.y").reason))
    eventually(lambda: by_key(plain) == dict.fromkeys(range(ROWS), 10))
    eventually(lambda: known(jobs, "following.y").skipped)
    jobs.let_go()
    holding.wait(PATIENCE_SECONDS)
    eventually(lambda: by_key(following) == dict.fromkeys(range(ROWS), 10))
