"""OPTIMIZE TABLE: fewer fragments, old versions gone, and nothing that anybody needs touched or computed again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from agents import eventually
from refresh_kit import Calls, Gate, by_key, gated, noting, open_database, reference, status

from lancegpu_sql import col, function
from lancegpu_sql.database import Database, Table
from lancegpu_sql.database.jobs import optimize_job
from lancegpu_sql.errors import Cancelled, FunctionFailed, TableNotFound, VersionNotFound
from lancegpu_sql.maintenance.request import OptimizeOptions, OptimizeResult
from lancegpu_sql.refresh.lock import column_lock

NOW = timedelta(0)

Make = Callable[..., Table]


@pytest.fixture(scope="module")
def gate(folder: Path) -> Iterator[Gate]:
    with closing(Gate(folder / "gate")) as gate:
        yield gate


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[Database]:
    with open_database(folder) as db:
        yield db


@pytest.fixture
def db(opened: Database, calls: Calls) -> Iterator[Database]:
    calls.take()
    yield opened
    for view in opened.list_materialized_views():
        opened.drop_materialized_view(view.view)
    for name in opened.table_names():
        opened.drop_table(name)


@pytest.fixture
def make(db: Database, calls: Calls) -> Make:
    """A table of six rows in three fragments, whose column y is never computed yet."""

    def made(by: Any = None, fragments: int = 3) -> Table:
        rows = 6 // fragments
        table = db.create_table("t", numbers(range(1, rows + 1)))
        for first in range(rows + 1, 7, rows):
            table.add(numbers(range(first, first + rows)))
        table.add_columns({"y": (by or noting(calls))(key=col("key"), x=col("x"))})
        return table

    return made


def numbers(keys: Any) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.int64()), "x": pa.array(keys, pa.int64())})


def fragments(table: Table) -> int:
    return len(table._snapshot().fragments)


def kept(result: OptimizeResult) -> str:
    return "; ".join(str(step) for step in result.kept)


def test_fresh_values_stay_fresh_and_the_next_refresh_has_nothing_to_look_at(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    done = table.optimize(cleanup_older_than=NOW)
    assert (done.fragments_before, done.fragments_after, fragments(table)) == (3, 1, 1)
    assert [one.version for one in table.list_versions()] == [table.version]
    assert status(table) == (6, 0, 0, 0)
    assert table.refresh_column_async("y").wait().mode == "no_op"
    assert not calls.take()


def test_rows_never_computed_are_computed_after_it(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y", where="key < 4")
    table.optimize(cleanup_older_than=NOW)
    assert table.refresh_column("y").rows_assigned == 3
    assert calls.take() == Counter(range(1, 7))


def test_rows_keep_their_ids_and_their_order(make: Make) -> None:
    table = make()
    table.delete("key = 3")
    before = table.to_arrow(["_rowid", "key"])
    table.optimize(cleanup_older_than=NOW)
    assert table.to_arrow(["_rowid", "key"]) == before


def test_a_plan_changes_nothing_and_says_what_would_be_done(make: Make, db: Database) -> None:
    table = make()
    version = table.version
    planned = table.optimize(cleanup_older_than=NOW, dry_run=True)
    assert [(one.action, one.count, bool(one.size_bytes)) for one in planned.steps] == [
        ("compact", 3, True),
        ("remove versions", version - 1, True),
    ]
    told = db.sql("EXPLAIN OPTIMIZE TABLE t WITH (cleanup_older_than = 0)").fetchall()
    assert [row[0] for row in told] == ["compact", "remove versions"]
    assert (table.version, len(table.list_versions())) == (version, version)


def test_sql_does_the_same(make: Make, db: Database) -> None:
    table = make()
    done = db.sql("OPTIMIZE TABLE main.T WITH (cleanup_older_than = '0 s')").to_arrow().to_pylist()[0]
    assert (done["fragments_before"], done["fragments_after"]) == (3, 1)
    assert done["versions_removed"] > 3
    assert done["version"] == table.version
    with pytest.raises(TableNotFound):
        db.sql("OPTIMIZE TABLE nothing")


def test_indexed_rows_become_one_fragment_with_those_added_since(make: Make, db: Database) -> None:
    table = make()
    table._snapshot().dataset.create_scalar_index("x", "BTREE")
    table.add(numbers([7]))
    assert table.optimize().fragments_after == 1
    assert table.optimize().steps == ()
    assert db.sql("SELECT key FROM t WHERE x = 7").fetchall() == [(7,)]


def test_a_second_one_has_nothing_to_do(make: Make) -> None:
    table = make()
    table.optimize(cleanup_older_than=NOW)
    again = table.optimize(cleanup_older_than=NOW)
    assert (again.steps, again.versions_removed, again.fragments_removed) == ((), 0, 0)


def test_two_at_once_wait_for_each_other(make: Make) -> None:
    table = make()
    threads = [threading.Thread(target=table.optimize, kwargs={"cleanup_older_than": NOW}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (fragments(table), by_key(table, "x")) == (1, {key: key for key in range(1, 7)})


def test_a_query_that_was_asked_reads_its_version_to_the_end(make: Make, db: Database) -> None:
    table = make()
    result = db.sql("SELECT sum(x) FROM t")
    table.update(values_sql={"x": "x + 1"})
    done = table.optimize(cleanup_older_than=NOW)
    assert "a query or a write on this host" in kept(done)
    assert result.fetchall() == [(21,)]
    del result
    assert table.optimize(cleanup_older_than=NOW).versions_removed == 1


def test_a_tagged_version_stays(make: Make) -> None:
    table = make()
    lance.dataset(table._snapshot().uri).tags.create("gold", 2)
    done = table.optimize(cleanup_older_than=NOW)
    assert "tag 'gold'" in kept(done)
    table.checkout(2)
    assert table.count_rows() == 4


def test_the_version_that_a_view_was_made_of_stays_until_its_next_refresh(make: Make, db: Database) -> None:
    table = make()
    view = db.create_materialized_view("v", "SELECT key, x + 1 AS z FROM t")
    source = view.refresh().source_versions["t"]
    table.add(numbers([7]))
    assert "view 'v'" in kept(table.optimize(cleanup_older_than=NOW))
    assert source in [one.version for one in table.list_versions()]
    assert (view.refresh().mode, view.refresh().mode) == ("incremental", "no_op")
    table.optimize(cleanup_older_than=NOW)
    assert [one.version for one in table.list_versions()] == [table.version]


@pytest.mark.parametrize("query", ["SELECT key, x + 1 AS z FROM t", "SELECT sum(x) AS z FROM t"])
def test_a_view_stays_fresh_and_its_refresh_runs_nothing(make: Make, db: Database, query: str) -> None:
    table = make()
    view = db.create_materialized_view("v", query)
    table.optimize(cleanup_older_than=NOW)
    table.refresh_column("y")  # of which the view reads nothing
    assert "which has the same rows" in kept(table.optimize(cleanup_older_than=NOW))
    assert (view.status.state, view.status.behind) == ("fresh", {})
    assert db.sql("EXPLAIN REFRESH v").fetchall()[0][:2] == ("no_op", "no source has changed")
    assert (view.refresh().mode, view.status.source_versions) == ("no_op", {"t": table.version})


@pytest.mark.parametrize("first", ["the change", "the compaction"])
def test_a_change_beside_a_compaction_makes_a_view_stale(make: Make, db: Database, first: str) -> None:
    table = make()
    view = db.create_materialized_view("v", "SELECT key, x + 1 AS z FROM t")
    steps = [lambda: table.update("key = 1", {"x": 50}), table.optimize]
    for step in steps if first == "the change" else reversed(steps):
        step()
    assert view.status.state == "stale"
    assert (view.refresh().rows_assigned, view.status.state) == (1, "fresh")


def test_views_stay_incremental_and_exact(make: Make, db: Database, calls: Calls) -> None:
    table = make()
    db.create_function(noting(calls))
    view = db.create_materialized_view("v", "SELECT key, noting(key, x) AS y FROM t")
    table.delete("key = 2")
    table.optimize(cleanup_older_than=NOW)
    db.open_table("v").optimize(cleanup_older_than=NOW)
    calls.take()
    table.update("key = 5", values={"x": 50})
    result = view.refresh()
    assert (result.mode, result.rows_assigned, calls.take()) == ("incremental", 1, Counter([5]))
    assert dict(db.sql("FROM v").fetchall()) == {key: reference(50 if key == 5 else key) for key in (1, 3, 4, 5, 6)}


def test_a_running_refresh_keeps_what_it_opened_and_computes_nothing_twice(
    make: Make, calls: Calls, gate: Gate
) -> None:
    table = make(by=gated(calls, gate))
    gate.arm()
    job = table.refresh_column_async("y")
    gate.wait_for_call()
    table.add(numbers([7]))
    done = table.optimize(cleanup_older_than=NOW)
    gate.open()
    assert job.wait().rows_remaining == 0
    assert "refresh column t.y" in kept(done)
    assert calls.take() == Counter(range(1, 8))


def test_fragments_stay_in_which_a_refresh_would_try_rows_again(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=failing_at_two(calls, gate))
    gate.arm()
    job = table.refresh_column_async("y", error_policy="skip", batch_size=1)
    gate.wait_for_call()
    done = table.optimize(cleanup_older_than=None)
    gate.open()
    assert (job.wait().rows_failed, done.fragments_removed) == (1, 0)
    assert done.kept[0].action == "leave fragments"
    assert "refresh column t.y" in done.kept[0].reason
    assert calls.take() == Counter(range(1, 7))


def failing_at_two(calls: Calls, gate: Gate) -> Any:
    inner = gated(calls, gate, "inner", at=4)
    wait_and_note = inner.function if hasattr(inner, "function") else inner

    @function(name="failing_at_two")
    def failing(key: int, x: int) -> int:
        wait_and_note(key, x)
        if key == 2:
            raise ValueError("two")
        return x

    return failing


def test_what_a_failed_refresh_computed_is_kept_for_the_next(make: Make, calls: Calls) -> None:
    table = make(by=dying_at_four(calls))
    with pytest.raises(FunctionFailed):
        table.refresh_column("y", batch_size=1, max_workers=1)
    assert calls.take().keys() >= {1, 2, 3, 4}
    done = table.optimize(cleanup_older_than=NOW)
    assert [step.action for step in done.kept] == ["keep checkpoints"]
    calls.path.with_name("healed").touch()
    assert table.refresh_column("y").rows_assigned == 6
    assert calls.take().keys() == {4, 5, 6}


def dying_at_four(calls: Calls) -> Any:
    path, healed = str(calls.path), str(calls.path.with_name("healed"))

    @function(name="dying_at_four")
    def dying(key: int, x: int) -> int:
        with Path(path).open("a") as file:
            file.write(f"{key}\n")
        if key == 4 and not Path(healed).exists():
            raise ValueError("four")
        return x

    return dying


def test_writers_meanwhile_lose_nothing(make: Make, db: Database) -> None:
    table = make()

    def add() -> None:
        for key in range(100, 120):
            table.add(numbers([key]))

    def update() -> None:
        for _ in range(20):
            table.update("key < 4", values_sql={"x": "x + 1"})

    def update_in_sql() -> None:
        for _ in range(10):
            db.sql("UPDATE t SET x = x + 100 WHERE key BETWEEN 2 AND 5")

    writers = [threading.Thread(target=write) for write in (add, update, update_in_sql)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        table.optimize(cleanup_older_than=NOW)
    lance.dataset(table._snapshot().uri).validate()
    updated = {key: key + 20 * (key < 4) + 1000 * (2 <= key <= 5) for key in range(1, 7)}
    assert by_key(table, "x") == updated | {key: key for key in range(100, 120)}


def test_one_that_waits_for_another_says_so_and_can_be_cancelled(make: Make, db: Database) -> None:
    table = make()
    folder = db._services.folder / "locks"
    with column_lock(folder, "t", "\0optimize", cancelled=threading.Event(), blocked=lambda: None):
        job = optimize_job(db._services, "t", OptimizeOptions.of())
        told = eventually(lambda: job.waiting_on, lambda waiting: waiting is not None)
        job.cancel()
        with pytest.raises(Cancelled, match="OPTIMIZE of table t"):
            job.wait()
    assert told is not None
    assert "is being optimized already" in told.message
    assert fragments(table) == 3


def test_a_version_that_was_removed_says_so(make: Make) -> None:
    table = make()
    table.checkout(2)
    pinned = table._snapshot()
    table.checkout_latest()
    table.optimize(cleanup_older_than=NOW)
    with pytest.raises(VersionNotFound, match="cleaned up"):
        pinned.to_arrow()


def test_young_files_of_failed_writes_go_where_that_is_asked_for(make: Make) -> None:
    table = make()
    stray = Path(table._snapshot().uri) / "data" / "lancegpu-0.lance"
    stray.write_bytes(b"x" * 100)
    assert table.optimize().files_removed == 0
    assert stray.exists()
    assert table.optimize(delete_unverified=True).bytes_removed >= 100
    assert not stray.exists()
