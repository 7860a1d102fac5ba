"""Rows updated, deleted and inserted in one commit: ids stay, proofs travel, rivals lose nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance import blob_array, blob_field
from tables_kit import PLACES, PROOF, all_doubled, by_id, data_files, store_at, two_fragments

from lancegpu_sql.errors import CommitConflict, ComputedColumnWrite, InvalidData
from lancegpu_sql.tables import Snapshot, TableStore, changes, upkeep
from lancegpu_sql.tables.row_changes import RowChanges
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return store_at(request, tmp_path)


@pytest.fixture
def table(store: TableStore) -> Snapshot:
    """Rows 1 to 3 and 4 to 5 in two fragments, with a computed column y that is filled."""
    table = two_fragments(store)
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    return table.latest()


def rows(table: Snapshot, *ids: int) -> tuple[Any, Any]:
    """Row ids and addresses of the rows with these values of "id"."""
    found = table.dataset.scanner(columns=["id", "_rowid", "_rowaddr"]).to_table().to_pydict()
    at = [found["id"].index(one) for one in ids]
    return tuple(np.array([found[name][one] for one in at], dtype=np.uint64) for name in ("_rowid", "_rowaddr"))


def texts(*values: str | None) -> pa.RecordBatch:
    """Values for the column "text"."""
    return pa.record_batch({"text": pa.array(values, pa.string())})


def row_ids(table: Snapshot) -> dict[int, int]:
    """The row id of each row, by its value of "id"."""
    found = table.latest().dataset.scanner(columns=["id", "_rowid"]).to_table()
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def test_updates_deletes_and_inserts_are_one_version(table: Snapshot) -> None:
    with RowChanges(table) as work:
        work.update(*rows(table, 5, 2), texts("five", "two"))
        work.delete(rows(table, 1)[1])
        work.insert(pa.record_batch({"id": [9], "text": ["nine"]}))
        change = work.commit()
    assert (change.rows_updated, change.rows_deleted, change.rows_inserted) == (2, 1, 1)
    assert change.snapshot.version == table.latest().version == table.version + 1
    assert by_id(table, "text") == {2: "two", 3: None, 4: "d", 5: "five", 9: "nine"}


def test_rows_keep_their_ids_and_new_ones_get_new_ids(table: Snapshot) -> None:
    before = row_ids(table)
    with RowChanges(table) as work:
        work.update(*rows(table, 5, 2), texts("five", "two"))
        work.insert(pa.record_batch({"id": [9]}))
        work.commit()
    after = row_ids(table)
    assert {one: after[one] for one in before} == before
    assert after[9] not in before.values()


def test_computed_values_travel_with_their_proofs(table: Snapshot) -> None:
    with RowChanges(table) as work:
        work.update(*rows(table, 2), pa.record_batch({"id": [20]}))
        work.commit()
    assert by_id(table) == {1: 2, 20: 4, 3: 6, 4: 8, 5: 10}
    assert by_id(table, PROOF)[20] == b"p" * 16


def test_a_fragment_whose_rows_are_all_gone_goes(table: Snapshot) -> None:
    with RowChanges(table) as work:
        work.delete(rows(table, 4, 5, 5)[1])
        assert work.commit().rows_deleted == 2
    assert len(table.latest().fragments) == 1
    table.latest().dataset.validate()


def test_nothing_to_do_makes_no_version(table: Snapshot) -> None:
    with RowChanges(table) as work:
        work.commit()
    assert table.latest().version == table.version


@pytest.mark.parametrize("twice", ["update", "delete"])
def test_a_row_that_would_be_changed_twice_is_refused(table: Snapshot, twice: str) -> None:
    with RowChanges(table) as work:
        work.update(*rows(table, 1), texts("a"))
        work.update(*rows(table, 1), texts("b")) if twice == "update" else work.delete(rows(table, 1)[1])
        with pytest.raises(InvalidData, match="changed twice"):
            work.commit()
    assert table.latest().version == table.version


def test_columns_that_a_refresh_writes_are_refused(table: Snapshot) -> None:
    with RowChanges(table) as work, pytest.raises(ComputedColumnWrite):
        work.update(*rows(table, 1), pa.record_batch({"y": [1]}))


def test_null_is_refused_where_the_column_is_not_nullable(store: TableStore) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    table = store.create("n", pa.table({"id": [1]}).cast(schema.remove(1)).to_reader())
    with RowChanges(table) as work, pytest.raises(InvalidData, match="cannot be null"):
        work.update(*rows(table, 1), pa.record_batch({"id": pa.array([None], pa.int64())}))


@pytest.mark.parametrize("rival", ["update", "delete", "compact", "fill", "overwrite", "column"])
def test_what_a_rival_did_to_the_same_rows_is_never_undone(store: TableStore, table: Snapshot, rival: str) -> None:
    with RowChanges(table) as work:
        work.update(*rows(table, 1), texts("mine"))
        match rival:
            case "update":
                changes.update(table, {"text": "'theirs'"}, "id = 1")
            case "delete":
                changes.delete(table, "id = 1")
            case "compact":
                upkeep.compact(table)
            case "fill":
                table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
            case "overwrite":
                store.create("t", reader_of({"id": [7]}), "overwrite")
            case _:
                table.latest().dataset.add_columns({"z": "id + 1"})
        theirs = table.latest().to_arrow()
        with pytest.raises(CommitConflict):
            work.commit()
    assert table.latest().to_arrow() == theirs


def test_rows_added_meanwhile_stay(table: Snapshot) -> None:
    with RowChanges(table) as work:
        work.update(*rows(table, 1), texts("mine"))
        changes.add(table, reader_of({"id": [6], "text": ["theirs"]}))
        work.commit()
    assert by_id(table, "text").items() >= {1: "mine", 6: "theirs"}.items()


def test_files_of_what_was_refused_are_removed(table: Snapshot) -> None:
    before = data_files(table)
    with RowChanges(table) as work:
        work.update(*rows(table, 1), texts("mine"))
        changes.delete(table, "id = 1")
        with pytest.raises(CommitConflict):
            work.commit()
    assert data_files(table) == before


def test_a_table_without_stable_row_ids_is_changed_as_well(tmp_path: Path) -> None:
    import lance

    lance.write_dataset(pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]}), tmp_path / "p.lance", max_rows_per_file=2)
    table = TableStore(tmp_path).open("p")
    with RowChanges(table) as work:
        work.update(*rows(table, 3, 1), texts("C", "A"))
        work.commit()
    assert by_id(table, "text") == {1: "A", 2: "b", 3: "C"}


def test_blobs_of_an_updated_row_stay(store: TableStore) -> None:
    schema = pa.schema([("id", pa.int64()), blob_field("b")])
    data = pa.table([pa.array([1, 2, 3]), blob_array([b"x", None, b"zzz"])], schema=schema)
    table = store.create("b", data.to_reader())
    with RowChanges(table) as work:
        work.update(*rows(table, 3, 2), pa.record_batch({"id": [30, 20]}))
        work.commit()
    assert by_id(table, "b") == {1: b"x", 30: b"zzz", 20: None}


def test_many_wide_rows_become_whole_fragments_of_bounded_size(store: TableStore) -> None:
    table = store.create("w", pa.table({"id": np.arange(3000), "text": ["x" * 50_000] * 3000}).to_reader())
    ids, addresses = rows(table, *range(3000))
    with RowChanges(table) as work:
        work.update(ids, addresses, pa.record_batch({"id": np.arange(3000) + 1}))
        work.commit()
    latest = table.latest()
    assert len(latest.fragments) > 1
    assert latest.to_arrow(["id"])["id"].to_pylist() == list(range(1, 3001))
