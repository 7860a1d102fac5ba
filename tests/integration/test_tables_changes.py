"""Writes by users: each shows in the next version, none touches a computed column."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables_kit import PLACES, PROOF, all_doubled, by_id, files_of, store_at, two_fragments

from lancegpu_sql.errors import (
    ColumnNotFound,
    ComputedColumnWrite,
    InvalidData,
    InvalidName,
    InvalidQuery,
    TableNotFound,
    VersionNotFound,
)
from lancegpu_sql.sql.literals import literal_of
from lancegpu_sql.tables import Snapshot, TableStore, changes, upkeep
from lancegpu_sql.tables.changes import MergeRules
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return store_at(request, tmp_path)


@pytest.fixture
def table(store: TableStore) -> Snapshot:
    return two_fragments(store)


def texts(table: Snapshot) -> dict[int, object]:
    return by_id(table, "text")


def test_added_rows_may_lack_columns_and_come_in_any_order(table: Snapshot) -> None:
    changes.add(table, reader_of({"text": ["f"], "id": [6]}))
    changes.add(table, reader_of({"id": [7]}))
    assert texts(table).items() >= {6: "f", 7: None}.items()


def test_types_are_cast_where_nothing_is_lost(table: Snapshot) -> None:
    changes.add(table, reader_of(pl.DataFrame({"id": [6], "text": ["f"]}, schema={"id": pl.UInt8, "text": pl.String})))
    changes.add(table, reader_of(pd.DataFrame({"id": [7.0], "text": pd.Categorical(["g"])})))
    assert texts(table).items() >= {6: "f", 7: "g"}.items()


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ({"id": ["x"]}, "'id'"),
        ({"id": [1.5]}, "'id'"),
        ({"id": [1], "nope": [1]}, "'nope'"),
        ({"id": pa.array([2**63], pa.uint64())}, "'id'"),
    ],
)
def test_rows_that_do_not_suit_are_refused_by_column(table: Snapshot, rows: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidData, match=named):
        changes.add(table, reader_of(rows))
    assert table.latest().version == table.version


def test_a_missing_column_that_must_not_be_null_is_refused(store: TableStore) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    strict = store.create("strict", reader_of([{"id": 1}], schema))
    with pytest.raises(InvalidData):
        changes.add(strict, reader_of({"text": ["x"]}))
    with pytest.raises(InvalidData):
        changes.add(strict, reader_of({"id": [None], "text": ["x"]}))


def test_what_a_source_raises_reaches_the_caller(table: Snapshot) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [6]})
        raise ConnectionResetError("the source went away")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    with pytest.raises(ConnectionResetError, match="went away"):
        changes.add(table, reader)
    assert table.latest().count_rows() == 5


def test_update_sets_columns_by_expression(table: Snapshot) -> None:
    change = changes.update(table, {"text": "concat(text, '!')"}, "id IN (1, 3)")
    assert change.rows_updated == 2
    assert texts(table).items() >= {1: "a!", 2: "b"}.items()


def test_delete_removes_what_the_condition_matches(table: Snapshot) -> None:
    assert changes.delete(table, "id > 3").rows_deleted == 2
    assert sorted(texts(table)) == [1, 2, 3]


def test_merge_updates_inserts_and_deletes(table: Snapshot) -> None:
    rules = MergeRules(("id",), update_matched=True, insert_new=True, delete_missing="id > 3")
    change = changes.merge_insert(table, reader_of({"id": [1, 9], "text": ["A", "I"]}), rules)
    assert (change.rows_updated, change.rows_inserted, change.rows_deleted) == (1, 1, 2)
    assert texts(table) == {1: "A", 2: "b", 3: None, 9: "I"}


def test_merge_of_some_columns_keeps_the_others(store: TableStore) -> None:
    wide = store.create("wide", reader_of({"id": [1, 2], "a": ["x", "y"], "b": [1, 2]}))
    changes.merge_insert(wide, reader_of({"id": [2, 3], "b": [20, 30]}), MergeRules(("id",), True, insert_new=True))
    assert by_id(wide, "a") == {1: "x", 2: "y", 3: None}
    assert by_id(wide, "b") == {1: 1, 2: 20, 3: 30}


def test_merge_refuses_two_source_rows_for_one(table: Snapshot) -> None:
    with pytest.raises(InvalidData, match="Ambiguous"):
        changes.merge_insert(table, reader_of({"id": [1, 1], "text": ["x", "y"]}), MergeRules(("id",), True))


def test_merge_that_does_nothing_is_refused(table: Snapshot) -> None:
    with pytest.raises(InvalidData, match="does nothing"):
        changes.merge_insert(table, reader_of({"id": [1]}), MergeRules(("id",)))


@pytest.mark.parametrize("where", ["nope > 1", "id =", "id"])
def test_a_wrong_condition_changes_nothing(table: Snapshot, where: str) -> None:
    with pytest.raises(InvalidQuery):
        changes.delete(table, where)
    with pytest.raises(InvalidQuery):
        changes.update(table, {"text": "'x'"}, where)
    assert table.latest().version == table.version


def test_computed_columns_cannot_be_written_by_hand(table: Snapshot) -> None:
    with pytest.raises(ComputedColumnWrite, match="'y'"):
        changes.add(table, reader_of({"id": [6], "y": [1]}))
    with pytest.raises(ComputedColumnWrite):
        changes.update(table, {"y": "1"})
    with pytest.raises(ComputedColumnWrite):
        changes.merge_insert(table, reader_of({"id": [1], "y": [1]}), MergeRules(("id",), True))
    assert table.latest().version == table.version


def test_a_computed_column_full_of_nulls_may_come_along(table: Snapshot) -> None:
    latest = changes.add(table, reader_of({"id": [6], "y": [None]}))
    assert files_of(latest, "y")[-1] == set()


def test_hidden_columns_cannot_be_written(table: Snapshot) -> None:
    with pytest.raises(InvalidName):
        changes.add(table, reader_of({"id": [6], PROOF: [None]}))
    with pytest.raises(InvalidName):
        changes.update(table, {PROOF: "NULL"})
    with pytest.raises(ColumnNotFound):
        changes.update(table, {"nope": "NULL"})


def test_restore_brings_rows_back_as_a_new_version(table: Snapshot) -> None:
    latest = changes.delete(table, "id = 1").snapshot
    restored = upkeep.restore(table, table.version)
    assert restored.version == latest.version + 1
    assert sorted(texts(table)) == [1, 2, 3, 4, 5]
    with pytest.raises(VersionNotFound):
        upkeep.restore(table, 99)


def test_compaction_makes_fragments_one_and_keeps_their_rows(table: Snapshot) -> None:
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    changes.delete(table, "id = 2")
    done = upkeep.compact(table)
    assert ([one.id for one in done.removed], len(done.added)) == ([0, 1], 1)
    assert done.snapshot.fragments == done.added
    assert by_id(table) == {1: 2, 3: 6, 4: 8, 5: 10}


def test_compaction_leaves_other_fragments_than_the_chosen_ones(table: Snapshot) -> None:
    changes.add(changes.add(table, reader_of({"id": [6]})), reader_of({"id": [7]}))
    done = upkeep.compact(table, [2, 3, 99])
    assert [one.id for one in done.snapshot.fragments[:2]] == [0, 1]
    assert [one.id for one in done.removed] == [2, 3]


def test_removed_versions_take_their_files_with_them(table: Snapshot) -> None:
    latest = upkeep.compact(table).snapshot
    old = range(1, latest.version)
    told = upkeep.remove_versions(table, old, dry_run=True)
    assert upkeep.remove_versions(table, old) == told
    assert (told.versions, told.files > told.versions, told.size_bytes > 0) == (len(old), True, True)
    assert [one.version for one in upkeep.versions(table)] == [latest.version]


def test_tagged_and_latest_versions_stay(table: Snapshot) -> None:
    latest = changes.add(table, reader_of({"id": [6]}))
    latest.dataset.tags.create("gold", 2)
    upkeep.remove_versions(table, [1, 2, 3, 4])
    assert [one.version for one in upkeep.versions(table)] == [2, 4]
    assert upkeep.named_versions(latest) == {2: "tag 'gold'"}


def test_files_of_writes_under_way_go_only_where_that_is_asked_for(tmp_path: Path) -> None:
    table = two_fragments(TableStore(tmp_path))
    (Path(table.uri) / "data" / "begun.lance").write_text("x" * 100)
    assert upkeep.remove_versions(table, []).files == 0
    assert upkeep.remove_versions(table, [], unfinished_files=True).size_bytes == 100


def test_a_snapshot_whose_files_were_cleaned_up_says_so(table: Snapshot) -> None:
    upkeep.remove_versions(table, range(1, upkeep.compact(table).snapshot.version))
    with pytest.raises(VersionNotFound, match="cleaned up"):
        table.to_arrow()


def test_versions_are_listed_with_their_time(table: Snapshot) -> None:
    listed = upkeep.versions(table)
    assert [one.version for one in listed] == [1, 2, 3]
    assert all(one.committed_at.tzinfo is UTC for one in listed)


def test_a_table_dropped_elsewhere_is_not_found(store: TableStore, table: Snapshot) -> None:
    store.drop("t")
    with pytest.raises(TableNotFound):
        changes.add(table, reader_of({"id": [6]}))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789")),
        (pa.utf8(), "it's \\ -- $$"),
        (pa.list_(pa.float64()), [1, 2.5]),
        (pa.binary(), b"\x00'"),
    ],
)
def test_a_value_set_by_its_literal_is_that_value(store: TableStore, kind: pa.DataType, value: object) -> None:
    table = store.create("one", pa.table({"x": pa.array([None], kind)}).to_reader())
    updated = changes.update(table, {"x": literal_of(value)}).snapshot
    assert updated.to_arrow()["x"].to_pylist() == [value]
