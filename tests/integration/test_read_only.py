"""A database in a folder that cannot be written is read as ever, and says what it cannot do."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from disks import Disk, mounted
from postgresql_server import PostgresqlServer
from refresh_kit import Calls, by_key, noting, open_database, short_folder

from lancegpu_sql import col, function
from lancegpu_sql.database import Database
from lancegpu_sql.errors import CatalogError, StorageError

READ = "SELECT key, twice(y) AS z FROM t ORDER BY key"


@pytest.fixture
def disk() -> Iterator[Disk]:
    with mounted() as disk:
        yield disk


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@function
def twice(y: int) -> int:
    return 2 * y


def fill(db: Database, calls: Calls) -> None:
    noted = noting(calls)
    table = db.create_table("t", {"key": [1, 2, 3], "x": [1, 2, 3]})
    db.create_function(noted)
    db.create_function(twice)
    table.add_columns({"y": noted(col("key"), col("x"))})
    table.refresh_column("y")
    assert by_key(table) == {1: 10, 2: 20, 3: 30}


@pytest.fixture(scope="module")
def made() -> Iterator[Disk]:
    """The disk of a database that was made before it was locked."""
    with mounted() as disk, short_folder() as folder:
        with open_database(disk.folder, runtime_folder=folder / "run") as db:
            fill(db, Calls(disk.folder / "calls"))
        disk.lock()
        yield disk


@pytest.fixture
def locked(made: Disk, elsewhere: Path) -> Iterator[Database]:
    before = made.content()
    with open_database(made.folder, runtime_folder=elsewhere / "run") as db:
        yield db
    assert made.content() == before


def test_queries_with_functions_columns_and_what_is_known_are_read(locked: Database) -> None:
    assert locked.sql(READ).to_arrow()["z"].to_pylist() == [20, 40, 60]
    assert [one.name for one in locked.list_functions()] == ["noting", "twice"]
    assert [job.kind for job in locked.list_jobs()].count("refresh_column") == 1


CHANGES: list[Callable[[Database], Any]] = [
    lambda db: db.create_table("u", {"id": [1]}),
    lambda db: db.open_table("t").add({"key": [4], "x": [4]}),
    lambda db: db.sql("UPDATE t SET x = 5 WHERE key = 1"),
    lambda db: db.sql("DELETE FROM t WHERE key = 1"),
    lambda db: db.drop_table("t"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_tables_are_not_changed(locked: Database, change: Callable[[Database], Any]) -> None:
    with pytest.raises(StorageError, match="Read-only file system"):
        change(locked)
    assert locked.sql("SELECT key, x FROM t").to_arrow().to_pydict() == {"key": [1, 2, 3], "x": [1, 2, 3]}


def test_nothing_is_computed_for_a_table_that_could_not_take_it(locked: Database) -> None:
    for refresh in (lambda: locked.open_table("t").refresh_column("y", where="true"), locked.run_agent):
        with pytest.raises(StorageError, match=r"can only be read here.*Queries work"):
            refresh()
    assert [job.kind for job in locked.list_jobs()].count("refresh_column") == 1


def test_functions_and_schedules_are_not_changed(locked: Database, elsewhere: Path) -> None:
    for change in (
        lambda: locked.create_function(noting(Calls(elsewhere / "calls"), "other")),
        lambda: locked.alter_function("noting", cpus=2),
        lambda: locked.open_table("t").set_schedule("y", "on change"),
    ):
        with pytest.raises(CatalogError, match="can only be read here"):
            change()


def test_what_an_open_database_had_not_put_into_its_file_yet_is_read(disk: Disk, elsewhere: Path) -> None:
    left = """
import os, sys
from lancegpu_sql import connect
db = connect(sys.argv[1])
db.create_table("t", {"id": [1]})
db._services.catalog.add_event("x", "in the log", "")
os._exit(0)  # SQLite's log stays
"""
    subprocess.run([sys.executable, "-c", left, str(disk.folder / "db")], check=True)
    assert (disk.folder / "db" / ".lancegpu" / "catalog.sqlite-wal").stat().st_size
    disk.lock()
    with open_database(disk.folder, runtime_folder=elsewhere / "run") as db:
        assert [event.kind for event in db.list_events()] == ["in the log"]


def test_a_folder_of_lancedb_is_read(disk: Disk, elsewhere: Path) -> None:
    lance.write_dataset(pa.table({"id": [1, 2]}), disk.folder / "db" / "theirs.lance")
    disk.lock()
    with open_database(disk.folder, runtime_folder=elsewhere / "run") as db:
        assert db.sql("SELECT sum(id) AS s FROM theirs").to_arrow()["s"].to_pylist() == [3]


def test_with_its_catalog_in_postgresql_it_is_read_as_well(
    disk: Disk, elsewhere: Path, postgresql_server: PostgresqlServer
) -> None:
    settings = {"runtime_folder": elsewhere / "run", "catalog": postgresql_server.url()}
    with open_database(disk.folder, **settings) as db:
        fill(db, Calls(elsewhere / "calls"))
    disk.lock()
    with open_database(disk.folder, **settings) as db:
        assert db.sql(READ).to_arrow()["z"].to_pylist() == [20, 40, 60]
        with pytest.raises(StorageError, match="can only be read here"):
            db.open_table("t").refresh_column("y")


def test_nothing_stays_behind(locked: Database) -> None:
    made = locked._services.folder
    assert made.parent == Path(tempfile.gettempdir())
    locked.close()
    assert not made.exists()


def test_a_folder_that_is_not_there_and_cannot_be_made_is_told(disk: Disk) -> None:
    disk.lock()
    with pytest.raises(StorageError, match="must be a folder that you may write to"), open_database(disk.folder / "no"):
        pass
