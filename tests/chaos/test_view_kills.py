"""Refreshes of views in processes that are killed at random moments: a rerun gives the queries' rows, and computes little twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, Calls, open_database, reference, short_folder

from lancegpu_sql import function
from lancegpu_sql.database import Database

ROUNDS = 100 if os.environ.get("TEST_LENGTH") == "full" else 5
ROWS = 200
VIEWS = {
    "made": "SELECT key, slow(key, x) AS y FROM t WHERE key % 10 <> 7",
    "sums": "SELECT slow(key, x) % 3 AS part, count(*) AS n, sum(key) AS keys FROM t GROUP BY ALL",
    "upon": "SELECT count(y) AS n FROM made",
}

# Refreshes in a process of its own, results being kept every other call or so; says when it begins, and how it ended.
PROGRAM = """
import sys
import lancegpu_sql as lg
folder, *views = sys.argv[1:]
db = lg.connect(folder + "/db", runtime_folder=folder + "/run", progress="quiet", part_target_seconds=0.05)
print("begins", flush=True)
for view in views:
    db.open_materialized_view(view).refresh(cascade=True, batch_size=5, max_workers=1)
print("ended", flush=True)
db.close()
"""


def slow(calls: Calls) -> Any:
    """A Function that notes the inputs that it is called for, and takes its time for each."""
    path = str(calls.path)

    @function(name="slow")
    def noted(key: int, x: int) -> int | None:
        time.sleep(0.002)
        with Path(path).open("a") as file:
            file.write(f"{key * 1_000_000 + x}\n")
        return None if x % 7 == 0 else x * 10

    return noted


class Chaos:
    """A table, views of it, and processes that refresh them."""

    def __init__(self, folder: Path, db: Database, dice: random.Random) -> None:
        self.folder, self.db, self.dice = folder, db, dice
        self.calls = Calls(folder / "calls")
        self.table = db.create_table("t", pa.table({"key": range(ROWS), "x": range(ROWS)}))
        db.create_function(slow(self.calls))
        for name, query in VIEWS.items():
            db.create_materialized_view(name, query, with_no_data=True)
        self.seen: set[int] = set()

    def change(self) -> None:
        """Do something to the table, as anybody may."""
        some = self.dice.randrange(5)
        self.table.update(f"key % 5 = {some}", values_sql={"x": "x + 1000"})
        what = self.dice.choice(["delete", "add", "compact", "restore", "fill", "nothing"])
        if what == "delete":
            self.table.delete(f"key % 40 = {self.dice.randrange(40)}")
        elif what == "add":
            keys = [self.dice.randrange(ROWS, 5 * ROWS) for _ in range(20)]
            self.db.sql(f"INSERT INTO t (key, x) VALUES {', '.join(f'({key}, 1)' for key in keys)}")
        elif what == "compact":
            self.db.sql("OPTIMIZE TABLE t")
        elif what == "restore":
            versions = [one.version for one in self.table.list_versions()]
            self.table.restore(self.dice.choice(versions[-4:]))
        elif what == "fill" and "extra" not in self.table.schema.names:
            self.table.add_columns({"extra": "x + 1"})

    def inputs(self) -> dict[int, list[int]]:
        """The inputs of the Function by key; a key may be in several rows."""
        found: dict[int, list[int]] = {}
        for row in self.table.to_arrow(["key", "x"]).to_pylist():
            found.setdefault(row["key"], []).append(row["x"])
        return found

    def due(self) -> set[int]:
        """The inputs that were never computed by a refresh that ended."""
        present = {key * 1_000_000 + x for key, some in self.inputs().items() for x in some}
        return present - self.seen

    def start(self) -> subprocess.Popen[str]:
        """Start refreshes of all views, and return when they begin."""
        views = self.dice.sample(["sums", "upon"], 2)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.folder), *views], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        return process

    def check(self) -> None:
        """Each view has the rows that its query gives, by what the Function is known to make of its inputs."""
        rows = [(key, reference(x)) for key, some in self.inputs().items() for x in some]
        made = sorted((row for row in rows if row[0] % 10 != 7), key=repr)
        assert sorted(self.db.sql("FROM made").fetchall(), key=repr) == made
        assert self.db.sql("FROM upon").fetchall() == [(sum(y is not None for _, y in made),)]
        parts = {None if y is None else y % 3 for _, y in rows}
        keys = {part: [key for key, y in rows if (None if y is None else y % 3) == part] for part in parts}
        sums = {part: (n, total) for part, n, total in self.db.sql("FROM sums").fetchall()}
        assert sums == {part: (len(some), sum(some)) for part, some in keys.items()}


@pytest.fixture
def chaos(dice: random.Random) -> Iterator[Chaos]:
    with short_folder() as folder, open_database(folder) as db:
        yield Chaos(folder, db, dice)


@pytest.mark.timeout(3600 if ROUNDS > 5 else 300)
def test_views_are_right_after_kills_and_little_is_computed_twice(chaos: Chaos) -> None:
    all_due = all_calls = 0
    for _ in range(ROUNDS):
        chaos.change()
        due = chaos.due()
        chaos.calls.take()
        process = chaos.start()
        wanted = chaos.dice.randrange(len(due) // 2, len(due) + 1)
        while process.poll() is None and chaos.calls.waiting() < wanted:
            time.sleep(0.001)
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
        for view in ("sums", "upon"):
            chaos.db.open_materialized_view(view).refresh(cascade=True)
        chaos.check()
        calls = chaos.calls.take()
        assert set(calls) == due, "an input was not computed, or one that was kept was"
        chaos.seen |= due
        all_due, all_calls = all_due + len(due), all_calls + calls.total()
    print(f"{all_calls:,} calls for {all_due:,} inputs and {ROUNDS} kills")
    assert all_calls <= 1.5 * all_due, "what was kept was computed again"
