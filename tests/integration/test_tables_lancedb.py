"""Tables made by LanceDB open here, and ours open there, in the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from tables_kit import PROOF, all_doubled, by_id, declaration, two_fragments

from lancegpu_sql.tables import Snapshot, TableStore, changes
from lancegpu_sql.tables.sources import reader_of

DOUBLED = {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return TableStore(tmp_path)


@pytest.fixture
def theirs(store: TableStore) -> Any:
    return lancedb.connect(store.uri)


@pytest.fixture
def filled(store: TableStore) -> Snapshot:
    table = two_fragments(store)
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    return table.latest()


def test_each_lists_the_tables_of_the_other(store: TableStore, theirs: Any) -> None:
    store.create("ours", reader_of({"id": [1]}))
    theirs.create_table("theirs", pa.table({"id": [1]}))
    assert store.names() == ["ours", "theirs"]
    assert sorted(theirs.list_tables().tables) == ["ours", "theirs"]


def test_a_table_of_theirs_takes_computed_columns(store: TableStore, theirs: Any) -> None:
    theirs.create_table("t", pa.table({"id": [1, 2]}))
    table = store.open("t")
    assert not table.has_stable_row_ids
    table = table.declare([(pa.field("y", pa.int64()), declaration(table))], PROOF)
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    assert by_id(table) == {1: 2, 2: 4}
    assert theirs.open_table("t").to_arrow()["y"].to_pylist() == [2, 4]


def test_writes_here_to_a_table_of_theirs_show_there(store: TableStore, theirs: Any) -> None:
    opened = theirs.create_table("t", pa.table({"id": [1, 2]}))
    table = store.open("t")
    changes.add(table, reader_of({"id": [3]}))
    changes.update(table, {"id": "id + 10"}, "id = 1")
    changes.delete(table, "id = 2")
    opened.checkout_latest()
    assert sorted(opened.to_arrow()["id"].to_pylist()) == [3, 11]


def test_rows_added_there_are_not_computed_yet(filled: Snapshot, theirs: Any) -> None:
    theirs.open_table("t").add([{"id": 6, "text": "f"}])
    assert by_id(filled) == {**DOUBLED, 6: None}
    assert filled.latest().computed == filled.computed


def test_rows_updated_there_keep_the_old_value_with_the_old_proof(filled: Snapshot, theirs: Any) -> None:
    theirs.open_table("t").update(where="id = 1", values={"text": "new"})
    rows = [row for batch in filled.latest().scan(["id", "y", PROOF]) for row in batch.to_pylist()]
    assert {"id": 1, "y": 2, PROOF: b"p" * 16} in rows


def test_rows_merged_there_stay_readable_here(filled: Snapshot, theirs: Any) -> None:
    merge = theirs.open_table("t").merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": [2, 7], "text": ["B", "g"]}))
    assert by_id(filled, "text").items() >= {2: "B", 7: "g"}.items()
    assert by_id(filled)[7] is None
    filled.latest().dataset.validate()


def test_everything_done_there_can_be_refreshed_here(filled: Snapshot, theirs: Any) -> None:
    opened = theirs.open_table("t")
    opened.add([{"id": 6, "text": "f"}])
    opened.add(pa.table({"id": [8], "text": ["h"], "y": pa.nulls(1, pa.int64())}))
    opened.delete("id = 4")
    opened.update(where="id = 1", values={"text": "new"})
    latest = filled.latest()
    publication = latest.publish(all_doubled(latest), job_id="j", guard=lambda fragment: True)
    assert publication.lost == ()
    assert by_id(filled) == {1: 2, 2: 4, 3: 6, 5: 10, 6: 12, 8: 16}


def test_compaction_there_keeps_values_proofs_and_declaration(filled: Snapshot, theirs: Any) -> None:
    theirs.open_table("t").optimize()
    latest = filled.latest()
    assert len(latest.fragments) == 1
    assert by_id(latest) == DOUBLED
    assert latest.computed == filled.computed
