"""Rows that raise, rows that kill their workers, and kill -9 at random moments: exactly the failing rows are null."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, by_key, open_database, short_folder, status

from lancegpu_sql import col, function
from lancegpu_sql.database import Table

ROUNDS = 30 if os.environ.get("TEST_LENGTH") == "full" else 1
ROWS = 1500
SKIPPING = "error_policy='skip', retry_failed=True, part_target_seconds=0.05, max_worker_losses=1"

PROGRAM = f"""
import sys
import lancegpu_sql as lg
db = lg.connect(sys.argv[1] + "/db", runtime_folder=sys.argv[1] + "/run", progress="quiet", max_workers=2)
print("begins", flush=True)
db.open_table("t").refresh_column_async("y", {SKIPPING}).wait()
db.close()
"""


@function
def brittle(x: pa.Int64Array) -> pa.Int64Array:
    numbers = x.to_pylist()
    if any(number % 1000 == 7 for number in numbers):
        os.kill(os.getpid(), signal.SIGKILL)
    if any(number % 100 == 13 for number in numbers):
        raise ValueError("an unlucky number is among these")
    time.sleep(0.002)
    return pa.array([10 * number for number in numbers], pa.int64())


def reference(x: int) -> int | None:
    return None if x % 1000 == 7 or x % 100 == 13 else 10 * x


def refresh_under_fire(folder: Path, dice: random.Random) -> None:
    """Refresh in a process of its own, killing workers, and in the end perhaps the process."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    for _ in range(dice.randrange(4)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.1, 0.6))
        for pid in workers_of(process)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if dice.random() < 0.5:
        process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    try:
        threads = [path / "children" for path in Path(f"/proc/{process.pid}/task").iterdir()]
        return [int(pid) for path in threads for pid in path.read_text().split()]
    except OSError:
        return []


def check(table: Table) -> None:
    """Exactly the failing rows are null, and of each it is told whose fault that is."""
    given = by_key(table, "x")
    assert by_key(table) == {key: reference(x) for key, x in given.items()}
    failing = {key: x for key, x in given.items() if reference(x) is None}
    assert status(table) == (ROWS - len(failing), 0, len(failing), 0)
    ids = table.to_arrow(["_rowid", "x"])
    numbers = dict(zip(ids["_rowid"].to_pylist(), ids["x"].to_pylist(), strict=True))
    told = {numbers[error.row_id]: error.owner for error in table.errors("y")}
    assert told == {x: "input" if x % 1000 == 7 else "user" for x in failing.values()}


@pytest.mark.timeout(3600 if ROUNDS > 10 else 300)
def test_under_failures_and_kills_exactly_the_failing_rows_are_null_and_recorded(dice: random.Random) -> None:
    with short_folder() as folder, open_database(folder) as database:
        numbers = pa.array(range(ROWS), pa.int64())
        table = database.create_table("t", pa.table({"key": numbers[:600], "x": numbers[:600]}))
        table.add(pa.table({"key": numbers[600:], "x": numbers[600:]}))
        table.add_columns({"y": brittle(x=col("x"))})
        for round_ in range(ROUNDS):
            table.update(f"key % 2 = {round_ % 2}", values_sql={"x": "x + 2000"})
            refresh_under_fire(folder, dice)
            table.refresh_column_async(
                "y", error_policy="skip", retry_failed=True, max_worker_losses=1, part_target_seconds=0.05
            ).wait()
            check(table)
