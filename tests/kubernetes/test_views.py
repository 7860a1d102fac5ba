"""A view whose GPU class has no room: its scheduled refresh waits and says why, others go on, and capacity makes it right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agents import agent, eventually
from cluster.process_node import AddProcessNode
from refresh_kit import PATIENCE_SECONDS, by_key
from two_jobs import GPU_CLASS, ROWS, MakeJobs, TwoJobs


@pytest.fixture
def jobs(namespace: str, process_node: AddProcessNode, make_jobs: MakeJobs) -> Iterator[TwoJobs]:
    """A class that has one GPU, and a job that can hold it; an agent does one thing at a time."""
    process_node("views-1", gpus=1, labels={"pool": namespace})
    made = make_jobs()
    with agent(made.database, concurrency=1):
        yield made


def test_a_view_without_room_waits_other_views_go_on_and_capacity_makes_it_right(jobs: TwoJobs) -> None:
    db, schedule = jobs.database, jobs.schedule
    holding = jobs.hold()
    made = "SELECT key, following(key, x) AS y FROM following"
    waiting = db.create_materialized_view("made", made, schedule="every 1 second", with_no_data=True)
    other = db.create_materialized_view("other", "SELECT sum(x) AS y FROM following", schedule="on change")
    eventually(lambda: schedule("made").state, lambda state: state == "waiting")
    assert GPU_CLASS in str(eventually(lambda: schedule("made").reason))
    db.sql("UPDATE following SET x = 2")
    eventually(lambda: other.to_arrow()["y"].to_pylist() == [2 * ROWS])
    assert (waiting.status.state, schedule("made").state) == ("empty", "waiting")
    jobs.let_go()
    holding.wait(PATIENCE_SECONDS)
    eventually(lambda: by_key(db.open_table("made")) == dict.fromkeys(range(ROWS), 20))
    eventually(lambda: waiting.status.state == "fresh")
