"""Kill -9 at random moments: a rerun gives the reference, no row is lost or doubled, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, Calls, by_key, noting, open_database, reference, short_folder, status

from lancegpu_sql import col
from lancegpu_sql.database import Database

ROUNDS = 150 if os.environ.get("TEST_LENGTH") == "full" else 10
ROWS = 400
CLASSES = "gpu_classes:\n  - name: default\n    gpu_model: None\n    gpu_memory_bytes: 1GiB\n    max_gpu_count_per_worker: 2\n    local: {simulated: 2}\n"

# Refreshes in a process of its own; says when it begins, and how it ended.
PROGRAM = """
import sys
import lancegpu_sql as lg
folder, column, where = sys.argv[1:]
db = lg.connect(folder + "/db", runtime_folder=folder + "/run", progress="quiet", max_workers=2)
print("begins", flush=True)
table = db.open_table("t")
table.refresh_column_async(
    column, where or None, batch_size=5, part_target_seconds=0.05, publication_interval_rows=100
).wait()
print("ended", flush=True)
db.close()
"""


class Chaos:
    """A database whose table is refreshed by processes that may be killed."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.calls = Calls(folder / "calls")
        self.spawned: set[int] = set()
        numbers = pa.array(range(ROWS), pa.int64())
        self.table = database.create_table("t", pa.table({"key": numbers[:150], "x": numbers[:150]}))
        self.table.add(pa.table({"key": numbers[150:], "x": numbers[150:]}))
        self.table.delete("key % 10 = 3")
        noted = noting(self.calls, gpu=True)
        self.table.add_columns({"y": noted(key=col("key"), x=col("x"))})
        self.round = 0

    def change(self) -> int:
        """Give half of the rows new inputs; return how many rows are not current now."""
        self.round += 1
        self.table.update(f"key % 2 = {self.round % 2}", values_sql={"x": "x + 1000"})
        return ROWS - status(self.table)[0] - ROWS // 10

    def start(self, where: str = "") -> subprocess.Popen[str]:
        """Start a refresh, and return when it begins."""
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.folder), "y", where], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        return process

    def workers(self, process: subprocess.Popen[str]) -> list[int]:
        """Return the worker processes that a process has started."""
        try:
            threads = [path / "children" for path in Path(f"/proc/{process.pid}/task").iterdir()]
            children = " ".join(path.read_text() for path in threads)
        except OSError:
            return []
        found = [int(pid) for pid in children.split()]
        self.spawned.update(found)
        return found

    def finish(self) -> None:
        """Refresh until it ends well, as a user would."""
        self.table.refresh_column_async("y").wait()

    def need_every_device(self) -> None:
        """Refresh with a worker that needs all devices of the class: none is leased to a dead process."""
        greedy = noting(self.calls, "greedy", gpu=True, gpus=2)
        self.table.add_columns({"z": greedy(key=col("key"), x=col("x"))})
        self.table.refresh_column_async("z").wait(PATIENCE_SECONDS)

    def check(self) -> None:
        """The column equals the reference, and nothing of the killed ones is left."""
        assert by_key(self.table) == {key: reference(x) for key, x in by_key(self.table, "x").items()}
        assert status(self.table) == (ROWS - ROWS // 10, 0, 0, 0)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(alive(pid) for pid in self.spawned):
            assert time.monotonic() < deadline, "a worker outlived its owner"
            time.sleep(0.01)
        assert not list((self.folder / "db" / ".lancegpu" / "checkpoints").rglob("*.arrow"))


def alive(pid: int) -> bool:
    """Whether a worker process lives; zombies of ours have been waited for by then."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"lancegpu_sql.workers" in words


@pytest.fixture
def chaos() -> Iterator[Chaos]:
    with short_folder() as folder:
        classes = folder / "classes.yaml"
        classes.write_text(CLASSES)
        with open_database(folder, gpu_classes=classes) as database:
            yield Chaos(folder, database)


def wait_a_moment(chaos: Chaos, process: subprocess.Popen[str], due: int, dice: random.Random) -> None:
    """Wait until a random number of calls were made: a moment of the work, not of the clock."""
    wanted = dice.choice([0, dice.randrange(1, 30), dice.randrange(1, due), due - 1, due])
    while process.poll() is None and chaos.calls.waiting() < wanted:
        time.sleep(0.001)


@pytest.mark.timeout(3600 if ROUNDS > 10 else 300)
@pytest.mark.parametrize("victim", ["worker", "refresh", "both"])
def test_a_rerun_after_kills_gives_the_reference(chaos: Chaos, victim: str, dice: random.Random) -> None:
    for _ in range(ROUNDS):
        due = chaos.change()
        chaos.calls.take()
        process = chaos.start()
        wait_a_moment(chaos, process, due, dice)
        workers = chaos.workers(process)
        if victim != "refresh":
            for pid in workers[:1] if victim == "worker" else workers:
                kill(pid)
        if victim != "worker":
            process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
        chaos.finish()
        chaos.check()
        calls = chaos.calls.take()
        assert len(calls) == due, "a row was not computed, or one that was current was"
        assert calls.total() <= 3 * due, "what was kept was computed again"
    chaos.need_every_device()


def kill(pid: int) -> None:
    """Kill a worker that may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
