"""A database's tables and Functions on a DuckDB connection of the user's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, Calls, noting, open_database, short_folder

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobRecord, JobState
from lancegpu_sql.database import Database
from lancegpu_sql.errors import AlreadyExists, FunctionNotFound, InvalidBinding, InvalidInput, NotFound, TableNotFound

SOON_SECONDS = 5.0  # a second on a machine that has nothing else to do


def shout(text: str | None) -> str | None:
    if text == "bad":
        raise ValueError("a bad text")
    return None if text is None else text.upper()


def rows_at_once(x: pa.Int64Array) -> pa.Int64Array:
    return pa.array([len(x)] * len(x), pa.int64())


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[Database]:
    (folder / "classes.yaml").write_text("gpu_classes: [{name: none, local: {simulated: 0}}]")
    with open_database(folder, gpu_classes=folder / "classes.yaml") as db:
        db.create_table("docs", pa.table({"id": [1, 2, 3], "text": ["a", "bb", None]}))
        db.create_function(shout)
        db.create_function(shout, "nowhere", gpu=True, gpu_class="none")
        db.create_function(rows_at_once)
        db.create_function(noting(Calls(folder / "calls")))
        yield db


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def attached(connection: duckdb.DuckDBPyConnection, database: Database) -> Iterator[lg.Attachment]:
    with lg.attach(connection, database) as attached:
        yield attached


def test_tables_and_functions_stand_beside_the_users_own(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment
):
    connection.execute("CREATE TABLE mine AS SELECT 2 AS id, 'cc' AS more")
    query = "SELECT shout(text || more) FROM docs JOIN mine USING (id) WHERE shout(text) = 'BB'"
    assert connection.execute(query).fetchall() == [("BBCC",)]
    assert connection.execute(
        "SELECT text, count(*) OVER (PARTITION BY shout(text)) FROM docs WHERE id = 3"
    ).fetchall() == [(None, 1)]


def test_functions_are_seen_by_other_connections_to_the_same_duckdb(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment
):
    assert connection.cursor().execute("SELECT shout('x')").fetchone() == ("X",)


def test_equal_arguments_are_computed_once_while_it_is_attached(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment, folder: Path
):
    calls = Calls(folder / "calls")
    for _ in range(2):
        query = "SELECT sum(noting(k, k)) FROM (SELECT i % 5 AS k FROM range(10000) r(i))"
        assert connection.execute(query).fetchone() == (200_000,)
    assert sum(calls.take().values()) == 5


def test_rows_of_several_threads_go_to_a_worker_together(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment
):
    connection.execute("SET threads = 8; CREATE TABLE many AS SELECT range AS i FROM range(1000000)")
    (most,) = connection.execute("SELECT max(rows_at_once(i)) FROM many").fetchone() or (0,)
    assert most > 2_048


def test_a_failing_row_fails_the_query_with_its_arguments_and_the_next_query_runs(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment
):
    with pytest.raises(duckdb.InvalidInputException, match=r"(?s)a bad text.*text='bad'"):
        connection.execute("SELECT shout('bad' || x) FROM (VALUES ('')) v(x)").fetchall()
    assert connection.execute("SELECT TRY(shout(x)) FROM (VALUES ('bad'), ('b')) v(x)").fetchall() == [(None,), ("B",)]


def test_tables_are_read_at_the_version_of_attach_and_of_refresh(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment, database: Database
):
    before = attached.tables["docs"]
    table = database.open_table("docs")
    table.add(pa.table({"id": [4], "text": ["d"]}))
    assert connection.execute("SELECT count(*) FROM docs").fetchone() == (3,)
    attached.refresh()
    assert connection.execute("SELECT count(*) FROM docs").fetchone() == (4,)
    assert attached.tables["docs"] > before
    table.delete("id = 4")


def test_refresh_knows_what_is_new_and_what_is_gone(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment, database: Database
):
    database.create_table("later", pa.table({"x": [1]}))
    database.create_function(shout, "louder")
    attached.refresh()
    assert connection.execute("SELECT louder('x'), x FROM later").fetchone() == ("X", 1)
    database.drop_table("later")
    database.drop_function("louder")
    attached.refresh()
    for query in ("FROM later", "SELECT louder('x')"):
        with pytest.raises(duckdb.CatalogException):
            connection.execute(query)


def test_a_table_cannot_be_written_to(connection: duckdb.DuckDBPyConnection, attached: lg.Attachment):
    with pytest.raises(duckdb.Error):
        connection.execute("INSERT INTO docs VALUES (5, 'e')")


@pytest.mark.parametrize(
    "made", ["CREATE TABLE DOCS (a INTEGER)", "CREATE VIEW docs AS SELECT 1", "CREATE MACRO shout(x) AS x"]
)
def test_a_name_that_is_taken_is_refused_and_nothing_is_attached(
    connection: duckdb.DuckDBPyConnection, database: Database, made: str
):
    connection.execute(made)
    with pytest.raises(AlreadyExists, match=r"\{'(docs|shout)': '(docs|shout)_2'\}"):
        lg.attach(connection, database)
    with pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT rows_at_once(1)")


def test_what_is_chosen_is_attached_under_the_names_it_is_given(
    connection: duckdb.DuckDBPyConnection, database: Database
):
    connection.execute("CREATE TABLE docs (a INTEGER)")
    with lg.attach(connection, database, tables={"docs": "papers"}, functions=["shout"]) as attached:
        assert (list(attached.tables), list(attached.functions)) == (["papers"], ["shout"])
        assert connection.execute("SELECT shout(text) FROM papers WHERE id = 1").fetchone() == ("A",)


def test_what_does_not_exist_is_not_attached(connection: duckdb.DuckDBPyConnection, database: Database):
    with pytest.raises(TableNotFound, match="it has docs"):
        lg.attach(connection, database, tables=["nothing"])
    with pytest.raises(FunctionNotFound):
        lg.attach(connection, database, functions=["nothing"])
    with pytest.raises(InvalidInput, match="takes a connection"):
        lg.attach("docs.duckdb", database)  # type: ignore[arg-type]


def test_detach_takes_all_off_and_leaves_connection_and_database_open(
    connection: duckdb.DuckDBPyConnection, database: Database
):
    attached = lg.attach(connection, database)
    attached.detach()
    attached.detach()
    for query in ("FROM docs", "SELECT shout('x')"):
        with pytest.raises(duckdb.CatalogException):
            connection.execute(query)
    assert connection.execute("SELECT 1").fetchone() == (1,)
    assert database.table_names() == ["docs"]


def test_a_folder_is_opened_and_its_workers_end_with_it(
    connection: duckdb.DuckDBPyConnection, folder: Path, database: Database
):
    with lg.attach(connection, folder / "db", runtime_folder=folder / "run", progress="quiet", worker_idle_seconds=600):
        (worker,) = connection.execute("SELECT shout('x')").fetchone() or (None,)
    assert worker == "X"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("lancegpu attached", "apply"))]


def test_a_result_that_is_not_read_to_its_end_is_in_nobodys_way(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment
):
    for act in (attached.refresh, attached.detach):
        connection.execute("SELECT shout(i::TEXT) FROM range(10000) r(i)").fetchone()
        act()


def test_a_connection_may_be_closed_before_it_is_detached(database: Database):
    connection = duckdb.connect()
    with lg.attach(connection, database):
        connection.close()


def wait_for(found: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if value := found():
            return value
        time.sleep(0.02)
    raise AssertionError("it never came to be")


def when_it_waits(database: Database, act: Callable[[JobRecord], None]) -> threading.Thread:
    """Do something once a job waits."""
    thread = threading.Thread(target=lambda: act(wait_for(lambda: database.list_jobs(states=["waiting"]))[0]))
    thread.start()
    return thread


@pytest.mark.parametrize(
    "query", ["SELECT nowhere(text) FROM docs", "SELECT max(nowhere(i::TEXT)) FROM range(100000) r(i)"]
)
def test_ctrl_c_ends_a_query_that_waits(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment, database: Database, query: str
):
    begun = []

    def interrupt(_job: JobRecord) -> None:
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = when_it_waits(database, interrupt)
    with pytest.raises((duckdb.Error, RuntimeError), match=r"Cancelled|cancelled|[Ii]nterrupt"):
        connection.execute(query).fetchall()
    thread.join()
    assert time.monotonic() - begun[0] < SOON_SECONDS
    assert wait_for(lambda: database.list_jobs(limit=1)[0].state is JobState.CANCELLED)


@pytest.mark.parametrize("way", ["attachment", "job"])
def test_a_query_that_waits_is_cancelled_from_another_thread(
    connection: duckdb.DuckDBPyConnection, attached: lg.Attachment, database: Database, way: str
):
    thread = when_it_waits(
        database, lambda job: attached.cancel() if way == "attachment" else database.cancel_job(job.id)
    )
    with pytest.raises(duckdb.InvalidInputException, match="The query was cancelled"):
        connection.execute("SELECT nowhere(text) FROM docs").fetchall()
    thread.join()
    assert connection.execute("SELECT shout('x')").fetchone() == ("X",)


def test_ctrl_c_is_pythons_own_again_after_the_last_of_several_is_detached(database: Database):
    before = signal.getsignal(signal.SIGINT)
    with duckdb.connect() as one, duckdb.connect() as two:
        first, second = lg.attach(one, database), lg.attach(two, database)
        second.detach()
        first.detach()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def scaled(database: Database) -> Iterator[None]:
    class Scaled:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def __call__(self, x: int) -> int:
            return x * self.factor

    database.create_function(Scaled, "scaled")
    yield
    database.drop_function("scaled")


@pytest.mark.usefixtures("scaled")
def test_a_function_whose_class_needs_values_fails_when_it_is_called(
    connection: duckdb.DuckDBPyConnection, database: Database
):
    with lg.attach(connection, database), pytest.raises(duckdb.Error, match="needs values for factor"):
        connection.execute("SELECT scaled(1)").fetchall()


@pytest.mark.usefixtures("scaled")
def test_a_class_is_made_with_the_values_that_it_is_attached_with(
    connection: duckdb.DuckDBPyConnection, database: Database
):
    def as_scaled(factor: int, name: str) -> lg.Attachment:
        values = {"scaled": {"factor": factor}}
        return lg.attach(connection, database, tables=[], functions={"scaled": name}, values=values)

    with as_scaled(2, "doubled") as attached, as_scaled(3, "tripled"):
        attached.refresh()
        assert connection.execute("SELECT doubled(tripled(7)), doubled(7)").fetchall() == [(42, 14)]


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"scaled": {"factor": "two"}}, InvalidBinding),
        ({"scaled": {"by": 2}}, InvalidBinding),
        ({"shout": {"factor": 2}}, InvalidBinding),
        ({"nothing": {"factor": 2}}, FunctionNotFound),
    ],
)
def test_values_that_do_not_suit_are_refused_and_nothing_is_attached(
    connection: duckdb.DuckDBPyConnection, database: Database, values: dict[str, dict[str, Any]], error: type[Exception]
):
    with pytest.raises(error):
        lg.attach(connection, database, values=values)
    assert connection.execute("SHOW TABLES").fetchall() == []


def test_a_folder_that_is_no_database_is_refused_and_stays_none(tmp_path: Path):
    with pytest.raises(NotFound, match="is no database"):
        lg.attach(duckdb.connect(), tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()
