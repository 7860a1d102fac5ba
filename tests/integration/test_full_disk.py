"""A disk without room: whatever was asked for is refused with these words, nothing is half done, and it works with room."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from disks import Disk, mounted
from postgresql_server import PostgresqlServer
from refresh_kit import open_database, short_folder

from lancegpu_sql import col, function
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.database import Database
from lancegpu_sql.errors import CatalogError, StorageError

ROWS = {"id": list(range(2000)), "text": ["some words"] * 2000}


@function
def padded(x: int) -> str:
    return str(x) * 200


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with mounted(16) as disk:
        yield disk


@pytest.fixture(scope="module")
def made(disk: Disk) -> Iterator[Database]:
    with short_folder() as folder, open_database(disk.folder, runtime_folder=folder / "run") as db:
        table = db.create_table("t", ROWS)
        db.create_function(padded)
        table.add_columns({"y": padded(x=col("id"))})
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, padded(id + 1) AS z FROM t WHERE id < 500")
        db.sql("SELECT padded(id) FROM t LIMIT 1").to_arrow()  # the worker is there
        yield db


CHANGES: list[Callable[[Database], Any]] = [
    lambda db: db.create_table("u", ROWS),
    lambda db: db.open_table("t").add(ROWS),
    lambda db: db.open_table("t").update(values_sql={"text": "'other'"}),
    lambda db: db.open_table("t").delete("id = 5"),
    lambda db: db.sql("UPDATE t SET text = text || '!'"),
    lambda db: db.sql("MERGE INTO t USING (SELECT 9999 AS id) n USING (id) WHEN NOT MATCHED THEN INSERT BY NAME"),
    lambda db: db.sql("ALTER TABLE t ADD COLUMN more BIGINT"),
    lambda db: db.sql("REFRESH MATERIALIZED VIEW v"),
]


def state(db: Database) -> object:
    """What readers see."""
    return db.table_names(), {name: db.open_table(name).version for name in ("t", "v")}, db.open_table("t").to_arrow()


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_is_half_done(disk: Disk, made: Database, change: Callable[[Database], Any]) -> None:
    before = state(made)
    disk.fill()
    try:
        with pytest.raises((StorageError, CatalogError), match=r"[Nn]o space|disk is full|full, over quota"):
            change(made)
        assert state(made) == before
    finally:
        disk.make_room()
    change(made)
    assert state(made) != before


def write_on(catalog: Catalog) -> None:
    for _ in range(100):
        catalog.add_event("x", "refused", "words " * 100_000)


def test_a_full_disk_of_the_postgresql_server_is_told_and_passes(
    postgresql_server: PostgresqlServer,
) -> None:
    name = f"small_{uuid.uuid4().hex[:8]}"
    with mounted(4) as disk:
        place = disk.folder / "space"
        place.mkdir()
        own = postgresql_server.folder.stat()
        for folder in (disk.folder, place):
            os.chown(folder, own.st_uid, own.st_gid)
        postgresql_server.run(f"CREATE TABLESPACE {name} LOCATION '{place}'")
        url = f"{postgresql_server.url()}&options=-c%20default_tablespace%3D{name}"
        database = uuid.uuid4().hex
        with Catalog.open(url, database=database) as catalog:
            catalog.add_event("x", "kept", "")
            disk.fill()
            told = r"the server's disk is full\. What was committed is kept"
            with pytest.raises(CatalogError, match=told) as caught:
                write_on(catalog)
            assert caught.value.retryable
            written = len(catalog.events())
            disk.make_room()
            catalog.add_event("x", "kept", "")
            assert len(catalog.events()) == written + 1
        postgresql_server.run(f"DROP SCHEMA lancegpu_{database} CASCADE", f"DROP TABLESPACE {name}")
