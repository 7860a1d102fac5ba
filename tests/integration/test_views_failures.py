"""A view's refresh with error_policy='skip': what fails is null, it is told why, and it is not tried again unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import Calls, open_database, short_folder

from lancegpu_sql import function
from lancegpu_sql.database import Database
from lancegpu_sql.errors import InvalidInput, RowFailed, TooManyFailedRows

BY_ROWS = "SELECT key, picky(x) AS y FROM t"
AGAIN = "SELECT picky(x) AS y, count(*) AS n FROM t GROUP BY ALL"
WAYS = pytest.mark.parametrize("query", [BY_ROWS, AGAIN])


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    with short_folder() as folder:
        yield Calls(folder / "calls")


@pytest.fixture(scope="module")
def opened(calls: Calls) -> Iterator[Database]:
    path = str(calls.path)

    @function
    def picky(x: int) -> int:
        with Path(path).open("a") as file:
            file.write(f"{x}\n")
        if x < 0:
            raise ValueError(f"no negative numbers: {x}")
        return 10 * x

    with short_folder() as folder, open_database(folder) as db:
        db.create_function(picky)
        yield db


@pytest.fixture
def db(opened: Database, calls: Calls) -> Iterator[Database]:
    """The database with a table of ten rows, -3 and -4 among them, and a view's room."""
    opened.clear_results()
    numbers = [-key if key in (3, 4) else key for key in range(10)]
    opened.create_table("t", pa.table({"key": range(10), "x": numbers}))
    calls.take()
    yield opened
    for view in reversed(opened.list_materialized_views()):
        opened.drop_materialized_view(view.view)
    opened.drop_table("t")


def skipping(db: Database, query: str) -> None:
    db.create_materialized_view("v", query, error_policy="skip")


def test_what_fails_is_null_and_its_row_is_there(db: Database):
    view = db.create_materialized_view("v", BY_ROWS, with_no_data=True)
    result = view.refresh(error_policy="skip")
    assert (result.rows_assigned, result.rows_failed, result.rows_remaining) == (10, 2, 2)
    assert (view.status.state, view.status.calls_failed) == ("fresh", 2)
    assert sorted(db.sql("FROM v").fetchall()) == [(key, None if key in (3, 4) else 10 * key) for key in range(10)]


@WAYS
def test_what_failed_is_not_tried_again_unasked(db: Database, calls: Calls, query: str):
    skipping(db, query)
    calls.take()
    view = db.open_materialized_view("v")
    db.sql("INSERT INTO t VALUES (50, 50)")
    view.refresh()
    view.refresh(full=True)
    assert calls.take() == {50: 1}
    assert db.sql("SELECT count(*) FROM v WHERE y IS NULL").fetchall() == [(2 if query is BY_ROWS else 1,)]


@WAYS
def test_what_failed_is_tried_again_when_it_is_asked_for(db: Database, calls: Calls, query: str):
    skipping(db, query)
    calls.take()
    result = db.open_materialized_view("v").refresh(error_policy="skip", retry_failed=True)
    assert (calls.take(), result.rows_failed) == ({-3: 1, -4: 1}, 2)
    with pytest.raises(RowFailed):
        db.sql("REFRESH MATERIALIZED VIEW v WITH (retry_failed = true)")
    assert len(db.open_materialized_view("v").errors()) == 2


@WAYS
def test_an_input_that_changes_is_tried_and_its_error_goes(db: Database, query: str):
    skipping(db, query)
    db.sql("UPDATE t SET x = 3 WHERE key = 3")
    result = db.open_materialized_view("v").refresh()
    assert (result.rows_failed, result.rows_remaining) == (0, 1)
    (left,) = db.open_materialized_view("v").errors()
    assert left.message.endswith("on x=-4")


def test_a_row_that_a_failed_condition_dropped_comes_when_its_input_is_right(db: Database):
    skipping(db, "SELECT key FROM t WHERE picky(x) >= 0")
    assert len(db.open_materialized_view("v").errors()) == 2
    db.sql("DELETE FROM t WHERE key = 4")
    db.sql("UPDATE t SET x = 3 WHERE key = 3")
    view = db.open_materialized_view("v")
    assert (view.refresh().rows_assigned, len(view.errors()), view.count_rows()) == (1, 0, 9)


