"""A wrong argument, and a database that was closed, are told in words of the call, by an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancegpu_sql as lg
from lancegpu_sql import col, function
from lancegpu_sql.errors import Conflict, GpuClassNotFound, InvalidFunction, InvalidInput, LanceGpuError, LoadFailed

CLASSES = """\
gpu_classes:
  - {name: big, max_gpu_count_per_worker: 4, local: {simulated: 4}}
  - {name: small, local: {simulated: 1}}
"""


@function(name="add_one")
def add_one(x: int) -> int:
    return x + 1


@function(name="on_a_gpu", gpu=True, gpu_class="big", gpus=4)
def on_a_gpu(x: int) -> int:
    return x


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lg.Database]:
    (tmp_path / "classes.yaml").write_text(CLASSES)
    with lg.connect(
        tmp_path / "db", gpu_classes=tmp_path / "classes.yaml", progress="quiet", runtime_folder=tmp_path / "run"
    ) as opened:
        opened.create_table("t", pa.table({"x": [1, 2]})).add_columns({"y": on_a_gpu(x=col("x"))})
        yield opened


CALLS: dict[str, Callable[[lg.Database, lg.Table], Any]] = {
    "connect nothing": lambda db, t: lg.connect(None),  # type: ignore[arg-type]
    "connect bytes": lambda db, t: lg.connect(b"x"),  # type: ignore[arg-type]
    "connect settings": lambda db, t: lg.connect(db.uri, settings={"max_workers": 1}),  # type: ignore[arg-type]
    "connect classes": lambda db, t: lg.connect(db.uri, gpu_classes=3),  # type: ignore[arg-type]
    "create_table": lambda db, t: db.create_table(3, pa.table({"x": [1]})),  # type: ignore[arg-type]
    "create_table mode": lambda db, t: db.create_table("u", pa.table({"x": [1]}), mode="nope"),  # type: ignore[arg-type]
    "create_table data": lambda db, t: db.create_table("u", 5),
    "create_table nothing": lambda db, t: db.create_table("u"),
    "open_table": lambda db, t: db.open_table(None),  # type: ignore[arg-type]
    "drop_table": lambda db, t: db.drop_table(["t"]),  # type: ignore[arg-type]
    "convert_table": lambda db, t: db.convert_table(3),  # type: ignore[arg-type]
    "create_function": lambda db, t: db.create_function(3),  # type: ignore[arg-type]
    "get_function": lambda db, t: db.get_function(None),  # type: ignore[arg-type]
    "get_function version": lambda db, t: db.get_function("on_a_gpu", "1"),  # type: ignore[arg-type]
    "alter_function": lambda db, t: db.alter_function(None, gpus=1),  # type: ignore[arg-type]
    "alter_function nothing": lambda db, t: db.alter_function("on_a_gpu"),
    "drop_function": lambda db, t: db.drop_function(7),  # type: ignore[arg-type]
    "register_file": lambda db, t: db.register_file(3),  # type: ignore[arg-type]
    "apply_gpu_classes": lambda db, t: db.apply_gpu_classes(None),  # type: ignore[arg-type]
    "sql": lambda db, t: db.sql(5),  # type: ignore[arg-type]
    "sql nothing": lambda db, t: db.sql(""),
    "list_jobs states": lambda db, t: db.list_jobs(states=["nope"]),
    "list_jobs state": lambda db, t: db.list_jobs(states="failed"),
    "list_jobs limit": lambda db, t: db.list_jobs(limit=-1),
    "list_jobs table": lambda db, t: db.list_jobs(table=4),  # type: ignore[arg-type]
    "get_job": lambda db, t: db.get_job(None),  # type: ignore[arg-type]
    "cancel_job": lambda db, t: db.cancel_job(3),  # type: ignore[arg-type]
    "resume_job": lambda db, t: db.resume_job(b"x"),  # type: ignore[arg-type]
    "list_events": lambda db, t: db.list_events(3),  # type: ignore[arg-type]
    "count_rows": lambda db, t: t.count_rows(3),  # type: ignore[arg-type]
    "to_arrow": lambda db, t: t.to_arrow("x"),
    "to_pandas": lambda db, t: t.to_pandas([3]),  # type: ignore[list-item]
    "head": lambda db, t: t.head(-1),
    "head text": lambda db, t: t.head("3"),  # type: ignore[arg-type]
    "checkout": lambda db, t: t.checkout("1"),  # type: ignore[arg-type]
    "checkout zero": lambda db, t: t.checkout(0),
    "restore": lambda db, t: t.restore("1"),  # type: ignore[arg-type]
    "restore nothing": lambda db, t: t.restore(),
    "add": lambda db, t: t.add(3),
    "update nothing": lambda db, t: t.update("x = 1"),
    "update where": lambda db, t: t.update(3, {"x": 1}),  # type: ignore[arg-type]
    "update values": lambda db, t: t.update(values=[1]),  # type: ignore[arg-type]
    "delete": lambda db, t: t.delete(None),  # type: ignore[arg-type]
    "merge": lambda db, t: t.merge_insert(3),  # type: ignore[arg-type]
    "merge nothing": lambda db, t: t.merge_insert("x").execute(pa.table({"x": [1]})),
    "optimize": lambda db, t: t.optimize(cleanup_older_than=3),  # type: ignore[arg-type]
    "add_columns": lambda db, t: t.add_columns(None),  # type: ignore[arg-type]
    "add_columns value": lambda db, t: t.add_columns({"z": 3}),  # type: ignore[dict-item]
    "add_columns name": lambda db, t: t.add_columns({3: "x + 1"}),  # type: ignore[dict-item]
    "alter_column": lambda db, t: t.alter_column("y"),
    "alter_column name": lambda db, t: t.alter_column(3, rename="z"),  # type: ignore[arg-type]
    "alter_column type": lambda db, t: t.alter_column("x", data_type="int"),  # type: ignore[arg-type]
    "alter_column function": lambda db, t: t.alter_column("y", function=3),  # type: ignore[arg-type]
    "drop_columns": lambda db, t: t.drop_columns(3),  # type: ignore[arg-type]
    "refresh_column": lambda db, t: t.refresh_column(None),  # type: ignore[arg-type]
    "refresh_column where": lambda db, t: t.refresh_column("y", 3),  # type: ignore[arg-type]
    "refresh_column option": lambda db, t: t.refresh_column("y", nope=3),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_refused_by_an_error_of_ours(db: lg.Database, name: str):
    with pytest.raises(LanceGpuError):
        CALLS[name](db, db.open_table("t"))


HUGE = 10**5000
HALF = "\ud800"  # of a character
EXTREMES: dict[str, Callable[[lg.Database, lg.Table], Any]] = {
    **{
        f"{how}: {path[:9]!a}": lambda db, t, call=call, path=path: call(db, path)
        for path in (HALF, "a\0b", "x" * 5000, "~nobody-of-that-name/x")
        for how, call in {
            "connect": lambda db, path: lg.connect(path),
            "connect below": lambda db, path: lg.connect(f"{db.uri}/no/{path.replace('~', chr(0))}"),
            "runtime folder": lambda db, path: (
                lg.connect(db.uri, runtime_folder=path.replace("~", chr(0))).open_table("t").refresh_column("y")
            ),
            "register_file": lambda db, path: db.register_file(path),
            "apply_gpu_classes": lambda db, path: db.apply_gpu_classes(path),
            "create_table": lambda db, path: db.create_table("u", path),
        }.items()
    },
    "name of a column": lambda db, t: t.add_columns({HALF: on_a_gpu(x=col("x"))}),
    "name of a plain column": lambda db, t: t.add_columns({HALF: "x + 1"}),
    "column of a new table": lambda db, t: db.create_table("u", [{HALF: 1}]),
    "text in a new table": lambda db, t: db.create_table("u", [{"s": HALF}]),
    "renaming": lambda db, t: t.alter_column("x", rename=HALF),
    "function": lambda db, t: db.get_function(HALF),
    "job": lambda db, t: db.get_job(HALF),
    "query": lambda db, t: db.sql(f"SELECT '{HALF}'"),
    "where": lambda db, t: t.refresh_column("y", where=f"x = '{HALF}'"),
    "limit": lambda db, t: db.list_jobs(limit=10**30),
    "version of a function": lambda db, t: db.get_function("on_a_gpu", 10**30),
    "version of a table": lambda db, t: t.restore(10**30),
    "head": lambda db, t: t.head(2**63),
    "batch_size": lambda db, t: t.refresh_column("y", batch_size=HUGE),
    "cpus": lambda db, t: db.alter_function("on_a_gpu", cpus=HUGE),
    "setting": lambda db, t: lg.connect(db.uri, max_workers=-HUGE),
    "value": lambda db, t: t.update("x = 1", {"x": HUGE}),
    "row": lambda db, t: t.add([{"x": HUGE}]),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_what_nothing_can_hold_is_refused_by_an_error_of_ours(db: lg.Database, name: str):
    with pytest.raises(LanceGpuError):
        EXTREMES[name](db, db.open_table("t"))


def test_a_wrong_timeout_of_a_wait_is_refused(db: lg.Database):
    job = db.create_function_async(add_one)
    for wrong in ("x", -1, True):
        with pytest.raises(InvalidInput, match="timeout is to be a number of seconds"):
            job.wait(wrong)  # type: ignore[arg-type]
    assert job.wait(60).name == "add_one"


USES: dict[str, Callable[[lg.Database, lg.Table], Any]] = {
    "sql": lambda db, t: db.sql("SELECT 1"),
    "table_names": lambda db, t: db.table_names(),
    "open_table": lambda db, t: db.open_table("t"),
    "create_table": lambda db, t: db.create_table("u", pa.table({"x": [1]})),
    "list_functions": lambda db, t: db.list_functions(),
    "list_jobs": lambda db, t: db.list_jobs(),
    "list_gpu_classes": lambda db, t: db.list_gpu_classes(),
    "schema": lambda db, t: t.schema,
    "head": lambda db, t: t.head(),
    "add": lambda db, t: t.add([{"x": 1}]),
    "restore": lambda db, t: t.restore(1),
    "refresh_column": lambda db, t: t.refresh_column("y"),
    "merge_insert": lambda db, t: t.merge_insert("x").when_not_matched_insert_all().execute([{"x": 1}]),
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_database_says_that_it_was_closed(db: lg.Database, name: str):
    table = db.open_table("t")
    db.close()
    with pytest.raises(Conflict, match="was closed; connect again"):
        USES[name](db, table)


def test_a_database_may_be_closed_twice_and_still_be_printed(db: lg.Database):
    db.close()
    db.close()
    assert repr(db) == f"<database {db.uri}, closed>"


def test_what_another_database_registered_is_not_registered_without_its_code(db: lg.Database, tmp_path: Path):
    with (
        lg.connect(tmp_path / "other") as other,
        pytest.raises(InvalidFunction, match="on_a_gpu version 1 is what another database knows"),
    ):
        other.create_function(db.get_function("on_a_gpu"))  # type: ignore[arg-type]
    with pytest.raises(InvalidFunction, match="is registered in this database already"):
        db.create_function(db.get_function("on_a_gpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ("[{name: small, local: {simulated: 1}}]", "asks for GPU class 'big', which goes"),
        (
            "[{name: big, max_gpu_count_per_worker: 2, local: {simulated: 4}}, {name: small, local: {simulated: 1}}]",
            "asks for gpus=4, more than one worker of GPU class 'big' may then have",
        ),
    ],
)
def test_classes_that_a_function_cannot_run_on_any_more_are_told_before_and_refused_after(
    db: lg.Database, tmp_path: Path, classes: str, told: str
):
    (tmp_path / "new.yaml").write_text(f"gpu_classes: {classes}")
    warning = f"warning: Function on_a_gpu (it computes t.y) {told}"
    assert db.apply_gpu_classes(tmp_path / "new.yaml", dry_run=True)[-1].startswith(warning)
    assert db.apply_gpu_classes(tmp_path / "new.yaml")[-1].startswith(warning)
    with pytest.raises((GpuClassNotFound, InvalidInput), match=r"alter_function\('on_a_gpu', gpu_class="):
        db.open_table("t").refresh_column("y")
    assert db.list_jobs() == []


def test_a_file_that_cannot_be_imported_is_told_with_its_line(db: lg.Database, tmp_path: Path):
    (tmp_path / "helper_of_broken.py").write_text("def fail():\n    raise ValueError('no')\n")
    file = tmp_path / "broken_on_line_three.py"
    file.write_text("from helper_of_broken import fail\n\nfail()\n")
    with pytest.raises(LoadFailed) as caught:
        db.register_file(file)
    assert caught.value.message.splitlines()[1:] == [f'  File "{file}", line 3, in <module>', "    fail()"]


def test_what_happened_to_a_function_is_listed(db: lg.Database):
    db.alter_function("on_a_gpu", gpus=2)
    events = db.list_events("function on_a_gpu")
    assert [event.kind for event in events] == ["registered", "placement_changed"]
    assert "gpus from 4 to 2" in events[-1].message
