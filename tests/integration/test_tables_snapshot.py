"""One version of a table, read in every way a refresh and a query need."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tables_kit import PROOF, all_doubled, files_of, two_fragments

from lancegpu_sql.errors import ColumnNotFound, InvalidQuery, NotFound
from lancegpu_sql.tables import Snapshot, TableStore, changes, upkeep
from lancegpu_sql.tables.engine import lance
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return TableStore(tmp_path)


@pytest.fixture
def table(store: TableStore) -> Snapshot:
    return two_fragments(store)


def rows(table: Snapshot, *columns: str, **options: object) -> dict[str, list[object]]:
    batches = list(table.scan(list(columns), **options))  # type: ignore[arg-type]
    return pa.Table.from_batches(batches).to_pydict()


def test_a_snapshot_does_not_see_later_writes(table: Snapshot) -> None:
    changes.add(table, reader_of({"id": [6]}))
    changes.delete(table, "id = 1")
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3, 4, 5]


def test_hidden_columns_show_only_by_name(table: Snapshot) -> None:
    assert table.schema.names == ["id", "text", "y"]
    assert table.full_schema.names == ["id", "text", "y", PROOF]
    assert table.head(1).column_names == ["id", "text", "y"]
    assert list(rows(table, "id", PROOF)) == ["id", PROOF]


def test_fragments_count_live_and_physical_rows(table: Snapshot) -> None:
    latest = changes.delete(table, "id = 2").snapshot
    assert [(one.id, one.physical_rows, one.live_rows) for one in latest.fragments] == [(0, 3, 2), (1, 2, 2)]
    assert latest.count_rows() == 4
    assert latest.count_rows("id > 3") == 2


def test_a_scan_can_be_limited_to_fragments(table: Snapshot) -> None:
    assert rows(table, "id", fragment_ids=[1]) == {"id": [4, 5]}
    assert list(table.scan(["id"], fragment_ids=[])) == []


def test_row_ids_outlive_updates_and_addresses_do_not(table: Snapshot) -> None:
    before = rows(table, "id", row_id=True, row_address=True)
    assert before["_rowaddr"] == [0, 1, 2, 1 << 32, (1 << 32) + 1]
    after = rows(changes.update(table, {"text": "'new'"}, "id = 1").snapshot, "id", row_id=True, row_address=True)
    assert dict(zip(after["id"], after["_rowid"], strict=True)) == dict(
        zip(before["id"], before["_rowid"], strict=True)
    )
    assert after["_rowaddr"][-1] == 2 << 32


def test_a_scan_without_columns_still_gives_row_ids(table: Snapshot) -> None:
    assert rows(table, row_id=True) == {"_rowid": [0, 1, 2, 3, 4]}


def test_batches_are_no_larger_than_asked(table: Snapshot) -> None:
    assert all(batch.num_rows <= 2 for batch in table.scan(["id"], batch_rows=2))


def test_physical_reading_gives_deleted_rows_in_order(table: Snapshot) -> None:
    latest = changes.delete(table, "id = 2").snapshot
    (batch,) = latest.read_physical(0, ["text", "id"])
    assert batch.to_pydict() == {"text": ["a", "b", None], "id": [1, 2, 3]}


def test_field_ids_outlive_a_rename(table: Snapshot) -> None:
    assert table.field_name(table.field_id("text")) == "text"
    with pytest.raises(ColumnNotFound, match="columns are id, text, y"):
        table.field_id("nope")
    with pytest.raises(ColumnNotFound):
        table.field_name(77)


def test_unknown_columns_fragments_and_conditions_are_told_apart(table: Snapshot) -> None:
    with pytest.raises(ColumnNotFound):
        list(table.scan(["nope"]))
    with pytest.raises(NotFound, match="no fragment 9"):
        list(table.scan(["id"], fragment_ids=[9]))
    with pytest.raises(InvalidQuery):
        table.count_rows("nope > 1")


def test_files_of_inputs_stay_the_same_under_fills_deletes_and_appends(table: Snapshot) -> None:
    noted = files_of(table, "id")
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    changes.delete(table, "id = 2")
    latest = changes.add(table, reader_of({"id": [6]}))
    assert files_of(latest, "id")[:2] == noted


def test_updated_rows_stand_in_new_files_and_restore_brings_the_old_ones_back(table: Snapshot) -> None:
    updated = changes.update(table, {"text": "'new'"}, "id = 4").snapshot
    assert [one.id for one in updated.fragments] == [0, 1, 2]
    restored = upkeep.restore(table, table.version)
    assert restored.fragments == table.fragments


def test_a_nested_column_is_found_by_its_own_field_id(store: TableStore) -> None:
    nested = store.create("n", reader_of([{"s": {"x": 1, "y": [{"q": 2}]}, "l": [[1]]}]))
    (file,) = nested.fragments[0].files
    assert files_of(nested, "s") == files_of(nested, "l") == [{file.path}]


def test_blobs_are_read_as_bytes(store: TableStore) -> None:
    blobs = pa.table([lance.blob_array([b"1", None])], schema=pa.schema([lance.blob_field("b")]))
    lance.write_dataset(blobs, str(store.path_of("b")))
    assert store.open("b").to_arrow().to_pydict() == {"b": [b"1", None]}


def test_a_row_is_found_by_its_row_id(table: Snapshot) -> None:
    assert table.to_arrow(["_rowid", "id"], where="_rowid = 3").to_pydict() == {"_rowid": [3], "id": [4]}
    assert table.head(2, ["id", "_rowid"]).to_pydict() == {"id": [1, 2], "_rowid": [0, 1]}


def test_a_wrong_condition_names_the_columns_but_not_the_hidden_ones(table: Snapshot) -> None:
    with pytest.raises(InvalidQuery, match=r"zz.*id, text, y") as caught:
        table.to_arrow(where="zz = 1")
    assert PROOF not in caught.value.message
