"""A refresh computes the rows that need it and nothing else, whatever happened to the table."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import lancedb
import pyarrow as pa
import pytest
from refresh_kit import (
    PATIENCE_SECONDS,
    Calls,
    Gate,
    by_key,
    gated,
    noting,
    open_database,
    reference,
    short_folder,
    status,
)
from skips import Skip

from lancegpu_sql import col, function
from lancegpu_sql.catalog.models import JobState
from lancegpu_sql.database import Database, JobHandle, Table
from lancegpu_sql.errors import (
    Cancelled,
    CatalogError,
    ColumnNotFound,
    InUse,
    InvalidQuery,
    RowFailed,
    StaleInput,
    StorageError,
    WrongResult,
)

Make = Callable[..., Table]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[Database]:
    """One database, and with it one warm worker per Function, for all tests here."""
    with open_database(folder) as database:
        yield database


@pytest.fixture(scope="module")
def all_calls(folder: Path) -> Calls:
    return Calls(folder / "calls")


@pytest.fixture
def calls(all_calls: Calls) -> Calls:
    all_calls.take()
    return all_calls


@pytest.fixture
def gate(folder: Path, request: pytest.FixtureRequest) -> Iterator[Gate]:
    made = Gate(folder / f"gate-{request.node.name}")
    yield made
    made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in request.node.name)


@pytest.fixture
def make(shop: Database, calls: Calls, name: str) -> Make:
    """Make a table of keys 1 to `rows` with x = key, one fragment per append, and declare y."""

    def made(rows: int = 6, *, fragments: int = 2, by: Any = None) -> Table:
        keys = list(range(1, rows + 1))
        step = max(1, -(-rows // fragments))
        schema = pa.schema([("key", pa.int64()), ("x", pa.int64()), ("other", pa.string())])
        table = shop.create_table(name, pa.table({"key": [], "x": [], "other": []}, schema=schema))
        for start in range(0, rows, step):
            some = keys[start : start + step]
            table.add(pa.table({"key": some, "x": some, "other": [str(key) for key in some]}, schema=schema))
        table.add_columns({"y": (by or noting(calls))(key=col("key"), x=col("x"))})
        return table

    return made


def agrees(table: Table, column: str = "y", times: int = 10) -> bool:
    """Whether the column equals the reference in every row."""
    return by_key(table, column) == {key: reference(x, times) for key, x in by_key(table, "x").items()}


def wait_for(job: JobHandle[Any], reached: Callable[[], bool]) -> None:
    """Look again whenever the job's record changes, and a few times a second, until it got that far."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    record = job.record
    while not reached():
        assert not job.ended(), job.record
        assert time.monotonic() < give_up, job.record
        record = job.next_change(record, 0.2)


@contextmanager
def held(table: Table, gate: Gate, column: str = "y") -> Iterator[JobHandle[Any]]:
    """A refresh that stands still in the midst of a call."""
    gate.arm()
    job = table.refresh_column_async(column)
    gate.wait_for_call()
    try:
        yield job
    finally:
        gate.open()


def test_every_row_is_computed_once_and_a_computed_null_is_a_value(make: Make, calls: Calls) -> None:
    table = make(8)
    result = table.refresh_column("y")
    assert (result.mode, result.rows_assigned, result.rows_remaining) == ("full", 8, 0)
    assert agrees(table)
    assert by_key(table)[7] is None
    assert status(table) == (8, 0, 0, 0)
    table.refresh_column("y")
    assert calls.take() == Counter(range(1, 9))


def test_a_refresh_with_nothing_to_do_reads_no_data_calls_nothing_and_makes_no_version(
    make: Make, calls: Calls, folder: Path, name: str
) -> None:
    table = make()
    version = table.refresh_column("y").version
    calls.take()
    data = folder / "db" / f"{name}.lance" / "data"
    data.rename(data.with_name("away"))
    result = table.refresh_column("y")
    states = status(table)
    data.with_name("away").rename(data)
    assert (result.mode, result.rows_assigned, result.version, table.version) == ("no_op", 0, version, version)
    assert states == (6, 0, 0, 0)
    assert not calls.take()


def test_before_the_first_refresh_every_row_is_never_computed(make: Make) -> None:
    assert status(make()) == (0, 0, 0, 6)


