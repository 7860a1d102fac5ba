"""Materialized views, as people make, refresh and read them; the Function is computed by a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from agents import eventually
from refresh_kit import PATIENCE_SECONDS, Calls, Gate, gated, noting, open_database, reference

from lancegpu_sql import col
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database
from lancegpu_sql.errors import (
    AlreadyExists,
    Cancelled,
    InUse,
    InvalidInput,
    InvalidQuery,
    StaleInput,
    ViewNotFound,
    ViewWrite,
)

KEYS = list(range(12))
MADE = "SELECT key, noting(key, x) AS y FROM t WHERE key <> 3"


@pytest.fixture(scope="module")
def opened(folder: Path, calls: Calls) -> Iterator[Database]:
    with open_database(folder) as db:
        db.create_function(noting(calls))
        yield db


@pytest.fixture
def db(opened: Database, calls: Calls) -> Iterator[Database]:
    """The database with a table, and without what an earlier test left."""
    opened.clear_results()
    opened.create_table("t", pa.table({"key": KEYS, "x": KEYS}))
    calls.take()
    yield opened
    left = [one.view for one in opened.list_materialized_views()]
    while left:
        for view in left:
            try:
                opened.drop_materialized_view(view)
            except InUse:
                continue
        left = [one.view for one in opened.list_materialized_views()]
    for name in opened.table_names():
        opened.drop_table(name)


def rows(db: Database, view: str = "v") -> list[tuple[object, ...]]:
    return sorted(db.sql(f"FROM {view}").fetchall(), key=repr)


def test_a_view_holds_what_its_query_gives(db: Database):
    view = db.create_materialized_view("v", MADE)
    assert rows(db) == sorted(((key, reference(key)) for key in KEYS if key != 3), key=repr)
    assert (view.status.state, view.definition.query) == ("fresh", MADE)


def test_two_columns_of_a_view_may_have_one_name(db: Database):
    db.create_materialized_view("v", "SELECT key, x AS key FROM t WHERE key < 2")
    db.create_materialized_view("w", "SELECT key, sum(x) AS key FROM t WHERE key < 2 GROUP BY ALL")
    assert rows(db, "v") == rows(db, "w") == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "query", ["SELECT *, noting(key, x) AS extra FROM t", "SELECT *, count(*) AS extra FROM t GROUP BY ALL"]
)
def test_a_star_means_the_columns_there_were_when_the_view_was_made(db: Database, query: str):
    view = db.create_materialized_view("v", query)
    db.open_table("t").add_columns({"extra": "x + 1000"})
    db.sql("UPDATE t SET x = 8 WHERE key = 5")
    view.refresh()
    assert view.schema.names == ["key", "x", "extra"]
    assert max(extra for _, _, extra in rows(db) if extra is not None) < 1000


def test_a_refresh_computes_changed_rows_and_no_others(db: Database, calls: Calls):
    view = db.create_materialized_view("v", MADE)
    calls.take()
    db.sql("UPDATE t SET x = 100 WHERE key = 5")
    db.sql("DELETE FROM t WHERE key = 6")
    db.sql("INSERT INTO t VALUES (50, 50)")
    result = view.refresh()
    assert (result.mode, result.rows_assigned, result.rows_removed) == ("incremental", 2, 2)
    assert calls.take().keys() == {5, 50}
    assert rows(db) == sorted(db.sql(MADE).fetchall(), key=repr)


def test_view_without_changes_refreshes_to_no_op(db: Database):
    view = db.create_materialized_view("v", MADE)
    before = view.version
    assert (view.refresh().mode, view.version) == ("no_op", before)


def test_a_query_that_is_not_by_rows_calls_a_function_for_new_inputs_only(db: Database, calls: Calls):
    view = db.create_materialized_view(
        "v", "SELECT y, count(*) AS n FROM (SELECT noting(key, x) AS y FROM t) GROUP BY y"
    )
    calls.take()
    db.sql("INSERT INTO t VALUES (50, 50)")
    result = view.refresh()
    assert (result.mode, result.rows_assigned, result.calls_made) == ("full", 1, 1)
    assert calls.take().keys() == {50}


def test_a_full_refresh_uses_kept_results_until_they_are_cleared(db: Database, calls: Calls):
    view = db.create_materialized_view("v", MADE)
    calls.take()
    assert (view.refresh(full=True).mode, calls.take()) == ("full", {})
    db.clear_results()
    view.refresh(full=True)
    assert calls.take().total() == len(KEYS) - 1


def test_a_refresh_may_be_left_to_an_agent(db: Database):
    db.create_materialized_view("v", MADE, with_no_data=True)
    job = db.open_materialized_view("v").refresh(wait=False)
    assert str(job.status()) == "queued"
    assert db.resume_job(job.id).rows_assigned == len(KEYS) - 1


def test_a_view_on_a_view_is_refreshed_after_it(db: Database):
    db.create_materialized_view("v", MADE)
    db.create_materialized_view("w", "SELECT count(y) AS n FROM v")
    db.sql("INSERT INTO t VALUES (50, 50)")
    assert db.open_materialized_view("w").refresh().mode == "no_op"
    db.sql("REFRESH MATERIALIZED VIEW w WITH (cascade = true)")
    assert rows(db, "w") == db.sql(f"SELECT count(y) FROM ({MADE})").fetchall()


def test_a_view_of_a_stale_column_is_refused_before_anything_is_written(db: Database):
    table = db.open_table("t")
    table.add_columns({"c": db.get_function("noting")(key=col("key"), x=col("x"))})
    table.refresh_column("c")
    view = db.create_materialized_view("v", "SELECT key, c FROM t")
    before = view.version
    table.update("key = 1", {"x": 7})
    with pytest.raises(StaleInput, match=r"view v reads c \(1 row is not current\)"):
        view.refresh()
    assert view.version == before


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS key",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t RENAME COLUMN x TO z",
        "ALTER TABLE t ALTER COLUMN x TYPE DOUBLE",
        "DROP TABLE v",
        "CREATE OR REPLACE TABLE v AS SELECT 1 AS key",
        "DROP FUNCTION noting",
    ],
)
def test_what_a_view_needs_stays_as_it_is(db: Database, statement: str):
    db.create_materialized_view("v", MADE, with_no_data=True)
    with pytest.raises(InUse, match=r"\bv\b"):
        db.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO v VALUES (1, 2)",
        "UPDATE v SET y = 1",
        "DELETE FROM v",
        "MERGE INTO v USING t ON t.key = v.key WHEN MATCHED THEN DELETE",
        "ALTER TABLE v ADD COLUMN z INT",
        "ALTER TABLE v DROP COLUMN y",
        "ALTER TABLE v RENAME COLUMN y TO z",
    ],
)
def test_a_view_is_not_written_by_hand(db: Database, statement: str):
    db.create_materialized_view("v", MADE, with_no_data=True)
    with pytest.raises(ViewWrite, match="REFRESH MATERIALIZED VIEW v"):
        db.sql(statement)


def test_a_name_that_is_taken_is_refused(db: Database):
    with pytest.raises(AlreadyExists):
        db.create_materialized_view("t", MADE)


def test_a_view_that_stands_is_answered_with_what_can_be_done(db: Database):
    db.create_materialized_view("v", MADE, with_no_data=True)
    with pytest.raises(AlreadyExists, match="REFRESH MATERIALIZED VIEW v, or drop it"):
        db.create_materialized_view("v", MADE)


def test_a_table_is_no_view(db: Database):
    with pytest.raises(ViewNotFound, match="it is a table"):
        db.open_materialized_view("t")


def test_what_a_session_made_does_not_exist_for_a_view(db: Database):
    db.sql("CREATE TEMP TABLE passing AS SELECT 1 AS one")
    with pytest.raises(InvalidQuery, match="no table 'passing'"):
        db.create_materialized_view("v", "FROM passing")


def test_a_view_that_was_never_filled_says_why_it_is_empty(db: Database):
    view = db.create_materialized_view("v", MADE, with_no_data=True)
    assert (view.status.state, view.status.reason) == ("empty", "it was never refreshed to its end")


def test_a_volatile_view_says_so_and_always_runs(db: Database):
    view = db.create_materialized_view("v", "SELECT key, random() AS r FROM t")
    assert (view.status.state, view.refresh().mode) == ("volatile", "full")
    (told,) = db.sql("EXPLAIN REFRESH v").to_arrow().to_pylist()
    assert told["reason"] == "the query runs again, for random() may be another one each time"
    db.sql("DELETE FROM t WHERE key = 1")
    assert view.status.reason == "t is 1 version ahead; random() may be another one each time"


def test_a_job_whose_process_died_when_it_had_published_publishes_no_second_time(db: Database):
    view = db.create_materialized_view("v", "SELECT key, random() AS r FROM t", with_no_data=True)
    job = view.refresh_async()
    version = job.wait(PATIENCE_SECONDS).version
    db._services.catalog.update_job(job.id, state=JobState.QUEUED, owner=None, result=None)
    result = db.resume_job(job.id)
    assert (result.mode, result.version, view.version) == ("no_op", version, version)
    assert view.refresh().version == version + 1


def test_explain_refresh_tells_the_mode_why_and_how_much(db: Database):
    db.create_materialized_view("v", MADE)
    db.sql("INSERT INTO t VALUES (50, 50)")
    (told,) = db.sql("EXPLAIN REFRESH v").to_arrow().to_pylist()
    assert told == {
        "mode": "incremental",
        "reason": "t changed",
        "rows_to_compute": 1,
        "rows_to_remove": 0,
        "calls_expected": 1,
        "calls_at_most": 1,
        "results_kept": 0,
    }


def expected(db: Database) -> tuple[int, int | None, int]:
    (told,) = db.sql("EXPLAIN REFRESH v").to_arrow().to_pylist()
    return told["calls_expected"], told["calls_at_most"], told["results_kept"]


@pytest.mark.parametrize("query", [MADE, f"{MADE} ORDER BY key"])
def test_explain_refresh_counts_calls_of_a_full_run_and_makes_none(db: Database, calls: Calls, query: str):
    view = db.create_materialized_view("v", query, with_no_data=True)
    assert (expected(db), calls.take()) == ((11, 11, 0), {})
    view.refresh()
    db.sql("INSERT INTO t VALUES (50, 50)")
    assert expected(db) == ((1, 1, 0) if query is MADE else (1, 1, 11))
    assert (view.refresh().calls_made, expected(db)) == (1, (0, 0, 0))


def test_explain_refresh_says_where_it_cannot_know_how_many_calls_there_are(db: Database):
    db.create_materialized_view("v", "SELECT noting(key, noting(key, x)) AS y FROM t", with_no_data=True)
    assert expected(db)[1] is None


def test_explain_refresh_is_refused_as_the_refresh_is(db: Database):
    table = db.open_table("t")
    table.add_columns({"c": db.get_function("noting")(key=col("key"), x=col("x"))})
    db.create_materialized_view("v", "SELECT key, c FROM t", with_no_data=True)
    with pytest.raises(StaleInput, match="refresh c first"):
        db.sql("EXPLAIN REFRESH v")


@contextmanager
def agent(folder: Path) -> Iterator[None]:
    """An agent in a thread of this process, which has the database open for itself: it ends with it."""
    stop = threading.Event()
    with open_database(folder, on_change_debounce_seconds=0.1) as db:
        thread = threading.Thread(target=lambda: db.run_agent(stop=stop))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(PATIENCE_SECONDS)


def test_an_agent_refreshes_a_view_when_a_source_changes(db: Database, folder: Path):
    view = db.create_materialized_view("v", MADE, schedule="on change", with_no_data=True)
    with agent(folder):
        eventually(lambda: view.status.state == "fresh")
        db.sql("INSERT INTO t VALUES (50, 50)")
        eventually(lambda: view.count_rows() == len(KEYS))
    (schedule,) = db.list_schedules()
    assert (schedule.schedule, schedule.kind) == ("v", "view")


@pytest.mark.parametrize("query", [MADE, "SELECT sum(x) AS y FROM t"])
def test_a_compaction_is_no_change_that_an_agent_refreshes_a_view_for(db: Database, folder: Path, query: str):
    db.create_materialized_view("v", query, schedule="on change")
    with agent(folder):
        db.sql("INSERT INTO t VALUES (50, 50)")
        eventually(lambda: db.list_schedules()[0].mode is not None and db.list_schedules()[0].state == "up_to_date")
        before = len(db.list_jobs("v"))
        db.open_table("t").optimize()
        eventually(lambda: db.list_schedules()[0].state == "up_to_date")
    assert len(db.list_jobs("v")) == before


@pytest.mark.parametrize(
    "clause", ["EVERY INTERVAL '10 minutes'", "CRON '0 3 * * *' TIME ZONE 'Europe/Paris'", "ON CHANGE"]
)
def test_a_view_is_made_with_a_schedule(db: Database, clause: str):
    db.sql(f"CREATE MATERIALIZED VIEW v SCHEDULE {clause} AS {MADE} WITH NO DATA")
    db.sql("ALTER MATERIALIZED VIEW v DISABLE SCHEDULE")
    assert [(one.schedule, one.enabled) for one in db.list_schedules()] == [("v", False)]
    db.sql("ALTER MATERIALIZED VIEW v DROP SCHEDULE")
    assert db.list_schedules() == []


def test_a_schedule_goes_with_its_view(db: Database):
    db.create_materialized_view("v", MADE, auto_refresh_interval_seconds=60, with_no_data=True)
    assert [one.rule for one in db.list_schedules()] == ["every 1 minute"]
    db.drop_materialized_view("v")
    assert db.list_schedules() == []


def test_a_wrong_schedule_makes_no_view(db: Database):
    with pytest.raises(InvalidInput):
        db.create_materialized_view("v", MADE, schedule="now and then")
    assert db.list_materialized_views() == []


def test_a_cancelled_refresh_leaves_the_view_as_it_was_and_its_results_to_the_next(db: Database, folder: Path):
    calls, gate = Calls(folder / "gated-calls"), Gate(folder / "gate")
    db.create_function(gated(calls, gate, at=11, batch_size=1))
    db.create_materialized_view("v", "SELECT key, gated(key, x) AS y FROM t", with_no_data=True)
    gate.arm()
    job = db.open_materialized_view("v").refresh_async(batch_size=1)
    gate.wait_for_call()
    job.cancel()
    gate.open()
    with pytest.raises(Cancelled):
        job.wait(PATIENCE_SECONDS)
    assert rows(db) == []
    assert db.open_materialized_view("v").refresh().rows_assigned == len(KEYS)
    gate.close()
