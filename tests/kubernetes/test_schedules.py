"""A schedule whose GPU class has no room waits with its reason, holds up no other, and is kept when capacity comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from agents import agent, eventually
from cluster.process_node import AddProcessNode
from refresh_kit import PATIENCE_SECONDS, Calls, by_key, noting
from two_jobs import GPU_CLASS, ROWS, MakeJobs, TwoJobs

import lancegpu_sql as lg


@pytest.fixture
def jobs(namespace: str, process_node: AddProcessNode, make_jobs: MakeJobs) -> Iterator[TwoJobs]:
    """Two jobs of a class that has one GPU; an agent does one thing at a time."""
    process_node("scheduled-1", gpus=1, labels={"pool": namespace})
    made = make_jobs()
    with agent(made.database, concurrency=1):
        yield made


def test_a_scheduled_refresh_without_room_waits_others_go_on_and_capacity_makes_it_right(
    jobs: TwoJobs, tmp_path: Path
) -> None:
    plain = jobs.database.create_table("plain", pa.table({"key": range(ROWS), "x": [1] * ROWS}))
    plain.add_columns({"y": noting(Calls(tmp_path / "plain"), "plainly")(lg.col("key"), lg.col("x"))})
    following = jobs.database.open_table("following")
    holding = jobs.hold()
    following.set_schedule("y", "every 1 second")
    plain.set_schedule("y", "every 1 second")
    eventually(lambda: jobs.schedule("following.y").state, lambda state: state == "waiting")
    assert GPU_CLASS in str(eventually(lambda: jobs.schedule("following.y").reason))
    eventually(lambda: by_key(plain) == dict.fromkeys(range(ROWS), 10))
    eventually(lambda: jobs.schedule("following.y").skipped)
    jobs.let_go()
    holding.wait(PATIENCE_SECONDS)
    eventually(lambda: by_key(following) == dict.fromkeys(range(ROWS), 10))
