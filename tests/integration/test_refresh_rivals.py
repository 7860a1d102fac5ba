"""Writers that come between a refresh's last look and its commit, and tables that came from elsewhere."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from refresh_kit import open_database, short_folder

from lancegpu_sql import col, function
from lancegpu_sql.apply.digest import row_digests, to_array
from lancegpu_sql.database import Database
from lancegpu_sql.errors import FunctionNotFound
from lancegpu_sql.refresh.checkpoint import PartWriter, part_schema
from lancegpu_sql.refresh.current import Arguments
from lancegpu_sql.refresh.publication import Unpublished, publish
from lancegpu_sql.refresh.target import Target, declared_function, find_target
from lancegpu_sql.tables import Fragment, Snapshot, TableStore


@function(name="scaled")
def ten_times(a: int) -> int:
    return a * 10


@function(name="scaled")
def hundred_times(a: int) -> int:
    return a * 100


@function(name="next")
def plus_one(x: int) -> int:
    return x + 1


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


@pytest.fixture
def shop(folder: Path) -> Iterator[Database]:
    with open_database(folder) as opened:
        yield opened


class WithRival(Target):
    """A target that lets a rival write once its fragment was looked at for the last time before the commit."""

    looks = 0
    rival: Callable[[], None]

    def signature(self, fragment: Fragment) -> bytes:
        found = super().signature(fragment)
        type(self).looks += 1
        if self.looks == 2:  # the first look is before the column file is written
            self.rival()
        return found


def part_of(shop: Database, snapshot: Snapshot, target: Target, folder: Path, values: list[int]) -> Unpublished:
    """The checkpoint of rows that a refresh has just computed."""
    computed = declared_function(shop._services.catalog, target.table, target.declaration)
    schema = part_schema(target.value_fields)
    writer = PartWriter(folder / "parts" / "000000", schema)
    waiting = Unpublished()
    for batch in snapshot.scan(target.inputs, row_id=True, row_address=True):
        digests = row_digests(Arguments(target, computed).of(batch), target.key)
        keys = [batch.column("_rowaddr"), batch.column("_rowid"), to_array(digests)]
        writer.write(pa.RecordBatch.from_arrays([*keys, pa.array(values, pa.int64())], schema=schema))
        waiting.count(batch.column("_rowaddr"))
    waiting.computed.append(writer.finish())
    return waiting


def test_an_input_replaced_just_before_the_commit_leaves_the_values_stale(shop: Database, folder: Path) -> None:
    table = shop.create_table("t", pa.table({"a": [1, 2]}))
    table.add_columns({"x": ten_times(a=col("a"))})
    table.refresh_column("x")
    table.add_columns({"y": plus_one(x=col("x"))})
    snapshot = shop._services.tables.open("t")
    plain = find_target(snapshot, "y")

    class Late(WithRival):
        def rival(self) -> None:  # type: ignore[override]
            table.alter_column("x", function=hundred_times)
            table.refresh_column("x")

    target = Late(**vars(plain))
    signatures = {one.id: plain.signature(one) for one in snapshot.fragments}
    waiting = part_of(shop, snapshot, plain, folder, [11, 21])
    done = publish(TableStore(folder / "db"), snapshot, target, waiting, signatures, job_id="job")
    assert (done.rows, done.lost) == ({}, (0,))
    assert table.columns_status()[1].fresh_rows == 0
    assert table.refresh_column("y").rows_assigned == 2
    assert table.to_arrow(["y"])["y"].to_pylist() == [101, 201]


def test_a_copied_table_is_not_computed_by_another_function_of_the_same_number(folder: Path) -> None:
    copied(folder)
    with open_database(folder / "to") as there:
        there.create_function(hundred_times)
        table = there.open_table("t")
        with pytest.raises(FunctionNotFound, match="Register that Function here"):
            table.refresh_column("y")
        with pytest.raises(FunctionNotFound):
            table.columns_status()
        assert table.to_arrow(["y"])["y"].to_pylist() == [10, 20, None]


def test_a_copied_table_is_computed_by_its_function_whatever_number_it_has(folder: Path) -> None:
    copied(folder)
    with open_database(folder / "to") as there:
        there.create_function(hundred_times)
        assert there.create_function(ten_times).version == 2
        assert there.open_table("t").refresh_column("y").rows_assigned == 1
        assert Counter(there.open_table("t").to_arrow(["y"])["y"].to_pylist()) == Counter([10, 20, 30])


def copied(folder: Path) -> None:
    """A table with three rows, two of them computed, in a folder that is not a database of ours yet."""
    with open_database(folder / "from") as source:
        table = source.create_table("t", pa.table({"a": [1, 2]}))
        table.add_columns({"y": ten_times(a=col("a"))})
        table.refresh_column("y")
        table.add([{"a": 3}])
    shutil.copytree(folder / "from" / "db" / "t.lance", folder / "to" / "db" / "t.lance")
