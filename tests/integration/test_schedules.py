"""Schedules of columns, as people set them and agents keep them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from agents import agent, eventually
from refresh_kit import PATIENCE_SECONDS, Calls, Gate, by_key, gated, noting, open_database, reference, short_folder

from lancegpu_sql import col
from lancegpu_sql.database import Database, Table
from lancegpu_sql.database.schedule_infos import ScheduleInfo
from lancegpu_sql.errors import ColumnNotFound, InvalidInput, ParseError, ScheduleNotFound, TableNotFound

CLASSES = "gpu_classes: [{name: full, local: {simulated: 1}}]"
NUMBERS = pa.array(range(20), pa.int64())


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        (folder / "classes.yaml").write_text(CLASSES)
        yield folder


@pytest.fixture
def db(folder: Path) -> Iterator[Database]:
    with open_database(folder, gpu_classes=folder / "classes.yaml", on_change_debounce_seconds=0.1) as db:
        yield db


def table(db: Database, folder: Path, name: str = "t", **options: Any) -> Table:
    """A table with a computed column `y`."""
    table = db.create_table(name, pa.table({"key": NUMBERS, "x": NUMBERS}))
    table.add_columns({"y": noting(Calls(folder / "calls"), f"noting_{name}", **options)(key=col("key"), x=col("x"))})
    return table


def known(db: Database, name: str = "t.y") -> ScheduleInfo:
    return next(one for one in db.list_schedules() if one.schedule == name)


def right(table: Table) -> bool:
    return by_key(table) == {key: reference(x) for key, x in by_key(table, "x").items()}


def test_an_agent_fills_a_column_by_its_schedule(db: Database, folder: Path) -> None:
    one = table(db, folder)
    one.set_schedule("y", "every 1 hour", batch_size=5)
    assert (known(db).state, known(db).rows) == ("blocked", None)
    with agent(db):
        eventually(lambda: known(db).rows == 20)
        assert right(one)
        eventually(lambda: known(db).state, lambda state: state == "up_to_date")
    assert (known(db).mode, known(db).streak) == ("full", 0)
    assert known(db).next_run is not None
    assert [job.request for job in db.list_jobs()] == [{"batch_size": 5}]


def test_a_column_with_a_schedule_on_change_follows_its_table(db: Database, folder: Path) -> None:
    one = table(db, folder)
    one.set_schedule("y", "on change")
    with agent(db):
        eventually(lambda: right(one))
        for number in range(3):
            one.update(f"key % 3 = {number}", values_sql={"x": "x + 1000"})
            eventually(lambda: right(one))
        eventually(lambda: known(db).state, lambda state: state == "up_to_date")
        jobs = len(db.list_jobs())
        eventually(lambda: "?" not in db._services.catalog.schedule("column t.y").schedule.seen["t"])
        assert len(db.list_jobs()) == jobs <= 8, "what a refresh published was taken for a change"


def test_a_refresh_that_waits_for_its_class_holds_up_nobody(db: Database, folder: Path) -> None:
    gate, calls = Gate(folder / "gate"), Calls(folder / "calls")
    holder = db.create_table("holder", pa.table({"key": NUMBERS, "x": NUMBERS}))
    holder.add_columns({"y": gated(calls, gate, gpu=True, gpu_class="full")(key=col("key"), x=col("x"))})
    waits, goes = table(db, folder, "waits", gpu=True, gpu_class="full"), table(db, folder, "goes")
    gate.arm()
    held = holder.refresh_column_async("y")
    gate.wait_for_call()
    for column in (waits, goes):
        column.set_schedule("y", "every 1 second")
    with open_database(folder) as other, agent(other, concurrency=1):
        eventually(lambda: known(db, "waits.y").state, lambda state: state == "waiting")
        assert "refresh of holder.y" in str(known(db, "waits.y").reason)
        eventually(lambda: right(goes))
        eventually(lambda: known(db, "waits.y").skipped)
        gate.open()
        held.wait(PATIENCE_SECONDS)
        eventually(lambda: right(waits))
    gate.close()


def test_what_is_set_in_sql_is_what_python_shows(db: Database, folder: Path) -> None:
    table(db, folder)
    db.sql(
        "ALTER TABLE T ALTER COLUMN Y SET SCHEDULE CRON '0 3 * * *' TIME ZONE 'Europe/Paris' JITTER INTERVAL '1 minute'"
    )
    (row,) = db.sql("SHOW SCHEDULES").to_arrow().to_pylist()
    assert (row["schedule"], row["rule"]) == ("t.y", "cron 0 3 * * * Europe/Paris jitter 1 minute")
    assert row["next_run"] > datetime.now(UTC)
    assert known(db).rule == row["rule"]
    db.sql("ALTER TABLE t ALTER COLUMN y SET SCHEDULE ON CHANGE WITH (batch_size = 5, on_failure = 'https://a.b/c')")
    assert (known(db).rule, known(db).on_failure) == ("on change", "https://a.b/…")
    db.sql("ALTER TABLE t ALTER COLUMN y DISABLE SCHEDULE")
    assert db.sql("SHOW SCHEDULES FOR t").to_arrow()["state"].to_pylist() == ["disabled"]
    db.sql("ALTER TABLE t ALTER COLUMN y ENABLE SCHEDULE; ALTER TABLE t ALTER COLUMN y DROP SCHEDULE")
    assert db.sql("SHOW SCHEDULES").to_arrow().num_rows == 0


def test_schedules_of_a_table_that_is_not_there_are_not_shown_in_sql(db: Database) -> None:
    db.create_table("t", pa.table({"x": NUMBERS}))
    assert db.sql("SHOW SCHEDULES FOR TABLE T").to_arrow().num_rows == 0
    with pytest.raises(TableNotFound, match="The tables are t"):
        db.sql("SHOW SCHEDULES FOR TABLE s")


def test_a_column_is_declared_with_its_schedule_in_sql_or_not_at_all(db: Database, folder: Path) -> None:
    db.create_table("t", pa.table({"key": NUMBERS, "x": NUMBERS}))
    db.create_function(noting(Calls(folder / "calls")))
    add = "ALTER TABLE t ADD COLUMN IF NOT EXISTS y AS (noting(key, x)) SCHEDULE"
    with pytest.raises(ParseError, match="no span of time"):
        db.sql(f"{add} EVERY 'now and then'")
    assert db.open_table("t").schema.names == ["key", "x"]
    db.sql(f"{add} EVERY INTERVAL '10 minutes' JITTER INTERVAL '1 minute' WITH (batch_size = 5)")
    db.sql(f"{add} ON CHANGE")
    assert (known(db).rule, known(db).columns) == ("every 10 minutes jitter 1 minute", ("y",))


def test_a_view_says_its_schedule_before_or_behind_its_options_and_is_asked_about_by_its_kind(db: Database) -> None:
    db.create_table("t", pa.table({"x": NUMBERS}))
    db.sql("CREATE MATERIALIZED VIEW a SCHEDULE ON CHANGE WITH (error_policy = 'skip') AS SELECT x FROM t WITH NO DATA")
    db.sql("CREATE MATERIALIZED VIEW b WITH (error_policy = 'skip') SCHEDULE ON CHANGE AS SELECT x FROM t WITH NO DATA")
    requests = {one.schedule.table: one.schedule.request for one in db._services.catalog.schedules()}
    assert requests == {view: {"error_policy": "skip"} for view in "ab"}
    assert db.sql("SHOW SCHEDULES FOR MATERIALIZED VIEW a").to_arrow()["schedule"].to_pylist() == ["a"]
    assert db.sql("SHOW ERRORS FOR MATERIALIZED VIEW a").to_arrow().num_rows == 0


def test_a_clause_that_says_no_schedule_is_shown_where_it_stands(db: Database, folder: Path) -> None:
    table(db, folder)
    with pytest.raises(ParseError, match=r"'2 months': a month has no fixed length.*line 2") as caught:
        db.sql("ALTER TABLE t ALTER COLUMN y\nSET SCHEDULE EVERY INTERVAL '2 months'")
    assert (caught.value.line, caught.value.column) == (2, 14)


def test_a_schedule_goes_with_its_column_and_table_and_stays_with_a_rename(db: Database, folder: Path) -> None:
    one = table(db, folder)
    one.set_schedule("y", "every 1 hour")
    one.alter_column("y", rename="z")
    assert (known(db, "t.z").columns, known(db, "t.z").rule) == (("z",), "every 1 hour")
    one.drop_columns(["z"])
    assert db.list_schedules() == []
    for drop in (
        lambda: db.drop_table("again"),
        lambda: db.sql("DROP TABLE again"),
        lambda: db.sql("CREATE OR REPLACE TABLE again AS SELECT 1 AS a"),
        lambda: db.create_table("again", pa.table({"a": [1]}), mode="overwrite"),
    ):
        if "again" in db.table_names():
            db.drop_table("again")
        table(db, folder, "again").set_schedule("y", "on change")
        assert len(db.list_schedules()) == 1
        drop()
        assert db.list_schedules() == []


def test_a_column_is_declared_with_its_schedule_also_in_lancedbs_words(db: Database, folder: Path) -> None:
    one = db.create_table("t", pa.table({"key": NUMBERS, "x": NUMBERS}))
    bound = noting(Calls(folder / "calls"))(key=col("key"), x=col("x"))
    one.add_columns({"a": bound}, schedule="every 10 minutes")
    one.add_columns({"b": bound}, auto_refresh_enabled=True, auto_refresh_interval_seconds=90)
    one.add_columns({"c": bound}, auto_refresh_enabled=True)
    one.add_columns({"d": bound}, auto_refresh_enabled=False)
    assert {one.schedule: (one.rule, one.enabled) for one in db.list_schedules()} == {
        "t.a": ("every 10 minutes", True),
        "t.b": ("every 1 minute 30 seconds", True),
        "t.c": ("on change", True),
    }
    one.alter_column("b", auto_refresh_enabled=False)
    one.alter_column("c", auto_refresh_interval_seconds=60)
    assert (known(db, "t.b").state, known(db, "t.c").rule) == ("disabled", "every 1 minute")


def test_what_cannot_be_scheduled_is_refused_at_once(db: Database, folder: Path) -> None:
    one = table(db, folder)
    with pytest.raises(InvalidInput, match="is no schedule"):
        one.set_schedule("y", "sometimes")
    with pytest.raises(InvalidInput, match="leave where= out"):
        one.set_schedule("y", "on change", where="key = 1")
    with pytest.raises(ColumnNotFound, match="not a computed one"):
        one.set_schedule("x", "on change")
    with pytest.raises(InvalidInput, match="on_failure is a URL"):
        one.set_schedule("y", "on change", on_failure="ftp://a.b")
    with pytest.raises(ScheduleNotFound, match=r"no schedule of column t\.y"):
        one.set_schedule("y", None)
    with pytest.raises(ScheduleNotFound, match=r"no schedule of t\.y; there are: none"):
        db.disable_schedule("t.y")


class Webhook:
    """A server that keeps what is posted to it."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.close()


