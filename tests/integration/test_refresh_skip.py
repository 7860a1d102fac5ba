"""A refresh with error_policy='skip': exactly the rows that fail are null, and it is told why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pytest
from refresh_kit import by_key, open_database, short_folder, status

from lancegpu_sql import col, function
from lancegpu_sql.database import Database, Table
from lancegpu_sql.errors import InvalidInput, RowFailed, TooManyFailedRows


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[Database]:
    with open_database(folder) as database:
        yield database


@pytest.fixture
def table(shop: Database, request: pytest.FixtureRequest) -> Table:
    """Keys 0 to 99 in two fragments."""
    name = "".join(sign if sign.isalnum() else "_" for sign in request.node.name)
    numbers = [pa.array(range(start, start + 50), pa.int64()) for start in (0, 50)]
    table = shop.create_table(name, pa.table({"key": numbers[0], "x": numbers[0]}))
    table.add(pa.table({"key": numbers[1], "x": numbers[1]}))
    return table


@function
def picky(x: int) -> int:
    if x < 0:
        raise ValueError(f"no negative numbers: {x}")
    return 10 * x


def spoil(table: Table, *keys: int) -> None:
    for key in keys:
        table.update(where=f"key = {key}", values={"x": -key - 1})


def test_exactly_the_failing_rows_are_null_and_marked(table: Table) -> None:
    spoil(table, 0, 17, 99)
    table.add_columns({"y": picky(x=col("x"))})
    result = table.refresh_column("y", error_policy="skip")
    assert (result.mode, result.rows_assigned, result.rows_failed, result.rows_remaining) == ("full", 97, 3, 3)
    assert status(table) == (97, 0, 3, 0)
    assert by_key(table) == {key: None if key in (0, 17, 99) else 10 * key for key in range(100)}


def test_a_failed_row_is_left_alone_until_it_is_asked_for_or_changes(table: Table) -> None:
    spoil(table, 3, 4)
    table.add_columns({"y": picky(x=col("x"))})
    table.refresh_column("y", error_policy="skip")
    assert table.refresh_column("y").mode == "no_op"
    table.update(where="key = 3", values={"x": 3})
    result = table.refresh_column("y")
    assert (result.rows_assigned, result.rows_failed, result.rows_remaining) == (1, 0, 1)
    again = table.refresh_column("y", error_policy="skip", retry_failed=True)
    assert (again.rows_assigned, again.rows_failed) == (0, 1)
    with pytest.raises(RowFailed):
        table.refresh_column("y", retry_failed=True)


def test_another_version_tries_failed_rows_again(shop: Database, table: Table) -> None:
    spoil(table, 3)
    table.add_columns({"y": picky(x=col("x"))})
    table.refresh_column("y", error_policy="skip")

    @function(name="picky")
    def tolerant(x: int) -> int:
        return x

    table.alter_column("y", function=shop.create_function(tolerant))
    assert table.refresh_column("y").rows_assigned == 100
    assert by_key(table)[3] == -4


def test_it_is_told_why_rows_failed(table: Table) -> None:
    spoil(table, 3, 60)
    table.add_columns({"y": picky(x=col("x"))})
    job = table.refresh_column_async("y", error_policy="skip")
    job.wait()
    errors = job.errors()
    assert [(one.owner, one.error_type, one.tries) for one in errors] == [("user", "ValueError", 1)] * 2
    assert "in picky" in str(errors[0].traceback)
    ids = table.to_arrow(["_rowid"], where="key = 3 OR key = 60")["_rowid"].to_pylist()
    assert [one.row_id for one in errors] == ids
    (group,) = errors.groups()
    assert (group.pattern, group.rows) == ("ValueError: no negative numbers: …", 2)
    assert (list(table.errors("y")), table.errors("y").truncated) == (list(errors), False)


def test_errors_of_a_column_are_those_of_rows_that_are_failed_now(table: Table) -> None:
    spoil(table, 3, 60)
    table.add_columns({"y": picky(x=col("x"))})
    table.refresh_column("y", error_policy="skip")
    table.update(where="key = 3", values={"x": 3})
    assert len(table.errors("y")) == 1
    table.delete("key = 60")
    assert len(table.errors("y")) == 0


def test_what_is_kept_of_errors_is_bounded_and_says_so(table: Table, shop: Database, folder: Path) -> None:
    spoil(table, 1, 2, 3)
    table.add_columns({"y": picky(x=col("x"))})
    with open_database(folder, job_errors_kept=2) as other:
        job = other.open_table(table.name).refresh_column_async("y", error_policy="skip")
        assert job.wait().rows_failed == 3
        assert (len(job.errors()), job.errors().truncated) == (2, True)
        assert other.open_table(table.name).errors("y").truncated is False  # one more was kept to tell
    assert status(table) == (97, 0, 3, 0)


@pytest.mark.parametrize("limit", [{"max_failed_rows": 2}, {"max_failed_fraction": 0.02}])
def test_beyond_what_is_allowed_the_refresh_fails_and_keeps_what_is_finished(
    table: Table, limit: dict[str, Any]
) -> None:
    spoil(table, 20, 30, 70)
    table.add_columns({"y": picky(x=col("x"))})
    with pytest.raises(TooManyFailedRows, match="3 of 100 rows" if "max_failed_fraction" in limit else "3 of"):
        table.refresh_column("y", error_policy="skip", **limit)
    assert status(table) == (0, 0, 0, 100)
    job = table.refresh_column_async("y", error_policy="skip")
    assert job.wait().rows_failed == 3
    assert job.progress.rows_computed < 97, "what was finished was computed again"
    assert status(table) == (97, 0, 3, 0)


def test_bounds_alone_are_refused(table: Table) -> None:
    table.add_columns({"y": picky(x=col("x"))})
    with pytest.raises(InvalidInput, match="error_policy='skip'"):
        table.refresh_column("y", max_failed_rows=1)


def test_a_column_that_reads_failed_rows_takes_them_for_null(table: Table) -> None:
    spoil(table, 3)
    table.add_columns({"y": picky(x=col("x"))})
    table.refresh_column("y", error_policy="skip")

    @function
    def known(y: int | None) -> bool:
        return y is not None

    table.add_columns({"z": known(y=col("y"))})
    table.refresh_column("z")
    assert [key for key, value in by_key(table, "z").items() if not value] == [3]
    table.update(where="key = 3", values={"x": 3})
    table.refresh_column("y")
    table.refresh_column("z")
    assert all(by_key(table, "z").values())


def test_why_a_refresh_failed_is_among_its_errors(table: Table) -> None:
    spoil(table, 3)
    table.add_columns({"y": picky(x=col("x"))})
    job = table.refresh_column_async("y")
    with pytest.raises(RowFailed):
        job.wait()
    (error,) = job.errors()
    assert (error.owner, error.error_type, error.arguments) == ("user", "ValueError", {"x": -4})


def test_a_struct_that_failed_is_null_in_all_its_columns(table: Table) -> None:
    @function
    def parted(x: int) -> Annotated[dict, pa.struct([("half", pa.int64()), ("rest", pa.int64())])]:  # type: ignore[type-arg]
        return {"half": 2 // (x - 5), "rest": x}

    table.add_columns(parted(x=col("x")))
    assert table.refresh_column("half", error_policy="skip").rows_failed == 1
    assert (by_key(table, "half")[5], by_key(table, "rest")[5], by_key(table, "rest")[6]) == (None, None, 6)
    assert [one.row_id for one in table.errors("rest")] == [one.row_id for one in table.errors("half")]


def test_what_fits_into_memory_is_kept_for_the_next_job(folder: Path, shop: Database, table: Table) -> None:
    @function
    def hungry(x: pa.Int64Array) -> pa.Int64Array:
        if len(x) > 8:
            raise MemoryError
        return x

    table.add_columns({"y": hungry(x=col("x"))})
    job = table.refresh_column_async("y")
    assert job.wait().rows_assigned == 100
    assert ("batch_halved" in [event.kind for event in job.events()], list(job.errors())) == (True, [])
    with open_database(folder) as other:
        again = other.open_table(table.name).refresh_column_async("y", "true")
        assert again.wait().rows_assigned == 100
        assert "batch_halved" not in [event.kind for event in again.events()]
