"""A refresh whose GPU class has no room: it waits, and can be left at any time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import Calls, Gate, gated, open_database, short_folder

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database
from lancegpu_sql.errors import Cancelled

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


def command(db: Database, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process of its own that shares the device."""
    environment = {"LANCEGPU_DB": db.uri, "LANCEGPU_RUNTIME_FOLDER": str(Path(db.uri).parent / "run")}
    return subprocess.Popen(
        [sys.executable, "-m", "lancegpu_sql.cli", *arguments],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """A command's exit status, and what it had still to say."""
    told = process.communicate()[1]
    return process.returncode, told


def wait_until_it_waits(process: subprocess.Popen[str]) -> None:
    """Read what a command says until it says that it waits."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if ": waiting" in line:
            return
    raise AssertionError("".join(said))


def test_a_refresh_still_waiting_at_its_timeout_ends_with_75_and_says_for_what(busy: Database):
    status, told = ended(command(busy, "refresh", "other", "y", "--timeout", "0.5"))
    assert status == 75, told
    last_line = told.splitlines()[-1]
    assert re.search(r"waiting: .*'one'.*refresh of held\.y.*Go on with: lancegpu jobs resume \S+$", last_line)


def test_a_refresh_left_at_its_timeout_can_be_resumed_by_the_id_it_named(busy: Database):
    status, told = ended(command(busy, "refresh", "other", "y", "--timeout", "0"))
    job = told.split()[-1]
    assert (status, busy.get_job(job).status()) == (75, JobState.QUEUED), told
    assert ended(command(busy, "jobs", "resume", job, "--timeout", "0"))[0] == 75


def test_watching_a_job_beyond_the_timeout_ends_with_75_and_leaves_the_job(busy: Database):
    (holder,) = busy.list_jobs("held")
    status, told = ended(command(busy, "jobs", "watch", holder.id, "--timeout", "0"))
    assert (status, busy.get_job(holder.id).status()) == (75, JobState.RUNNING), told


def test_ctrl_c_cancels_cleanly_and_says_how_to_resume(busy: Database):
    process = command(busy, "refresh", "other", "y")
    wait_until_it_waits(process)
    process.send_signal(signal.SIGINT)
    status, told = ended(process)
    job = re.search(r"Go on with: lancegpu jobs resume (\S+)$", told)
    assert job, told
    assert (status, busy.get_job(job[1]).status()) == (130, JobState.CANCELLED)


def test_ctrl_c_ends_a_query_that_waits_and_says_how_to_go_on(busy: Database):
    process = command(busy, "sql", "SELECT gated(1, 1)")
    wait_until_it_waits(process)
    process.send_signal(signal.SIGINT)
    status, told = ended(process)
    assert status == 130, told
    assert re.search(r"Cancelled while it waited: .*'one'.*run it again.*wait = false", told)


def test_a_refresh_cancelled_from_elsewhere_ends_with_1_and_says_how_to_go_on(busy: Database):
    process = command(busy, "refresh", "other", "y")
    wait_until_it_waits(process)
    (job,) = busy.list_jobs("other", states=["running", "waiting"])
    busy.cancel_job(job.id)
    status, told = ended(process)
    assert (status, f"Go on with: lancegpu jobs resume {job.id}" in told) == (1, True), told


REFRESH = """
import sys
import lancegpu_sql as lg
lg.connect(sys.argv[1], runtime_folder=sys.argv[2]).open_table("other").refresh_column("y")
"""


def test_ctrl_c_in_a_program_ends_with_the_whole_command_that_goes_on(busy: Database):
    process = subprocess.Popen(
        [sys.executable, "-c", REFRESH, busy.uri, str(Path(busy.uri).parent / "run")], stderr=subprocess.PIPE, text=True
    )
    wait_until_it_waits(process)
    process.send_signal(signal.SIGINT)
    last_line = ended(process)[1].splitlines()[-1]
    (job,) = busy.list_jobs("other", limit=1)
    assert last_line.startswith("KeyboardInterrupt: Cancelled; what was finished is kept.")
    assert last_line.endswith(f"lancegpu --db {busy.uri} jobs resume {job.id}")


def test_a_job_that_runs_is_not_resumed_and_its_process_is_named(busy: Database):
    (holder,) = busy.list_jobs("held")
    status, told = ended(command(busy, "jobs", "resume", holder.id))
    assert (status, f"process {os.getpid()} on" in told, "runs it" in told) == (1, True, True), told


def test_a_job_that_was_cancelled_while_it_waited_says_so(busy: Database):
    job = busy.open_table("other").refresh_column_async("y")
    record = job.record
    while record.state is not JobState.WAITING:
        record = job.next_change(record, 60)
    job.cancel()
    with pytest.raises(Cancelled, match="while waiting for a worker of gated"):
        job.wait(60)