def broken(x: int) -> int:
    """Raise on every row."""
    raise ValueError("broken")


def test_failures_call_a_webhook_or_a_command_and_a_broken_hook_stops_nothing(
    db: Database, folder: Path, webhook: Webhook
) -> None:
    db.create_function(broken)
    keep = f"import pathlib, sys; pathlib.Path({str(folder / 'told')!r}).write_text(sys.stdin.read())"
    hooks = {"url": webhook.url, "command": [sys.executable, "-c", keep], "gone": ["/nowhere/to/be/found"]}
    for name, hook in hooks.items():
        one = db.create_table(name, pa.table({"x": NUMBERS}))
        one.add_columns({"y": db.get_function("broken")(x=col("x"))})
        one.set_schedule("y", "every 1 hour", on_failure=hook)
    with agent(db):
        eventually(lambda: webhook.posted)
        eventually(lambda: (folder / "told").exists() and (folder / "told").read_text())
        eventually(lambda: [one.kind for one in db.list_events("schedule column gone.y") if one.kind == "hook_failed"])
        assert known(db, "gone.y").state == "backing_off"
    (facts,) = webhook.posted
    assert (facts["event"], facts["schedule"], facts["streak"], facts["error"]["type"]) == (
        "failure",
        "url.y",
        1,
        "RowFailed",
    )
    assert json.loads((folder / "told").read_text())["schedule"] == "command.y"
