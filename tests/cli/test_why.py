"""`why`: the sentence, the evidence and the commands of a job that waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refresh_kit import short_folder

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobRecord, JobState, ProcessIdentity, WaitingOn, utc_now
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.cli import main

DETAIL = {
    "resource": "nvidia.com/gpu",
    "pod": {
        "name": "lancegpu-embed-1",
        "namespace": "work",
        "phase": "Pending",
        "needs": {"nvidia.com/gpu": "1"},
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
    },
    "nodes": [
        {
            "name": "gpu-1",
            "state": "in use",
            "devices": 8,
            "used": 8,
            "free": 0,
            "failed": 0,
            "jobs": [{"job": "j-first", "function": "caption", "pods": 5, "devices": 5}],
            "others": {"pods": 3, "devices": 3},
        }
    ],
    "nodes_in_pool": 12,
    "kubectl": ["kubectl -n work describe pod lancegpu-embed-1"],
}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a job of this process that waits, and gives its id."""
    with short_folder() as folder:
        monkeypatch.setenv("LANCEGPU_DB", str(folder / "db"))
        lg.connect(folder / "db").close()
        yield lambda **facts: add_job(folder / "db", **facts)


def add_job(database: Path, **facts: Any) -> str:
    (found,) = database.rglob("catalog.sqlite")
    catalog = Catalog.open(str(found))
    record = JobRecord.new("refresh_column", table="reviews", columns=["score"])
    catalog.add_job(record.model_copy(update={"owner": ProcessIdentity.current(), **facts}))
    catalog.close()
    return record.id


def waits_on(**facts: Any) -> dict[str, Any]:
    about = {"gpu_class": "a100", "since": utc_now(), "reason": "in_use", "message": "all 8 GPUs are in use", **facts}
    return {"state": JobState.WAITING, "waiting_on": WaitingOn(**about)}


def test_it_tells_the_sentence_the_nodes_the_evidence_and_the_commands(
    waiting: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", waiting(**waits_on(detail=DETAIL, can_be_met=True))]) == 0
    told = capsys.readouterr().out
    assert told.startswith("All 8 GPUs are in use.\n")
    assert "can be met  yes" in told
    assert "gpu-1  in use     8     8     0       0  job j-first (caption): 5, others: 3" in told
    assert "and 11 more nodes of the pool" in told
    assert "  condition PodScheduled=False (Unschedulable): 0/1 nodes" in told
    assert "  kubectl -n work describe pod lancegpu-embed-1" in told


def test_it_tells_who_holds_the_devices_of_this_machine(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    holder = {"owner": "job 7", "devices": ["d0"], "pid": 1, "worker_pid": 4711}
    assert main(["why", waiting(**waits_on(detail={"holders": [holder]}))]) == 0
    assert "d0       job 7    4711" in capsys.readouterr().out


def test_it_tells_of_the_backup_classes_that_were_tried(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    backup = {"gpu_class": "a100", "reason": "in_use", "message": "all 2 devices are in use"}
    assert main(["why", waiting(**waits_on(detail={"backups": [backup]}))]) == 0
    assert re.search(r"^a100 +in_use +all 2 devices are in use$", capsys.readouterr().out, re.MULTILINE)


def test_programs_get_it_as_json(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    job = waiting(**waits_on(detail=DETAIL, can_be_met=False))
    assert main(["why", job, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["state"], told["waiting_on"]["can_be_met"]) == (job, "waiting", False)


def test_a_job_that_does_not_wait_says_so(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    job = waiting(state=JobState.FINISHED)
    assert main(["why", job]) == 0
    assert capsys.readouterr().out == f"Job {job} does not wait: it is finished.\n"
