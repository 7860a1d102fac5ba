"""Queries that call Functions on real workers: as jobs that wait, are cancelled, and give their workers back."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refresh_kit import PATIENCE_SECONDS, open_database, short_folder

import lancegpu_sql as lg
from lancegpu_sql.catalog.models import JobRecord, JobState
from lancegpu_sql.database import Database
from lancegpu_sql.errors import Cancelled, Conflict, RowFailed

SOON_SECONDS = 5.0  # a second on a machine that has nothing else to do

CLASSES = """
gpu_classes:
  - {name: one, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 1}}
  - {name: none, gpu_model: Test, gpu_memory_bytes: 1GiB, local: {simulated: 0}}
"""


def size(text: str) -> int:
    if text == "bad":
        raise ValueError("a bad text")
    return len(text)


def shout(text: str) -> str:
    return text.upper()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def db(folder: Path) -> Iterator[Database]:
    classes = folder / "classes.yaml"
    classes.write_text(CLASSES)
    with open_database(folder, gpu_classes=classes, worker_idle_seconds=600, progress="lines") as db:
        db.create_table("docs", pa.table({"id": [1, 2, 3, 4], "text": ["a", "bb", "ccc", "dd"]}))
        db.create_function(size)
        db.create_function(shout)
        db.create_function(size, "on_one", gpu=True, gpu_class="one")
        db.create_function(shout, "also_on_one", gpu=True, gpu_class="one")
        db.create_function(size, "nowhere", gpu=True, gpu_class="none")
        yield db


def newest(db: Database) -> JobRecord:
    return db.list_jobs(limit=1)[0]


class InThread:
    """Reads a result in a thread, and keeps how that ended."""

    def __init__(self, result: Any) -> None:
        self.rows: Any = None
        self.error: BaseException | None = None
        self._result = result
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            self.rows = self._result.fetchall()
        except BaseException as exc:
            self.error = exc

    def ended(self) -> float:
        """Wait for the end; the seconds that took."""
        begun = time.monotonic()
        self._thread.join(PATIENCE_SECONDS)
        return time.monotonic() - begun


def waiting(db: Database, sql: str) -> tuple[InThread, Any, JobRecord]:
    """A query, being read in a thread, whose job waits."""
    result = db.sql(sql)
    known = {job.id for job in db.list_jobs()}
    reading = InThread(result)
    job = wait_for(lambda: next((job for job in db.list_jobs() if job.id not in known), None))
    record = wait_for(lambda: at(db, job.id, JobState.WAITING))
    return reading, result, record


def at(db: Database, job_id: str, state: JobState) -> JobRecord | None:
    record = db.get_job(job_id).record
    return record if record.state is state else None


def wait_for(found: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if (value := found()) is not None:
            return value
        time.sleep(0.02)
    raise AssertionError("it never came to be")


def test_a_query_with_functions_is_computed_by_a_worker_and_is_a_job(db: Database):
    sql = "SELECT id, size(text) FROM docs WHERE size(text) > 1 ORDER BY id LIMIT 2"
    assert db.sql(sql).fetchall() == [(2, 2), (3, 3)]
    job = newest(db)
    assert (job.kind, job.state, job.request) == ("query", JobState.FINISHED, {"sql": sql})
    assert job.progress is not None
    assert job.progress.rows_computed == 4


def test_several_functions_of_one_query_are_one_job(db: Database):
    before = len(db.list_jobs())
    assert db.sql("SELECT shout(text), size(shout(text)) FROM docs WHERE id = 1").fetchall() == [("A", 1)]
    assert len(db.list_jobs()) == before + 1


def test_a_query_without_a_call_and_one_whose_values_are_kept_are_no_jobs(db: Database):
    result = db.sql("SELECT size(text) FROM docs")
    result.fetchall()
    before = len(db.list_jobs())
    result.fetchall()
    db.sql("SELECT id FROM docs").fetchall()
    assert len(db.list_jobs()) == before


def test_a_failing_row_fails_the_query_and_its_job(db: Database):
    with pytest.raises(RowFailed, match="text='bad'"):
        db.sql("SELECT size('bad')").fetchall()
    job = newest(db)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error["type"] == "RowFailed"


def test_try_gives_null_for_a_failing_row(db: Database):
    query = "SELECT TRY(size(t)), TRY(coalesce(size(t), 7)) FROM (VALUES ('a'), ('bad'), ('cc')) v(t)"
    assert db.sql(query).fetchall() == [(1, 1), (None, None), (2, 2)]


def test_a_query_waits_for_its_class_says_so_and_is_cancelled_by_its_job(
    db: Database, capsys: pytest.CaptureFixture[str]
):
    reading, _, record = waiting(db, "SELECT nowhere(text) FROM docs")
    assert record.waiting_on is not None
    assert record.waiting_on.gpu_class == "none"
    db.cancel_job(record.id)
    assert reading.ended() < SOON_SECONDS
    assert isinstance(reading.error, Cancelled)
    assert db.get_job(record.id).status() is JobState.CANCELLED


def test_a_query_that_waits_says_so_while_it_is_read(db: Database, capfd: pytest.CaptureFixture[str]):
    said = ""

    def waiting_is_said() -> bool | None:
        nonlocal said
        said += capfd.readouterr().err
        return "query: waiting" in said or None

    reading, result, _ = waiting(db, "SELECT nowhere(text) FROM docs")
    assert wait_for(waiting_is_said)
    assert "none" in said
    result.cancel()
    reading.ended()


def test_a_waiting_query_is_cancelled_from_elsewhere(db: Database, folder: Path):
    reading, _, record = waiting(db, "SELECT nowhere(text) FROM docs")
    with open_database(folder) as other:
        other.cancel_job(record.id)
    assert reading.ended() < SOON_SECONDS
    assert isinstance(reading.error, Cancelled)


def test_a_waiting_query_is_cancelled_by_its_result(db: Database):
    reading, result, record = waiting(db, "SELECT nowhere(text) FROM docs")
    result.cancel()
    assert reading.ended() < SOON_SECONDS
    assert isinstance(reading.error, Cancelled)
    assert db.get_job(record.id).status() is JobState.CANCELLED


def test_ctrl_c_ends_a_waiting_query_and_says_for_what_it_waited_and_how_to_go_on(db: Database):
    known = {job.id for job in db.list_jobs()}

    def interrupt() -> None:
        wait_for(lambda: next((job for job in db.list_jobs(states=["waiting"]) if job.id not in known), None))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match=r"waited: .*'none'.*run it again.*wait = false"):
        db.sql("SELECT nowhere(text) FROM docs").fetchall()
    thread.join()
    assert newest(db).state is JobState.CANCELLED


def held(db: Database) -> tuple[Counter[str], int, set[str], int]:
    """What queries may leave in a process: objects of theirs, Arrow's memory, DuckDB's functions and open files."""
    gc.collect()
    rooms = ("lancegpu_sql.query.", "lancegpu_sql.apply.", "lancegpu_sql.database.query_runs", "_duckdb", "pyarrow.")
    objects = Counter(type(each).__name__ for each in gc.get_objects() if str(type(each).__module__).startswith(rooms))
    functions = db.sql("SELECT function_name FROM duckdb_functions() WHERE NOT internal").fetchall()
    return (
        objects,
        pa.total_allocated_bytes(),
        {name for (name,) in functions},
        sum("catalog.sqlite" not in opened for opened in open_files()),  # of connections to it some are kept
    )


def open_files() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that which lists them
            yield str(descriptor.readlink())


def test_queries_leave_nothing_behind(db: Database):
    """What the process then has beyond this is what the C library keeps of memory that was given back."""
    sql = "SELECT sum(size('x' || i)), TRY(size('bad')) FROM range(20000) r(i) WHERE size('y' || i) > 2"

    def ask() -> None:
        db.sql(sql).fetchall()
        db.sql(sql.replace("20000", "30")).to_reader().read_all()
        with pytest.raises(RowFailed):
            db.sql("SELECT size('bad')").fetchall()

    ask()  # their plans stay
    before = held(db)
    for _ in range(3):
        ask()
    # A thread of DuckDB's lets go of an error a moment after it was told.
    wait_for(lambda: all(now <= then for now, then in zip(held(db), before, strict=True)) or None)


def test_a_query_cannot_be_held_nor_gone_on_with(db: Database):
    db.sql("SELECT size('abc')").fetchall()
    with pytest.raises(Conflict, match="cannot be held"):
        db.pause_job(newest(db).id)
    with pytest.raises(Conflict, match="run it again"):
        db.resume_job(newest(db).id)


def test_closing_a_reader_gives_its_worker_back(db: Database):
    """Arrow does not tell that a reader was closed, but nobody asks for rows any more."""
    reader = db.sql("SELECT on_one('x' || i) FROM range(10000000) r(i)").to_reader(1000)
    reader.read_next_batch()
    other, _, _ = waiting(db, "SELECT also_on_one(text) FROM docs WHERE id = 1")
    reader.close()
    other.ended()
    assert other.rows == [("A",)]


def test_a_reader_that_paused_goes_on_with_another_worker(db: Database):
    reader = db.sql("SELECT on_one('x' || i) AS v FROM range(20000) r(i)").to_reader(1000)
    rows = reader.read_next_batch().num_rows
    assert db.sql("SELECT also_on_one(text) FROM docs WHERE id = 1").fetchall() == [("A",)]
    assert rows + sum(batch.num_rows for batch in reader) == 20_000


def test_a_query_of_a_process_that_died_has_failed(db: Database, folder: Path):
    program = (
        "import os, sys, threading, time, lancegpu_sql as lg\n"
        f"db = lg.connect({str(folder / 'db')!r}, runtime_folder={str(folder / 'run')!r}, progress='quiet')\n"
        "threading.Thread(target=lambda: db.sql('SELECT nowhere(text) FROM docs').fetchall(), daemon=True).start()\n"
        "while not db.list_jobs(states=['waiting']): time.sleep(0.02)\n"
        "print(db.list_jobs(states=['waiting'])[0].id, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    job_id = done.stdout.strip()
    (job,) = [job for job in db.list_jobs() if job.id == job_id]
    assert job.state is JobState.FAILED


def test_a_database_that_is_closed_ends_its_queries(folder: Path):
    with open_database(folder) as database:
        reading, _, _ = waiting(database, "SELECT nowhere(text) FROM docs")
    reading.ended()
    assert isinstance(reading.error, Cancelled)


def test_a_fresh_computed_column_is_read_instead_of_a_call(db: Database):
    table = db.create_table("stored", pa.table({"id": [1, 2], "text": ["a", "bb"]}))
    table.add_columns({"n": db.get_function("size")(text=lg.col("text"))})
    explain = "EXPLAIN SELECT id FROM stored WHERE size(text) > 1"
    assert "read from n in the rows" in db.sql(explain).fetchall()[0][1]
    table.refresh_column("n")
    before = len(db.list_jobs())
    assert db.sql("SELECT id, size(text) FROM stored WHERE size(text) > 1").fetchall() == [(2, 2)]
    assert len(db.list_jobs()) == before
    assert "read from n" in db.sql(explain).fetchall()[0][1]
    table.update(where="id = 1", values={"text": "ccc"})
    assert db.sql("SELECT id FROM stored WHERE size(text) > 1 ORDER BY id").fetchall() == [(1,), (2,)]


def test_a_reader_that_is_dropped_leaves_another_of_its_result_alone(db: Database):
    result = db.sql("SELECT size('x' || i) AS v FROM range(5000) r(i)")
    one, two = result.to_reader(1000), result.to_reader(1000)
    rows = two.read_next_batch().num_rows
    one.read_next_batch()
    del one
    assert rows + sum(batch.num_rows for batch in two) == 5000
