"""What refreshes leave behind is bounded, and a process that forked off leaves the parent's alone."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import Calls, Gate, gated, noting, open_database, short_folder

from lancegpu_sql import col
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import Database, Table


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.fixture
def shop(folder: Path) -> Iterator[Database]:
    with open_database(folder) as opened:
        yield opened


def column(shop: Database, function: object, rows: int = 6) -> Table:
    table = shop.create_table("items", pa.table({"key": range(1, rows + 1), "x": range(1, rows + 1)}))
    table.add_columns({"y": function(key=col("key"), x=col("x"))})  # type: ignore[operator]
    return table


def proofs(folder: Path, table: Table) -> int:
    with Catalog.open(folder / "db" / ".lancegpu" / "catalog.sqlite") as catalog:
        declared = table._snapshot().computed[0]
        keys = [key for key in catalog_keys(catalog) if key.startswith(f"{table.name}/{declared.proof_column}/")]
        return sum(len(catalog.proven(key)) for key in keys)


def catalog_keys(catalog: Catalog) -> set[str]:
    with closing(sqlite3.connect(catalog.place)) as connection:
        return {key for (key,) in connection.execute("SELECT DISTINCT column_key FROM proofs")}


def test_proofs_do_not_grow_with_the_number_of_refreshes(folder: Path, shop: Database) -> None:
    table = column(shop, noting(Calls(folder / "calls")))
    for number in range(40):
        table.update("key = 1", values={"x": 100 + number})
        table.refresh_column("y")
        table.optimize()
    assert 0 < proofs(folder, table) <= 72


def test_a_dropped_table_leaves_no_proofs(folder: Path, shop: Database) -> None:
    column(shop, noting(Calls(folder / "calls"))).refresh_column("y")
    shop.drop_table("items")
    with Catalog.open(folder / "db" / ".lancegpu" / "catalog.sqlite") as catalog:
        assert catalog_keys(catalog) == set()


def test_a_publication_that_lost_a_fragment_leaves_no_file_behind(folder: Path, shop: Database) -> None:
    gate = Gate(folder / "gate")
    with closing(gate):
        table = column(shop, gated(Calls(folder / "calls"), gate))
        gate.arm()
        job = table.refresh_column_async("y")
        gate.wait_for_call()
        table.add([{"key": 7, "x": 7}])
        table.optimize(cleanup_older_than=None)
        gate.open()
        assert job.wait().rows_remaining == 0
    data = folder / "db" / "items.lance" / "data"
    named = {file.path for version in table.list_versions() for file in files_of(shop, version.version)}
    assert {file.name for file in data.iterdir()} <= named


def files_of(shop: Database, version: int) -> list[object]:
    snapshot = shop._services.tables.open("items", version)
    return [file for fragment in snapshot.fragments for file in fragment.files]


FORKING = """
import os, sys, warnings
from pathlib import Path
import pytest
from refresh_kit import Calls, noting, open_database
from lancegpu_sql import col
from lancegpu_sql.errors import Conflict

warnings.simplefilter("ignore")  # Lance warns of forks
folder = Path(sys.argv[1])
with open_database(folder) as shop:
    table = shop.create_table("items", [{"key": 1, "x": 1}])
    table.add_columns({"y": noting(Calls(folder / "calls"))(key=col("key"), x=col("x"))})
    table.refresh_column("y")
    assert shop.sql("SELECT sum(x) FROM items").fetchall() == [(1,)]
    child = os.fork()
    if child == 0:
        assert shop.sql("SELECT sum(x) FROM items").fetchall() == [(1,)]
        with pytest.raises(Conflict, match="forked off one that had used workers"):
            shop.sql("SELECT noting(key, x + 1) FROM items").fetchall()
        shop.close()
        sys.exit()  # all the way: what is forgotten must not be ended by the interpreter either
    assert os.waitpid(child, 0)[1] == 0
    table.add([{"key": 2, "x": 2}])
    job = table.refresh_column_async("y")
    assert job.wait().rows_assigned == 1
    assert not any(event.kind == "worker_lost" for event in job.events())
"""


def test_closing_in_a_process_that_forked_off_leaves_the_parents_workers_alone(folder: Path) -> None:
    tests = str(Path(__file__).parents[1])
    run = [sys.executable, "-c", FORKING, str(folder)]
    done = subprocess.run(run, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
