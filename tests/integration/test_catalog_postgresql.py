"""What a catalog in PostgreSQL has of its own: schemas, passwords, and a server that may be away."""

from __future__ import annotations

import subprocess
import sys
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pyarrow as pa
import pytest
from agents import AgentProcess, eventually
from postgresql_server import PostgresqlServer, running
from refresh_kit import PATIENCE_SECONDS, Calls, Gate, by_key, gated, open_database, reference, short_folder

from lancegpu_sql import col, connect
from lancegpu_sql.catalog.migrations import history
from lancegpu_sql.catalog.models import EventDraft, JobRecord
from lancegpu_sql.catalog.store import Catalog
from lancegpu_sql.errors import CatalogError, InvalidInput, JobNotFound
from lancegpu_sql.settings import Settings

SECRET = "hush%40hush"


@pytest.fixture
def database() -> str:
    return uuid.uuid4().hex


# --- where it stands


def test_each_database_has_a_catalog_of_its_own_on_one_server(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    url = postgresql_server.url()
    with connect(tmp_path / "a", catalog=url) as a, connect(tmp_path / "b", catalog=url) as b:
        a._services.catalog.add_event("x", "only a", "")
        assert [event.kind for event in b.list_events()] == []
    with connect(tmp_path / "a", catalog=url) as again:
        assert [event.kind for event in again.list_events()] == ["only a"]


def test_a_moved_folder_keeps_its_catalog(postgresql_server: PostgresqlServer, tmp_path: Path) -> None:
    with connect(tmp_path / "here", catalog=postgresql_server.url()) as db:
        db._services.catalog.add_event("x", "before", "")
    (tmp_path / "here").rename(tmp_path / "there")
    with connect(tmp_path / "there", catalog=postgresql_server.url()) as db:
        assert [event.kind for event in db.list_events()] == ["before"]


def test_the_variable_names_it_as_well(
    postgresql_server: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCEGPU_CATALOG", postgresql_server.url())
    with connect(tmp_path / "db") as db:
        assert db._services.catalog.place.startswith("postgresql+psycopg://")
    assert not (tmp_path / "db" / ".lancegpu" / "catalog.sqlite").exists()


def test_a_database_is_not_opened_beside_its_catalog(postgresql_server: PostgresqlServer, tmp_path: Path) -> None:
    url = postgresql_server.url().replace("postgres@", f"postgres:{SECRET}@")
    connect(tmp_path / "db", catalog=url).close()
    with pytest.raises(InvalidInput, match=r"is in PostgreSQL, at postgresql\+psycopg://postgres:\*\*\*@/postgres"):
        connect(tmp_path / "db")
    assert not any(SECRET in path.read_text() for path in (tmp_path / "db" / ".lancegpu").iterdir() if path.is_file())


def test_a_server_without_the_databases_catalog_is_refused(postgresql_server: PostgresqlServer, tmp_path: Path) -> None:
    connect(tmp_path / "db", catalog=postgresql_server.url()).close()
    with pytest.raises(CatalogError, match=r"holds no catalog of this database .*, which was at .*/postgres"):
        connect(tmp_path / "db", catalog=postgresql_server.url(database="template1"))


def test_a_database_whose_catalog_is_a_file_is_not_opened_with_another(
    postgresql_server: PostgresqlServer, tmp_path: Path
) -> None:
    connect(tmp_path / "db").close()
    with pytest.raises(InvalidInput, match=r"is the file .*catalog\.sqlite: its Functions and jobs are there"):
        connect(tmp_path / "db", catalog=postgresql_server.url())


def test_an_object_store_is_refused_with_the_catalog_that_it_needs() -> None:
    with pytest.raises(InvalidInput, match=r"catalog='postgresql://user@host/name'\)"):
        connect("s3://bucket/shop")


# --- many at once

OPEN = """
import sys
from lancegpu_sql.catalog.store import Catalog

sys.stdin.read()  # all begin together
Catalog.open(sys.argv[1], database=sys.argv[2]).close()
"""


def test_tables_are_made_once_when_several_come_first(postgresql_server: PostgresqlServer, database: str) -> None:
    command = [sys.executable, "-c", OPEN, postgresql_server.url(), database]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    told = postgresql_server.run(f"SELECT version FROM lancegpu_{database}.catalog_schema")
    assert told.split() == [str(history.CURRENT_VERSION)]


def test_a_change_waits_for_another_and_no_longer_than_it_should(
    postgresql_server: PostgresqlServer, database: str
) -> None:
    with (
        Catalog.open(postgresql_server.url(), database=database) as first,
        Catalog.open(postgresql_server.url(), busy_timeout_seconds=0.05, database=database) as second,
    ):
        with first._connection.writing(), pytest.raises(CatalogError, match="locked for too long") as caught:
            second.add_event("x", "refused", "")
        assert caught.value.retryable
        second.add_event("x", "kept", "")
        assert [event.kind for event in first.events()] == ["kept"]


def test_what_one_look_reads_is_of_one_moment(postgresql_server: PostgresqlServer, database: str) -> None:
    with Catalog.open(postgresql_server.url(), database=database) as catalog:
        with catalog._connection.reading() as connection:
            count = "SELECT count(*) FROM events"
            before = connection.exec_driver_sql(count).scalar_one()
            catalog.add_event("x", "meanwhile", "")
            assert connection.exec_driver_sql(count).scalar_one() == before
        assert len(catalog.events()) == 1


# --- what it can hold


def test_texts_may_be_long_and_hold_any_character(postgresql_server: PostgresqlServer, database: str) -> None:
    with Catalog.open(postgresql_server.url(), database=database) as catalog:
        catalog.add_proofs("t" * 1000, [b"1"])
        job = JobRecord.new("refresh_column", table="t" * 1000)
        catalog.add_job(job, [EventDraft(kind="failed", message="a\0b", detail={"text": "a\0b"})])
        (event,) = catalog.events()
        assert (event.message, event.detail) == ("a␀b", {"text": "a\0b"})
        assert catalog.job(job.id).table == "t" * 1000
        with pytest.raises(JobNotFound):
            catalog.job("\0")


# --- what can go wrong


def test_a_newer_catalog_is_refused(postgresql_server: PostgresqlServer, database: str) -> None:
    Catalog.open(postgresql_server.url(), database=database).close()
    postgresql_server.run(f"UPDATE lancegpu_{database}.catalog_schema SET version = 99")
    with pytest.raises(CatalogError, match=r"schema version 99.*Upgrade lancegpu-sql"):
        Catalog.open(postgresql_server.url(), database=database)


def test_a_server_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="its server does not answer; check that it runs") as caught:
        Catalog.open(f"postgresql://me@/shop?host={tmp_path}")
    assert caught.value.retryable


def test_a_wrong_password_is_told_and_not_shown(postgresql_server: PostgresqlServer) -> None:
    postgresql_server.run("DROP ROLE IF EXISTS guarded", "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    with pytest.raises(CatalogError, match="does not take this user with this password") as caught:
        Catalog.open(postgresql_server.url(f"guarded:{SECRET}"))
    assert not caught.value.retryable
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_user_without_the_right_is_told_which(postgresql_server: PostgresqlServer, database: str) -> None:
    postgresql_server.run("DROP ROLE IF EXISTS humble", "CREATE ROLE humble LOGIN")
    with pytest.raises(CatalogError, match=r"GRANT CREATE ON DATABASE .*permission denied"):
        Catalog.open(postgresql_server.url("humble"), database=database)


def test_a_database_that_is_not_there_is_told(postgresql_server: PostgresqlServer) -> None:
    with pytest.raises(CatalogError, match=r'make it \(createdb, createuser\).*"nowhere" does not exist'):
        Catalog.open(postgresql_server.url(database="nowhere"))


def test_a_url_that_cannot_be_read_is_told_without_its_password() -> None:
    with pytest.raises(CatalogError, match="neither a path nor a URL") as caught:
        Catalog.open(f"postgresql://me:{SECRET}@host:port/shop")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_another_kind_of_server_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be kept in 'mysql'"):
        Catalog.open("mysql://me@host/shop")


@pytest.mark.parametrize("url", [f"postgresql://me:{SECRET}@h/x", f"postgresql://h/x?user=me&password={SECRET}&a=1"])
def test_settings_show_no_password(url: str) -> None:
    settings = Settings.load({}, catalog=url)
    assert "hush" not in f"{settings!r} {settings}"
    assert settings.catalog == url


def test_a_catalog_goes_on_when_its_server_was_started_anew(postgresql_server: PostgresqlServer, database: str) -> None:
    with (
        running(postgresql_server.programs) as server,
        Catalog.open(server.url(), database=database) as catalog,
        ThreadPoolExecutor(1) as threads,
    ):
        catalog.add_event("x", "before", "")
        server.stop()
        look = threads.submit(catalog.events)
        assert wait([look], timeout=0.3).not_done
        server.start()
        assert [event.kind for event in look.result()] == ["before"]


def test_a_server_that_stays_away_is_waited_for_once(postgresql_server: PostgresqlServer, database: str) -> None:
    with (
        running(postgresql_server.programs) as server,
        Catalog.open(server.url(), database=database, busy_timeout_seconds=0.2) as catalog,
    ):
        server.stop()
        for _ in range(2):
            with pytest.raises(CatalogError, match="does not answer") as caught:
                catalog.events()
        assert caught.value.retryable
        server.start()
        assert catalog.events() == []


def test_a_job_goes_on_while_the_server_is_away(postgresql_server: PostgresqlServer) -> None:
    with running(postgresql_server.programs) as server, short_folder() as folder:
        calls, gate = Calls(folder / "calls"), Gate(folder / "gate")
        with open_database(folder, catalog=server.url()) as db, AgentProcess(folder, catalog=server.url()):
            keys = pa.array(range(60), pa.int64())
            table = db.create_table("t", pa.table({"key": keys, "x": keys}))
            table.add_columns({"y": gated(calls, gate)(key=col("key"), x=col("x"))})
            gate.arm()
            job = table.refresh_column("y", wait=False, batch_size=5)
            gate.wait_for_call()
            server.stop()
            gate.open()
            eventually(calls.waiting, lambda made: made == 60)
            server.start()
            job.wait(PATIENCE_SECONDS)
            assert by_key(table) == {key: reference(key) for key in range(60)}
            assert calls.waiting() == 60
        gate.close()
