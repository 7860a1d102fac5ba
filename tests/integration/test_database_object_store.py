"""A database in an object store, its catalog in PostgreSQL: as in a folder, from every host, and when the store refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from agents import AgentProcess, eventually
from object_store import ACCESS_KEY, SECRET, FaultyWay, S3Server, faulty_way
from postgresql_server import PostgresqlServer
from refresh_kit import PATIENCE_SECONDS, Calls, by_key, noting, reference, short_folder

from lancegpu_sql import col, connect, function
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database
from lancegpu_sql.errors import CatalogError, InvalidInput, StorageError
from lancegpu_sql.tables.files import object_session

ROWS = {"key": list(range(1, 41)), "x": list(range(1, 41))}
VALUES = {key: reference(key) for key in range(1, 41)}


class Shop:
    """One database, opened by any host: each has a state folder of its own."""

    def __init__(self, server: S3Server, catalog: str, folder: Path) -> None:
        self.server, self.catalog, self.folder = server, catalog, folder
        self.uri = server.uri()
        self.calls = Calls(folder / "calls")

    def open(self, host: str = "one", endpoint: str | None = None, **settings: Any) -> Database:
        usual = {"runtime_folder": self.folder / "run", "progress": "quiet", "max_workers": 1, "max_part_rows": 10}
        return connect(
            self.uri,
            catalog=self.catalog,
            storage_options=self.server.options(endpoint) | {"client_max_retries": "0"},
            state_folder=self.folder / host,
            **(usual | settings),
        )

    def variables(self, host: str = "one") -> dict[str, str]:
        """The same as settings in the environment."""
        options = self.server.options() | {"aws_secret_access_key": "env:THE_SECRET"}
        return {
            "LANCEGPU_CATALOG": self.catalog,
            "LANCEGPU_STORAGE_OPTIONS": ", ".join(f"{name}={text}" for name, text in options.items()),
            "LANCEGPU_STATE_FOLDER": str(self.folder / host),
            "LANCEGPU_RUNTIME_FOLDER": str(self.folder / "run"),
            "THE_SECRET": SECRET,
        }

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What becomes of a command on the same database."""
        return subprocess.run(
            [sys.executable, "-m", "lancegpu_sql.cli", "--db", self.uri, *words],
            env=os.environ | self.variables(), check=False, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture
def shop(s3_server: S3Server, postgresql_server: PostgresqlServer) -> Iterator[Shop]:
    with short_folder() as folder:
        yield Shop(s3_server, postgresql_server.url(), folder)


@pytest.fixture
def way(s3_server: S3Server) -> Iterator[FaultyWay]:
    with faulty_way(s3_server) as way:
        yield way


def with_column(db: Database, calls: Calls) -> Any:
    """A table of forty rows whose column y is to be computed."""
    table = db.create_table("t", ROWS)
    function = noting(calls)
    db.create_function(function)
    table.add_columns({"y": function(col("key"), col("x"))})
    return table


# --- as in a folder


def test_tables_functions_columns_and_views_work_as_in_a_folder(shop: Shop) -> None:
    with shop.open() as db:
        with_column(db, shop.calls)
        assert db.sql("SELECT sum(noting(key, x)) AS s FROM t WHERE key < 5").to_arrow()["s"].to_pylist() == [100]
        assert db.sql("REFRESH COLUMN y ON t").to_arrow()["rows_assigned"].to_pylist() == [40]
        db.sql("UPDATE t SET x = 100 WHERE key = 1")
        db.sql("DELETE FROM t WHERE key = 2")
        db.sql("MERGE INTO t USING (SELECT 50 AS key, 50 AS x) n USING (key) WHEN NOT MATCHED THEN INSERT BY NAME")
        assert db.sql("REFRESH COLUMN y ON t").to_arrow()["rows_assigned"].to_pylist() == [2]
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT key, y, noting(key, y) AS z FROM t")
        db.sql("REFRESH MATERIALIZED VIEW v")
        db.sql("DELETE FROM t WHERE key > 3")
        db.sql("REFRESH MATERIALIZED VIEW v")
        assert db.sql("SELECT key, y, z FROM v ORDER BY key").to_arrow().to_pylist() == [
            {"key": 1, "y": 1000, "z": 10_000},
            {"key": 3, "y": 30, "z": 300},
        ]
        assert db.open_table("t").optimize().versions_removed == 0  # none is a week old
        assert db.table_names() == ["t", "v"]
        db.sql("DROP MATERIALIZED VIEW v")
        db.sql("DROP TABLE t")
        assert db.table_names() == []


def test_another_tool_opens_its_tables(shop: Shop) -> None:
    with shop.open() as db:
        db.create_table("t", {"id": [1, 2]})
    found = lance.dataset(f"{shop.uri}/t.lance", storage_options=shop.server.options())
    assert found.to_table().to_pydict() == {"id": [1, 2]}


def test_every_host_opens_the_same_database(shop: Shop) -> None:
    with shop.open("one") as db:
        with_column(db, shop.calls)
    with shop.open("two") as db:
        assert [one.name for one in db.list_functions()] == ["noting"]
        db.open_table("t").refresh_column("y")
        assert by_key(db.open_table("t")) == VALUES


def test_it_is_not_opened_with_a_catalog_that_is_not_its_own(shop: Shop, postgresql_server: PostgresqlServer) -> None:
    shop.open().close()
    shop.catalog = postgresql_server.url(database="template1")
    with pytest.raises(CatalogError, match="holds no catalog of this database"):
        shop.open()


def test_rows_of_merges_at_once_from_two_hosts_are_inserted_once(shop: Shop) -> None:
    with shop.open("one") as db, shop.open("two") as other, ThreadPoolExecutor(2) as pool:
        table = db.create_table("t", {"id": [1]})
        for number in range(10, 14):
            text = f"MERGE INTO t USING (SELECT {number} AS id) n USING (id) WHEN NOT MATCHED THEN INSERT"
            list(pool.map(lambda host, text=text: host.sql(text), [db, other]))
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 10, 11, 12, 13]