def test_an_update_of_an_input_recomputes_these_rows_only(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.update("key in (2, 5)", values_sql={"x": "x + 100"})
    assert status(table) == (4, 2, 0, 0)
    assert table.refresh_column("y").rows_assigned == 2
    assert calls.take() == Counter([2, 5])
    assert agrees(table)


def test_an_update_of_another_column_recomputes_nothing(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.update("key > 2", {"other": "changed"})
    assert table.refresh_column("y").mode == "no_op"
    assert not calls.take()
    assert agrees(table)


def test_an_update_to_the_same_value_recomputes_nothing(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.update(values_sql={"x": "x + 0"})
    table.refresh_column("y")
    assert not calls.take()


def test_a_refresh_after_compaction_calls_nothing(make: Make, calls: Calls) -> None:
    table = make(fragments=3)
    table.refresh_column("y")
    table.delete("key = 4")
    calls.take()
    assert table.optimize().fragments_removed > 1
    assert status(table) == (5, 0, 0, 0)
    assert table.refresh_column("y").mode == "no_op"
    assert not calls.take()
    assert agrees(table)


def test_after_a_restore_the_rows_are_current_again_without_a_call(make: Make, calls: Calls) -> None:
    table = make()
    computed = table.refresh_column("y").version
    table.update(values_sql={"x": "x * 2"})
    table.refresh_column("y")
    calls.take()
    table.restore(computed)
    assert table.refresh_column("y").mode == "no_op"
    assert not calls.take()
    assert agrees(table)


def test_a_restore_of_old_inputs_under_values_never_computed_computes_them(make: Make, calls: Calls) -> None:
    table = make()
    declared = table.version
    table.refresh_column("y")
    calls.take()
    table.restore(declared)
    assert status(table) == (0, 0, 0, 6)
    table.refresh_column("y")
    assert calls.take() == Counter(range(1, 7))
    assert agrees(table)


def test_an_overwritten_table_is_computed_anew(shop: Database, make: Make, calls: Calls, name: str) -> None:
    make().refresh_column("y")
    calls.take()
    table = shop.create_table(name, pa.table({"key": [1, 2], "x": [1, 2]}), mode="overwrite")
    with pytest.raises(ColumnNotFound):
        table.refresh_column("y")
    table.add_columns({"y": noting(calls)(key=col("key"), x=col("x"))})
    table.refresh_column("y")
    assert calls.take() == Counter([1, 2])


def test_a_merge_computes_the_rows_it_changed_and_added(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    rows = pa.table({"key": [2, 3, 9], "x": [20, 3, 90]})
    table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    table.refresh_column("y")
    assert calls.take() == Counter([2, 9])
    assert agrees(table)


def test_filling_a_sibling_column_recomputes_nothing(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.add_columns({"z": "x * 2"})
    assert table.refresh_column("y").mode == "no_op"
    assert not calls.take()


def test_renaming_the_input_and_the_column_recomputes_nothing(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.alter_column("x", rename="number")
    table.alter_column("y", rename="result")
    assert table.refresh_column("result").mode == "no_op"
    table.update("key = 1", {"number": 5})
    table.refresh_column("result")
    assert calls.take() == Counter([1])
    assert by_key(table, "result")[1] == 50


def test_another_function_version_recomputes_every_row(shop: Database, make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.alter_column("y", function=noting(calls, times=3))
    assert status(table) == (0, 6, 0, 0)
    assert agrees(table, times=10)
    assert table.refresh_column("y").mode == "full"
    assert calls.take() == Counter(range(1, 7))
    assert agrees(table, times=3)


def test_going_back_to_a_version_before_a_refresh_recomputes_nothing(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    table.alter_column("y", function=noting(calls, times=3))
    table.alter_column("y", function=noting(calls))
    assert table.refresh_column("y").mode == "no_op"
    assert not calls.take()


def test_a_struct_is_spread_over_siblings_in_one_commit(shop: Database, name: str) -> None:
    @function(output_schema=pa.schema([("low", pa.int64()), ("text", pa.string())]))
    def halves(x: int):
        return {"low": x // 2, "text": str(x)}

    table = shop.create_table(name, pa.table({"x": [4, None, 10]}))
    table.add_columns(halves(x=col("x")).rename(columns={"text": "name"}))
    before = table.version
    result = table.refresh_column("name")
    assert (result.version, result.rows_assigned) == (before + 1, 3)
    assert table.to_arrow(["low", "name"]).to_pylist() == [
        {"low": 2, "name": "4"},
        {"low": None, "name": None},
        {"low": 5, "name": "10"},
    ]
    assert table.refresh_column("low").mode == "no_op"


def test_a_struct_can_be_one_column(shop: Database, name: str) -> None:
    @function(output_schema=pa.schema([("pair", pa.struct([("low", pa.int64()), ("high", pa.int64())]))]))
    def pair_up(x: int):
        return {"low": x, "high": x + 1} if x else None

    table = shop.create_table(name, pa.table({"x": [1, 0, None]}))
    table.add_columns({"pair": pair_up(x=col("x"))})
    table.refresh_column("pair")
    assert table.to_arrow(["pair"])["pair"].to_pylist() == [{"low": 1, "high": 2}, None, None]
    assert table.refresh_column("pair").mode == "no_op"


def test_lists_and_vectors_are_results(shop: Database, name: str) -> None:
    @function
    def letters(text: str) -> list[str]:
        return list(text)

    @function
    def vector(text: str) -> Annotated[list[float], pa.list_(pa.float32(), 3)]:
        return [float(len(text)), 0.5, -1.0]

    table = shop.create_table(name, pa.table({"text": ["ab", "", None]}))
    table.add_columns({"letters": letters(text=col("text")), "vector": vector(text=col("text"))})
    table.refresh_column("letters")
    table.refresh_column("vector")
    assert table.to_arrow()["letters"].to_pylist() == [["a", "b"], [], None]
    assert table.to_arrow()["vector"].to_pylist() == [[2.0, 0.5, -1.0], [0.0, 0.5, -1.0], None]
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 3)


def test_where_recomputes_the_matching_rows_current_or_not(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    table.update("key = 6", {"x": 60})
    calls.take()
    result = table.refresh_column("y", where="key in (1, 2)")
    assert (result.rows_assigned, result.rows_remaining) == (2, 1)
    assert calls.take() == Counter([1, 2])
    assert status(table) == (5, 1, 0, 0)
    table.refresh_column("y")
    assert calls.take() == Counter([6])


def test_where_may_name_a_row_by_its_id(make: Make, calls: Calls) -> None:
    table = make()
    table.refresh_column("y")
    calls.take()
    assert table.refresh_column("y", where="_rowid = 1").rows_assigned == 1
    assert calls.take() == Counter([2])


@pytest.mark.parametrize("where", ["nonsense(", "missing_column = 1"])
def test_a_predicate_that_is_none_is_refused_before_it_is_a_job(shop: Database, make: Make, where: str) -> None:
    table = make()
    with pytest.raises(InvalidQuery):
        table.refresh_column("y", where=where)
    assert shop.list_jobs(table.name) == []


def test_the_progress_of_a_where_refresh_counts_the_matching_rows(make: Make) -> None:
    table = make()
    table.refresh_column("y")
    job = table.refresh_column_async("y", where="key in (1, 2)")
    job.wait()
    progress = job.progress
    assert (progress.rows_planned, progress.rows_computed, progress.rows_reused) == (2, 2, 0)


def test_where_may_match_nothing(make: Make, calls: Calls) -> None:
    table = make()
    result = table.refresh_column("y", where="key > 100")
    assert (result.mode, result.rows_assigned, result.rows_remaining) == ("no_op", 0, 6)
    assert not calls.take()


def test_an_interrupted_where_refresh_is_resumed_without_computing_twice(
    shop: Database, make: Make, calls: Calls, gate: Gate
) -> None:
    table = make(100, by=gated(calls, gate, at=60))
    table.refresh_column("y")
    calls.take()
    gate.arm()
    job = table.refresh_column_async("y", where="key > 20", batch_size=1)
    gate.wait_for_call()
    wait_for(job, lambda: job.progress.rows_computed == 39)
    job.cancel()
    with pytest.raises(Cancelled):
        job.wait()
    assert calls.take() == Counter(range(21, 60))
    result = shop.resume_job(job.id)
    assert calls.take() == Counter(range(60, 101))
    assert (result.rows_assigned, result.job_id, agrees(table)) == (80, job.id, True)


def test_a_where_refresh_takes_nothing_over_from_another_job(
    shop: Database, make: Make, calls: Calls, gate: Gate
) -> None:
    table = make(20, by=gated(calls, gate, at=15))
    gate.arm()
    job = table.refresh_column_async("y", where="key > 5", batch_size=1)
    gate.wait_for_call()
    job.cancel()
    with pytest.raises(Cancelled):
        job.wait()
    calls.take()
    table.refresh_column("y", where="key > 5")
    assert calls.take() == Counter(range(6, 21))


def test_a_stale_computed_input_refuses_before_any_write(make: Make, calls: Calls) -> None:
    table = make()
    table.add_columns({"y2": noting(calls)(key=col("key"), x=col("y"))})
    version = table.version
    with pytest.raises(StaleInput, match="refresh y first") as caught:
        table.refresh_column("y2")
    assert caught.value.facts["columns"] == ("y",)
    assert table.version == version
    assert not calls.take()


def test_a_chain_of_computed_columns_follows_its_source(make: Make, calls: Calls) -> None:
    table = make()
    table.add_columns({"y2": noting(calls)(key=col("key"), x=col("y"))})
    for change in ("x", "x + 1"):
        table.update("key = 3", values_sql={"x": change})
        table.refresh_column("y")
        table.refresh_column("y2")
        y = by_key(table)
        assert by_key(table, "y2") == {key: reference(value) for key, value in y.items()}
    assert calls.take() == Counter([*range(1, 7), *range(1, 7), 3, 3])


def test_a_table_of_lancedb_without_stable_row_ids_works(shop: Database, calls: Calls, folder: Path, name: str) -> None:
    theirs = lancedb.connect(folder / "db").create_table(name, pa.table({"key": [1, 2, 3], "x": [1, 2, 3]}))
    theirs.add(pa.table({"key": [4], "x": [4]}))
    table = shop.open_table(name)
    table.add_columns({"y": noting(calls)(key=col("key"), x=col("x"))})
    table.refresh_column("y")
    table.update("key = 2", {"x": 20})
    table.delete("key = 1")
    table.optimize()
    table.refresh_column("y")
    assert calls.take() == Counter([1, 2, 3, 4, 2])
    assert agrees(table)
    assert lancedb.connect(folder / "db").open_table(name).to_arrow()["y"].null_count == 0


def test_a_table_without_rows_is_refreshed_and_grows(make: Make, calls: Calls) -> None:
    table = make(0)
    assert table.refresh_column("y").mode == "no_op"
    table.add(pa.table({"key": [1], "x": [1]}))
    assert table.refresh_column("y").rows_assigned == 1
    table.delete("true")
    assert table.refresh_column("y").mode == "no_op"
    assert status(table) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "column",
    ["größe", "two words", "it's", 'say "x"', "address", "value", "digest", "row_id", "SELECT", "数", "a/b", "x,y"],
)
def test_odd_names_are_only_names(shop: Database, calls: Calls, name: str, column: str) -> None:
    table = shop.create_table(name, pa.table({"key": [1, 2], column: [1, 2]}))
    table.add_columns({f"{column} 2": noting(calls)(key=col("key"), x=col(column))})
    table.refresh_column(f"{column} 2")
    table.update("key = 2", {column: 5})
    quoted = '"' + column.replace('"', '""') + '"'
    table.refresh_column(f"{column} 2", where=f"{quoted} = 5")
    table.refresh_column(f"{column} 2")
    assert by_key(table, f"{column} 2") == {1: 10, 2: 50}
    assert calls.take() == Counter([1, 2, 2])
    assert shop.sql(f'SELECT sum("{(column + " 2").replace(chr(34), chr(34) * 2)}") FROM "{name}"').fetchall() == [
        (60,)
    ]


def test_results_appear_at_intervals(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(100, fragments=1, by=gated(calls, gate, at=60))
    gate.arm()
    job = table.refresh_column_async("y", publication_interval_rows=5, batch_size=1)
    gate.wait_for_call()
    wait_for(job, lambda: status(table)[0] >= 50)
    shown = {key: value for key, value in by_key(table).items() if value is not None}
    assert shown == {key: reference(key) for key in shown if reference(key) is not None}
    gate.open()
    result = job.wait()
    assert (result.rows_assigned, result.rows_remaining) == (100, 0)
    assert calls.take() == Counter(range(1, 101))
    assert agrees(table)


def test_batch_size_bounds_every_call(shop: Database, folder: Path, name: str) -> None:
    sizes = str(folder / "sizes")

    @function
    def sized(x: pa.Int64Array) -> pa.Int64Array:
        with Path(sizes).open("a") as file:
            file.write(f"{len(x)}\n")
        return x

    table = shop.create_table(name, pa.table({"x": range(100)}))
    table.add_columns({"y": sized(x=col("x"))})
    table.refresh_column("y", batch_size=7)
    written = [int(line) for line in Path(sizes).read_text().split()]
    assert max(written) == 7
    assert sum(written) == 100


def test_a_row_that_raises_is_named_and_what_was_finished_is_kept(shop: Database, folder: Path, name: str) -> None:
    seen, fixed = str(folder / "seen"), str(folder / "fixed")

    @function
    def picky(x: int) -> int:
        with Path(seen).open("a") as file:
            file.write(f"{x}\n")
        if x == 41 and not Path(fixed).exists():
            raise ValueError("I do not like 41")
        return x

    table = shop.create_table(name, pa.table({"x": range(60)}))
    table.add_columns({"y": picky(x=col("x"))})
    with pytest.raises(RowFailed, match="I do not like 41") as caught:
        table.refresh_column("y", batch_size=5)
    facts = caught.value.facts
    assert (facts["row_id"], facts["arguments"], facts["error_type"]) == (41, {"x": 41}, "ValueError")
    assert "in picky" in facts["user_traceback"]
    assert "lancegpu_sql" not in facts["user_traceback"]
    Path(fixed).touch()
    assert table.refresh_column("y").rows_remaining == 0
    numbers = Counter(int(line) for line in Path(seen).read_text().split())
    assert all(numbers[x] == 1 for x in range(10)), "the first part was computed twice"
    assert table.to_arrow()["y"].to_pylist() == list(range(60))


def test_a_result_of_another_type_is_refused(shop: Database, name: str) -> None:
    @function
    def wrong(x: int) -> int:
        return "text"  # type: ignore[return-value]

    table = shop.create_table(name, pa.table({"x": [1]}))
    table.add_columns({"y": wrong(x=col("x"))})
    version = table.version
    with pytest.raises(WrongResult, match="int64"):
        table.refresh_column("y")
    assert table.version == version


def test_a_copied_table_still_knows_its_declaration(
    shop: Database, make: Make, calls: Calls, folder: Path, name: str
) -> None:
    make().refresh_column("y")
    calls.take()
    shutil.copytree(folder / "db" / f"{name}.lance", folder / "db" / f"{name}_copy.lance")
    copy = shop.open_table(f"{name}_copy")
    assert copy.refresh_column("y").mode == "no_op"
    copy.update("key = 1", {"x": 5})
    copy.refresh_column("y")
    assert calls.take() == Counter([1])


def test_a_function_in_use_is_not_dropped(shop: Database, name: str) -> None:
    @function
    def needed(x: int) -> int:
        return x

    table = shop.create_table(name, pa.table({"x": [1]}))
    table.add_columns({"y": needed(x=col("x"))})
    with pytest.raises(InUse, match=rf"{name}\.y") as caught:
        shop.drop_function("needed")
    assert caught.value.facts["users"] == (f"{name}.y",) or caught.value.facts["users"] == [f"{name}.y"]
    table.drop_columns(["y"])
    shop.drop_function("needed")


def test_rows_appended_during_a_refresh_stay_and_come_next(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.add(pa.table({"key": [7, 8], "x": [70, 80]}))
    result = job.wait()
    assert (result.rows_assigned, result.rows_remaining) == (6, 2)
    table.refresh_column("y")
    assert calls.take() == Counter(range(1, 9))
    assert agrees(table)


def test_rows_updated_during_a_refresh_are_computed_from_their_new_inputs(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.update("key = 2", {"x": 20})
    job.wait()
    table.refresh_column("y")
    assert calls.take() == Counter([*range(1, 7), 2])
    assert agrees(table)


def test_rows_moved_by_an_update_of_another_column_keep_what_was_computed(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.update("key in (2, 5)", {"other": "changed"})
    result = job.wait()
    table.refresh_column("y")
    assert calls.take() == Counter(range(1, 7))
    assert (result.rows_assigned, result.rows_remaining) == (6, 0)
    assert agrees(table)


def test_rows_deleted_during_a_refresh_stay_deleted(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.delete("key in (1, 4, 5, 6)")
    result = job.wait()
    assert (result.rows_assigned, result.rows_remaining, status(table)) == (2, 0, (2, 0, 0, 0))
    assert by_key(table) == {2: 20, 3: 30}


def test_a_compaction_during_a_refresh_costs_no_call(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        assert table.optimize().fragments_removed == 2
    result = job.wait()
    assert (result.mode, result.rows_assigned, result.rows_remaining) == ("full", 6, 0)
    assert calls.take() == Counter(range(1, 7))
    assert agrees(table)


def test_a_compaction_during_a_where_refresh_costs_no_call(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate, at=4))
    table.refresh_column("y")
    calls.take()
    gate.arm()
    job = table.refresh_column_async("y", where="key in (2, 4)")
    gate.wait_for_call()
    table.optimize()
    gate.open()
    assert job.wait().rows_assigned == 2
    assert calls.take() == Counter([2, 4])


def test_a_where_refresh_publishing_in_two_steps_around_a_compaction_counts_each_row_once(
    make: Make, calls: Calls, gate: Gate
) -> None:
    table = make(30, by=gated(calls, gate, at=20))
    gate.arm()
    job = table.refresh_column_async("y", where="key > 2", batch_size=1, publication_interval_rows=5)
    gate.wait_for_call()
    wait_for(job, lambda: status(table)[0] >= 15)
    table.optimize()
    gate.open()
    result = job.wait()
    assert (result.rows_assigned, result.rows_remaining) == (28, 2)
    assert calls.take() == Counter(range(3, 31))


def test_a_restore_of_values_during_a_refresh_is_seen(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate, at=6))
    declared = table.version
    table.refresh_column("y", where="key in (1, 2, 4)")
    with held(table, gate) as job:
        table.restore(declared)
    job.wait()
    table.refresh_column("y")
    assert status(table) == (6, 0, 0, 0)
    assert agrees(table)


def test_another_function_version_during_a_refresh_makes_its_values_stale(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.alter_column("y", function=noting(calls, times=3))
    job.wait()
    table.refresh_column("y")
    assert agrees(table, times=3)
    assert status(table) == (6, 0, 0, 0)


def test_a_fill_of_a_sibling_during_a_refresh_costs_no_call(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        table.add_columns({"z": "x * 2"})
    assert job.wait().rows_remaining == 0
    assert calls.take() == Counter(range(1, 7))
    assert agrees(table)
    assert by_key(table, "z")[3] == 6


def test_an_overwrite_during_a_refresh_leaves_the_new_table_alone(
    shop: Database, make: Make, calls: Calls, gate: Gate, name: str
) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as job:
        shop.create_table(name, pa.table({"key": [1], "x": [5]}), mode="overwrite")
    with pytest.raises(ColumnNotFound):
        job.wait()
    assert table.to_arrow().to_pylist() == [{"key": 1, "x": 5}]


def test_of_two_refreshes_of_one_column_the_second_finds_nothing_to_do(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    with held(table, gate) as first:
        second = table.refresh_column_async("y")
        wait_for(second, lambda: second.waiting_on is not None and second.waiting_on.reason == "another_refresh")
    assert first.wait().rows_assigned == 6
    result = second.wait()
    assert (result.mode, result.rows_assigned, result.rows_remaining) == ("no_op", 0, 0)
    assert calls.take() == Counter(range(1, 7))


def test_two_columns_of_one_table_are_refreshed_at_once(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(by=gated(calls, gate))
    table.add_columns({"y2": noting(calls, times=3)(key=col("key"), x=col("x"))})
    with held(table, gate) as job:
        assert table.refresh_column("y2").rows_remaining == 0
    assert job.wait().rows_remaining == 0
    assert agrees(table)
    assert agrees(table, "y2", times=3)
    assert calls.take() == Counter([*range(1, 7), *range(1, 7)])


def test_an_update_during_a_chain_leaves_the_second_column_stale(make: Make, calls: Calls, gate: Gate) -> None:
    table = make()
    table.add_columns({"y2": gated(calls, gate)(key=col("key"), x=col("y"))})
    table.refresh_column("y")
    with held(table, gate, "y2") as job:
        table.update("key = 3", {"x": 30})
        table.refresh_column("y")
    job.wait()
    table.refresh_column("y2")
    y = by_key(table)
    assert by_key(table, "y2") == {key: reference(value) for key, value in y.items()}
    assert calls.take() == Counter([*range(1, 7), 3, *range(1, 7), 3])


def test_a_delete_of_what_is_being_computed_leaves_the_rest(make: Make, calls: Calls, gate: Gate) -> None:
    table = make(6, fragments=1, by=gated(calls, gate, at=6))
    table.refresh_column("y", where="key <= 3")
    with held(table, gate) as job:
        table.delete("key > 3")
    job.wait()
    assert by_key(table) == {1: 10, 2: 20, 3: 30}
    assert status(table) == (3, 0, 0, 0)


def test_a_row_that_was_deleted_uncomputed_and_restored_is_computed(make: Make, calls: Calls) -> None:
    table = make(6, fragments=1)
    kept = table.refresh_column("y", where="key <> 4").version
    table.delete("key = 4")
    assert table.refresh_column("y").rows_remaining == 0
    table.restore(kept)
    assert status(table) == (5, 0, 0, 1)
    table.refresh_column("y")
    assert agrees(table)
    assert calls.take() == Counter(range(1, 7))


PROGRAM = """
import sys
import lancegpu_sql as lg
folder, table = sys.argv[1:]
db = lg.connect(folder + "/db", runtime_folder=folder + "/run", max_workers=1)
db.open_table(table).refresh_column("y", batch_size=1)
"""


def test_ctrl_c_cancels_says_how_to_go_on_and_keeps_what_was_computed(
    shop: Database, make: Make, calls: Calls, gate: Gate, folder: Path, name: str
) -> None:
    table = make(100, by=gated(calls, gate, at=60))
    gate.arm()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), name], stderr=subprocess.PIPE, text=True)
    gate.wait_for_call()
    (job,) = (shop.get_job(one.id) for one in shop.list_jobs(table=name))
    wait_for(job, lambda: job.progress.rows_computed == 59)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert process.returncode == -signal.SIGINT or process.returncode == 130
    assert told.endswith(f"lancegpu --db {shop.uri} jobs resume {job.id}\n")
    assert job.status() is JobState.CANCELLED
    assert calls.take() == Counter(range(1, 60))
    table.refresh_column("y")
    assert calls.take() == Counter(range(60, 101))
    assert agrees(table)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    if os.geteuid() != 0:
        pytest.skip(f"{Skip.NEEDS_ROOT}: it mounts a small disk")
    place = folder / "disk"
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"{Skip.NEEDS_ROOT}: it mounts a small disk")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("left_bytes", [0, 50_000, 200_000, 450_000, 600_000, 800_000])
def test_a_full_disk_is_a_storage_error_and_nothing_is_lost(small_disk: Path, folder: Path, left_bytes: int) -> None:
    @function
    def padded(x: int) -> str:
        return str(x) * 200

    with open_database(small_disk, runtime_folder=folder / "run") as database:
        table = database.create_table("t", pa.table({"x": range(1000, 3000)}))
        table.add_columns({"y": padded(x=col("x"))})
        filler = small_disk / "filler"
        filler.write_bytes(b"0" * (shutil.disk_usage(small_disk).free - left_bytes))
        before = table.version
        with pytest.raises((StorageError, CatalogError), match=r"full|No space"):
            table.refresh_column("y")
        assert table.version == before
        assert table.count_rows() == 2000
        assert not list((small_disk / "db" / ".lancegpu" / "checkpoints").rglob("*.partial"))
        filler.unlink()
        assert table.refresh_column("y").rows_remaining == 0
        assert table.to_arrow()["y"].to_pylist() == [str(x) * 200 for x in range(1000, 3000)]