def test_it_is_told_why_of_which_row(db: Database):
    view = db.create_materialized_view("v", BY_ROWS, with_no_data=True)
    job = view.refresh_async(error_policy="skip")
    job.wait()
    ids = db.open_table("t").to_arrow(["_rowid"], where="x < 0")["_rowid"].to_pylist()
    told = [(one.row_id, one.owner, one.error_type, one.message) for one in view.errors()]
    assert told == [
        (row, "user", "ValueError", f"ValueError: no negative numbers: {x}\non x={x}")
        for row, x in zip(ids, (-3, -4), strict=True)
    ]
    assert list(job.errors()) == list(view.errors())
    rows = db.sql("SHOW ERRORS FOR TABLE v").to_arrow().to_pylist()
    assert [(row["column"], row["function"], row["row_id"]) for row in rows] == [(None, "picky", row) for row in ids]


def test_of_a_query_that_runs_again_the_inputs_are_told(db: Database):
    skipping(db, AGAIN)
    errors = db.open_materialized_view("v").errors()
    assert sorted((one.row_id, one.message.partition("\n")[2]) for one in errors) == [
        (None, "on x=-3"),
        (None, "on x=-4"),
    ]


@WAYS
@pytest.mark.parametrize("bound", ["max_failed_rows = 1", "max_failed_fraction = 0.1"])
def test_more_failures_than_may_be_leave_the_view_as_it_was(db: Database, query: str, bound: str):
    view = db.create_materialized_view("v", query, with_no_data=True)
    with pytest.raises(TooManyFailedRows, match="of view v failed, more than max_failed_"):
        db.sql(f"REFRESH MATERIALIZED VIEW v WITH (error_policy = 'skip', {bound})")
    assert (view.count_rows(), view.status.state) == (0, "empty")


def test_a_bound_of_failures_needs_skip(db: Database):
    view = db.create_materialized_view("v", BY_ROWS, with_no_data=True)
    with pytest.raises(InvalidInput, match="error_policy='skip'"):
        view.refresh(max_failed_rows=1)


def test_another_version_tries_what_failed(db: Database):
    @function(name="fickle")
    def strict(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return x

    @function(name="fickle")
    def tolerant(x: int) -> int:
        return abs(x)

    db.create_function(strict)
    view = db.create_materialized_view("v", "SELECT key, fickle(x) AS y FROM t", error_policy="skip")
    db.create_function(tolerant)
    assert (view.refresh().rows_remaining, len(view.errors())) == (0, 0)
    assert sorted(db.sql("FROM v").fetchall()) == [(key, key) for key in range(10)]


def test_a_row_may_be_tried_several_times_before_it_fails(db: Database):
    view = db.create_materialized_view("v", BY_ROWS, with_no_data=True)
    view.refresh(error_policy="skip", retry_attempts=3, retry_backoff_seconds=0)
    assert {one.tries for one in view.errors()} == {3}


def test_a_call_in_try_is_no_failure(db: Database):
    view = db.create_materialized_view("v", "SELECT key, TRY(picky(x)) AS y FROM t", with_no_data=True)
    result = view.refresh(error_policy="skip")
    assert (result.rows_failed, len(view.errors())) == (0, 0)


@pytest.mark.parametrize("schedule", [None, "on change"])
def test_a_view_that_cannot_be_filled_is_not_made(db: Database, calls: Calls, schedule: str | None):
    with pytest.raises(RowFailed) as failed:
        db.create_materialized_view("v", BY_ROWS, schedule=schedule, batch_size=1)
    assert ("v" in db.table_names(), db.list_schedules()) == (False, [])
    assert "The view v was not made" in failed.value.__notes__[0]
    calls.take()
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (error_policy = 'skip') AS {BY_ROWS}")
    assert set(calls.take()).isdisjoint({0, 1, 2}), "what came before the row that failed was not kept"


def test_a_view_that_others_read_already_stays_where_it_cannot_be_filled(db: Database):
    view = db.create_materialized_view("v", BY_ROWS, with_no_data=True)
    db.create_materialized_view("w", "SELECT count(*) AS n FROM v")
    with pytest.raises(RowFailed):
        view.refresh()
    assert {one.view for one in db.list_materialized_views()} == {"v", "w"}
