"""Statements of materialized views, their twins in Python, and what other tools see of a view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from refresh_kit import Calls, noting, open_database, reference, short_folder

from lancegpu_sql.database import Database
from lancegpu_sql.errors import AlreadyExists, InUse, ViewNotFound

CLASSES = "gpu_classes: [{name: small, local: {simulated: 1}}, {name: big, local: {simulated: 2}}]"
MADE = "SELECT key, noting(key, x) AS y FROM t"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


@pytest.fixture(scope="module")
def calls(folder: Path) -> Calls:
    return Calls(folder / "calls")


@pytest.fixture(scope="module")
def opened(folder: Path, calls: Calls) -> Iterator[Database]:
    with open_database(folder, gpu_classes=folder / "classes.yaml") as db:
        db.create_function(noting(calls))
        db.create_function(noting(calls, "anew", deterministic=False))
        db.create_function(noting(calls, "on_gpu", gpu=True, gpu_class="small"))
        yield db


@pytest.fixture
def db(opened: Database, calls: Calls) -> Iterator[Database]:
    opened.create_table("t", pa.table({"key": range(6), "x": range(6)}))
    opened.clear_results()
    calls.take()
    yield opened
    for view in reversed(opened.list_materialized_views()):
        opened.drop_materialized_view(view.view)
    opened.drop_table("t")


def one(db: Database, statement: str) -> dict[str, Any]:
    (row,) = db.sql(statement).to_arrow().to_pylist()
    return row


def test_a_view_is_made_once_where_it_may_be_there(db: Database, calls: Calls):
    db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE}")
    calls.take()
    db.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1 AS one")
    assert (db.open_materialized_view("v").definition.query, calls.take()) == (MADE, {})
    with pytest.raises(AlreadyExists):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE}")


def test_a_view_is_made_empty_where_no_data_is_wanted(db: Database, calls: Calls):
    db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE} WITH NO DATA")
    assert (one(db, "SHOW MATERIALIZED VIEWS")["state"], calls.take()) == ("empty", {})


def test_a_view_is_described(db: Database):
    db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE} ORDER BY key")
    told = one(db, "DESCRIBE MATERIALIZED VIEW v")
    assert told["query"] == f"{MADE} ORDER BY key"
    assert (told["refresh"], told["why_full"]) == ("full", "it says ORDER BY")
    assert (told["sources"], told["functions"], told["rows"]) == (["t"], ["noting"], 6)


def test_a_view_that_is_dropped_is_gone(db: Database):
    db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE} WITH NO DATA")
    db.sql("DROP MATERIALIZED VIEW v")
    db.sql("DROP MATERIALIZED VIEW IF EXISTS v")
    assert "v" not in db.table_names()
    with pytest.raises(ViewNotFound):
        db.sql("DROP MATERIALIZED VIEW v")


def test_a_view_that_others_read_is_not_dropped(db: Database):
    db.sql(f"CREATE MATERIALIZED VIEW v AS {MADE} WITH NO DATA")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v WITH NO DATA")
    db.sql("CREATE MATERIALIZED VIEW x AS SELECT max(n) AS n FROM w, v WITH NO DATA")
    with pytest.raises(InUse, match="the materialized views 'w', 'x' read it"):
        db.sql("DROP MATERIALIZED VIEW v")


def test_a_refresh_may_be_told_its_gpu_class(db: Database):
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT key, on_gpu(key, x) AS y FROM t WITH NO DATA")
    job = one(db, "REFRESH MATERIALIZED VIEW v WITH (gpu_class = 'big', gpu_count = 1)")["job_id"]
    (worker,) = db.get_job(job).timings()["workers"].values()
    assert worker["gpu_class"] == "big"


def test_a_function_that_is_not_deterministic_is_called_each_time(db: Database, calls: Calls):
    view = db.create_materialized_view("v", "SELECT key, anew(key, x) AS y FROM t ORDER BY key")
    db.sql("UPDATE t SET x = 9 WHERE key = 1")
    calls.take()
    assert view.refresh().calls_made == 6
    assert sorted(calls.take()) == list(range(6))


def test_other_tools_read_a_view_as_a_table(db: Database):
    db.create_materialized_view("v", MADE)
    wanted = {key: reference(key) for key in range(6)}
    for rows in (lancedb.connect(db.uri).open_table("v").to_arrow(), lance.dataset(f"{db.uri}/v.lance").to_table()):
        assert dict(zip(rows["key"].to_pylist(), rows["y"].to_pylist(), strict=True)) == wanted


def test_a_refresh_is_one_version_and_readers_keep_theirs(db: Database):
    view = db.create_materialized_view("v", MADE)
    before, reader = view.version, db.sql("SELECT count(*), sum(key) FROM v")
    db.sql("UPDATE t SET x = x + 1")
    db.sql("DELETE FROM t WHERE key = 5")
    result = view.refresh()
    assert (result.version, view.version) == (before + 1, before + 1)
    assert (reader.fetchall(), view.count_rows()) == ([(6, 15)], 5)


def test_a_view_that_was_restored_is_stale_and_is_made_right(db: Database):
    view = db.create_materialized_view("v", MADE)
    db.sql("UPDATE t SET x = 3 WHERE key = 1")
    view.refresh()
    db.open_table("v").restore(view.version - 1)
    assert view.status.state == "stale"
    view.refresh()
    assert sorted(db.sql("FROM v").fetchall()) == sorted(db.sql(MADE).fetchall())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT key, noting(key, noting(key, x)) AS y FROM t",
        "SELECT noting(1, 2) AS y, count(*) AS n FROM t WHERE noting(key, x) > 0 GROUP BY noting(key, 1)",
        "SELECT a.key FROM t AS a JOIN t AS b ON noting(a.key, a.x) = noting(b.key, b.x)",
    ],
)
def test_a_view_is_made_without_a_call(db: Database, calls: Calls, query: str):
    before = len(db.list_jobs())
    db.create_materialized_view("v", query, with_no_data=True)
    assert (calls.take(), len(db.list_jobs())) == ({}, before)


def test_a_view_whose_source_another_tool_dropped_says_so_and_spoils_no_list(db: Database):
    db.sql("CREATE TABLE passing AS SELECT 1 AS x")
    db.create_materialized_view("v", "SELECT x FROM passing")
    db.create_materialized_view("w", MADE)
    lancedb.connect(db.uri).drop_table("passing")
    gone, other = db.list_materialized_views()
    assert (gone.state, "passing" in str(gone.reason), other.state) == ("stale", True, "fresh")