def test_a_table_is_compacted_and_versions_stay_on_which_another_host_may_be_writing(shop: Shop) -> None:
    with shop.open() as db:
        table = db.create_table("t", ROWS)
        table.add([{"key": 41, "x": 41}])
        done = table.optimize(cleanup_older_than=timedelta(0))
        assert (done.fragments_before, done.fragments_after, done.versions_removed) == (2, 1, 0)
        assert by_key(table, "x") == {key: key for key in range(1, 42)}


# --- agents and commands


def test_commands_and_agents_take_it_from_variables(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in shop.variables("two").items():
        monkeypatch.setenv(name, text)
    with shop.open() as db, AgentProcess(shop.folder, uri=shop.uri) as agent:
        table = with_column(db, shop.calls)
        assert "t" in shop.command("tables").stdout
        job = table.refresh_column("y", wait=False)
        assert job.wait(PATIENCE_SECONDS).rows_assigned == 40
        assert job.record.owner is not None
        assert job.record.owner.pid == agent.process.pid
        assert SECRET not in agent.told + agent.terminate()


def test_a_command_makes_no_database_by_a_slip_of_the_pen(shop: Shop) -> None:
    done = shop.command("tables")
    assert (done.returncode, "is no database" in done.stderr) == (1, True), done.stderr
    assert shop.command("init").returncode == 0
    assert shop.command("tables").returncode == 0


def test_a_schedule_on_change_follows_a_table_in_the_store(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (shop.variables() | {"LANCEGPU_ON_CHANGE_DEBOUNCE_SECONDS": "0.1"}).items():
        monkeypatch.setenv(name, text)
    with shop.open() as db, AgentProcess(shop.folder, uri=shop.uri):
        table = with_column(db, shop.calls)
        table.set_schedule("y", "on change")
        eventually(lambda: by_key(table), lambda seen: seen == VALUES)
        table.add({"key": [41], "x": [41]})
        eventually(lambda: by_key(table).get(41), lambda seen: seen == reference(41))


# --- a store that refuses


def refuse(way: FaultyWay, status: int, code: str, part: str = "") -> None:
    """Let the store take nothing with this in its name any more."""
    way.fault = lambda request: (status, code) if request.method in ("PUT", "POST") and part in request.path else None


def test_a_store_that_does_not_answer_is_told_by_connect(shop: Shop) -> None:
    with pytest.raises(StorageError, match=r"at http://127\.0\.0\.1:9/shop-bucket: it does not answer") as caught:
        shop.open(endpoint="http://127.0.0.1:9")
    assert caught.value.retryable


def test_a_full_store_fails_the_job_and_the_same_host_computes_nothing_twice(shop: Shop, way: FaultyWay) -> None:
    with shop.open(endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        refuse(way, 507, "QuotaExceeded")
        with pytest.raises(StorageError, match=r"the store is full"):
            table.refresh_column("y")
        (job,) = db.list_jobs()
        assert job.state is JobState.FAILED
        assert "the store is full" in str(job.error)
        assert by_key(table) == dict.fromkeys(range(1, 41))
        assert len(shop.calls.take()) == 40
        refuse(way, 507, "QuotaExceeded", part="nothing")
        assert db.resume_job(job.id).rows_assigned == 40
        assert by_key(table) == VALUES
    assert not shop.calls.take()


def test_what_one_host_computed_another_publishes(shop: Shop, way: FaultyWay) -> None:
    with shop.open("one", endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        refuse(way, 503, "SlowDown", part="/_versions/")
        with pytest.raises(StorageError, match="overloaded"):
            table.refresh_column("y")
    assert len(shop.calls.take()) == 40
    with shop.open("two") as db:
        assert db.open_table("t").refresh_column("y").rows_assigned == 40
        assert by_key(db.open_table("t")) == VALUES
    assert not shop.calls.take()
    left = object_session(shop.uri, shop.server.options()).list(".lancegpu/checkpoints")
    assert left == []


def test_what_was_computed_for_a_column_that_is_gone_goes_too(shop: Shop, way: FaultyWay) -> None:
    with shop.open("one", endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        refuse(way, 503, "SlowDown", part="/_versions/")
        with pytest.raises(StorageError):
            table.refresh_column("y")
        refuse(way, 503, "SlowDown", part="nothing")
        table.drop_columns(["y"])
    session = object_session(shop.uri, shop.server.options())
    assert session.list(".lancegpu/checkpoints")
    with shop.open("two") as db:
        db.remove_left_over()
    assert session.list(".lancegpu/checkpoints") == []


def test_a_copy_that_another_host_removed_meanwhile_is_passed_over(shop: Shop, way: FaultyWay) -> None:
    target = shop.folder / "part.arrow"
    with shop.open(endpoint=way.endpoint) as db:
        beside = db._services.tables.beside
        assert beside is not None
        assert not beside.fetch("checkpoints/a/b.arrow", target)
        way.fault = lambda request: (503, "SlowDown")
        with pytest.raises(StorageError, match="overloaded"):
            beside.fetch("checkpoints/a/b.arrow", target)
        way.fault = lambda request: None
    assert not list(shop.folder.glob("part*"))


def test_copies_that_nobody_went_on_with_for_long_go(shop: Shop, way: FaultyWay) -> None:
    with shop.open("one", endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        refuse(way, 503, "SlowDown", part="/_versions/")
        with pytest.raises(StorageError):
            table.refresh_column("y")
    session = object_session(shop.uri, shop.server.options())
    copies = session.list(".lancegpu/checkpoints")
    with shop.open("two") as db:
        assert db.remove_left_over().removed == 0
        assert session.list(".lancegpu/checkpoints") == copies
    with shop.open("two", checkpoint_retention_days=1e-9) as db:
        (step,) = db.remove_left_over(dry_run=True).steps
        assert (step.action, step.count) == ("remove checkpoints", 1)
        assert db.remove_left_over().removed == len(copies)
    assert session.list(".lancegpu/checkpoints") == []


def test_a_store_that_fails_under_a_query_is_told_as_one(shop: Shop, way: FaultyWay) -> None:
    with shop.open(endpoint=way.endpoint) as db:
        db.create_table("t", {"id": list(range(1000))})
        way.fault = lambda request: (503, "SlowDown") if "/data/" in request.path else None
        with pytest.raises(StorageError, match=r"Table 't' .*overloaded"):
            db.sql("SELECT sum(id) FROM t").to_arrow()
        way.fault = lambda request: None
        assert db.sql("SELECT sum(id) AS s FROM t").to_arrow()["s"].to_pylist() == [499_500]


def test_a_slow_store_only_takes_longer(shop: Shop, way: FaultyWay) -> None:
    way.delay_seconds = 0.03
    with shop.open(endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        table.refresh_column("y")
        assert by_key(table) == VALUES


# --- secrets


def test_no_secret_is_kept_or_shown(shop: Shop, postgresql_server: PostgresqlServer, way: FaultyWay) -> None:
    with shop.open(endpoint=way.endpoint) as db:
        table = with_column(db, shop.calls)
        way.fault = lambda request: (403, "SignatureDoesNotMatch") if "/_versions/" in request.path else None
        with pytest.raises(StorageError) as caught:
            table.refresh_column("y")
        shown = repr(db.settings) + "".join(traceback.format_exception(caught.value))
    dumped = subprocess.run(
        [postgresql_server.programs / "pg_dump", postgresql_server.url()], check=True, capture_output=True, text=True
    ).stdout
    kept = [path.read_bytes() for path in (shop.folder / "one").rglob("*") if path.is_file()]
    session = object_session(shop.uri, shop.server.options())
    for name in session.list():
        session.download_file(name, shop.folder / "object")
        kept.append((shop.folder / "object").read_bytes())
    assert kept
    for secret in (SECRET, ACCESS_KEY):
        assert secret not in shown + dumped
        assert not any(secret.encode() in content for content in kept)


def test_workers_do_not_inherit_what_opens_the_store(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    @function
    def sees(x: int) -> bool:
        import os

        return "THE_SECRET" in os.environ

    monkeypatch.setenv("THE_SECRET", SECRET)
    options = shop.server.options() | {"aws_secret_access_key": "env:THE_SECRET"}
    folders = {"state_folder": shop.folder / "one", "runtime_folder": shop.folder / "run"}
    with connect(shop.uri, catalog=shop.catalog, storage_options=options, **folders) as db:
        db.create_function(sees)
        assert db.sql("SELECT sees(1)").fetchall() == [(False,)]


def test_a_variable_that_is_not_set_is_named(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="aws_region is to come from the variable NO_SUCH_VARIABLE"):
        connect(shop.uri, catalog=shop.catalog, storage_options={"aws_region": "env:NO_SUCH_VARIABLE"})


@pytest.mark.parametrize(
    "uri", ["s3://", "s3:///shop", "s3://bucket/a//b", "s3://key:secret@bucket/shop", "s3://b/shop?x=1"]
)
def test_what_is_no_place_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput, match="is no place in an object store"):
        connect(uri, catalog="postgresql://user@host/name")
