"""A refresh whose GPU class has no room: it waits, and can be left at any time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refresh_kit import Calls, Gate, gated, open_database, short_folder

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.cli import main
from lancegpu_sql.database import Database

CLASSES = "gpu_classes: [{name: one, local: {simulated: 1}}]"


@pytest.fixture(scope="module")
def busy() -> Iterator[Database]:
    """A database whose only device a job of this process holds; its table `other` has a column to refresh."""
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        gate = Gate(folder / "gate")
        waits = gated(Calls(folder / "calls"), gate, gpu=True, gpu_class="one")
        with open_database(folder, gpu_classes=folder / "classes.yaml") as db:
            for name in ("held", "other"):
                table = db.create_table(name, pa.table({"key": [1], "x": [1]}))
                table.add_columns({"y": waits(key=col("key"), x=col("x"))})
            gate.arm()
            holder = db.open_table("held").refresh_column_async("y")
            gate.wait_for_call()
            yield db
            gate.open()
            holder.wait()
        gate.close()


def environment(db: Database) -> dict[str, str]:
    """For a command of another process that shares the device."""
    return os.environ | {"LANCEGPU_DB": db.uri, "LANCEGPU_RUNTIME_FOLDER": str(Path(db.uri).parent / "run")}


def test_a_refresh_still_waiting_at_its_timeout_ends_with_75_and_says_for_what(busy: Database):
    command = [sys.executable, "-m", "lancegpu_sql.cli", "refresh", "other", "y", "--timeout", "0.5"]
    ran = subprocess.run(command, env=environment(busy), capture_output=True, text=True, check=False)
    assert ran.returncode == 75, ran.stderr
    last_line = ran.stderr.splitlines()[-1]
    assert re.search(r"waiting: .*'one'.*refresh of held\.y.*Go on with: lancegpu jobs resume \S+$", last_line)


def test_a_refresh_left_at_its_timeout_can_be_resumed_by_the_id_it_named(busy: Database, monkeypatch: Any, capsys: Any):
    monkeypatch.setattr(os, "environ", environment(busy))
    assert main(["refresh", "other", "y", "--timeout", "0"]) == 75
    job = capsys.readouterr().err.split()[-1]
    assert busy.get_job(job).status() is JobState.QUEUED
    assert main(["jobs", "resume", job, "--timeout", "0"]) == 75


def test_watching_a_job_beyond_the_timeout_ends_with_75_and_leaves_the_job(busy: Database, monkeypatch: Any):
    monkeypatch.setattr(os, "environ", environment(busy))
    (holder,) = busy.list_jobs("held")
    assert main(["jobs", "watch", holder.id, "--timeout", "0"]) == 75
    assert busy.get_job(holder.id).status() is JobState.RUNNING


def test_ctrl_c_cancels_cleanly_and_says_how_to_resume(busy: Database):
    command = [sys.executable, "-m", "lancegpu_sql.cli", "refresh", "other", "y"]
    with subprocess.Popen(command, env=environment(busy), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while ": waiting" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130, told
    job = re.search(r"Go on with: lancegpu jobs resume (\S+)$", told)
    assert job, told
    assert busy.get_job(job[1]).status() is JobState.CANCELLED


def test_a_refresh_cancelled_from_elsewhere_ends_with_1_and_says_how_to_go_on(busy: Database):
    command = [sys.executable, "-m", "lancegpu_sql.cli", "refresh", "other", "y"]
    with subprocess.Popen(command, env=environment(busy), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while ": waiting" not in process.stderr.readline():
            pass
        busy.cancel_job(busy.list_jobs("other")[0].id)
        told = process.stderr.read()
    assert process.returncode == 1, told
    assert re.search(r"cancelled from elsewhere; .*Go on with: lancegpu jobs resume \S+$", told)
