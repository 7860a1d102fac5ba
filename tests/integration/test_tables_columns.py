"""Computed columns: declared in one commit, kept through every write, dropped with their proof."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tables_kit import PROOF, all_doubled, by_id, declaration, two_fragments

from lancegpu_sql.errors import AlreadyExists, ColumnNotFound, InUse, InvalidData, InvalidName, InvalidQuery
from lancegpu_sql.tables import Snapshot, TableStore, changes, reshaping, upkeep
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return TableStore(tmp_path)


@pytest.fixture
def table(store: TableStore) -> Snapshot:
    return two_fragments(store)


def test_declaring_is_one_commit_that_writes_no_data(store: TableStore) -> None:
    plain = store.create("t", reader_of({"id": [1]}))
    files = set((Path(plain.uri) / "data").iterdir())
    table = plain.declare([(pa.field("y", pa.int64()), declaration(plain))], PROOF)
    assert table.version == plain.version + 1
    assert set((Path(plain.uri) / "data").iterdir()) == files
    assert table.computed == (declaration(plain),)
    assert by_id(table) == {1: None}


def test_columns_of_one_binding_share_a_proof(table: Snapshot) -> None:
    both = [(pa.field(name, pa.int64()), declaration(table, name, proof="_lancegpu_proof_a")) for name in ("a", "b")]
    table = table.declare(both, "_lancegpu_proof_a")
    assert [one.proof_column for one in table.computed] == [PROOF, "_lancegpu_proof_a", "_lancegpu_proof_a"]


@pytest.mark.parametrize("name", ["y", "Y", "id"])
def test_a_taken_name_is_refused_whatever_its_case(table: Snapshot, name: str) -> None:
    with pytest.raises(AlreadyExists):
        table.declare([(pa.field(name, pa.int64()), declaration(table, name))], "_lancegpu_proof_new")


def test_an_input_that_was_dropped_meanwhile_is_noticed(table: Snapshot) -> None:
    reading_text = declaration(table, "z", inputs="text", proof="_lancegpu_proof_z")
    reshaping.drop_columns(table, ["text"])
    with pytest.raises(ColumnNotFound):
        table.declare([(pa.field("z", pa.int64()), reading_text)], "_lancegpu_proof_z")


@pytest.mark.parametrize(
    "data_type",
    [
        pa.list_(pa.float32(), 3),
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        pa.list_(pa.struct([("a", pa.float64())])),
        pa.timestamp("us", "UTC"),
        pa.float16(),
        pa.large_string(),
        pa.bool_(),
        pa.decimal128(10, 2),
    ],
    ids=str,
)
def test_values_of_every_type_are_published(store: TableStore, data_type: pa.DataType) -> None:
    plain = store.create("t", reader_of({"id": [1, 2]}))
    table = plain.declare([(pa.field("y", data_type), declaration(plain))], PROOF)
    batch = pa.record_batch({"y": pa.nulls(2, data_type), PROOF: pa.array([b"p" * 16] * 2, pa.binary(16))})
    file = table.write_column_file(0, batch.schema, [batch])
    assert table.publish([file], job_id="j", guard=lambda fragment: True).published == (0,)
    assert table.latest().to_arrow([PROOF])[PROOF].null_count == 0
    assert table.latest().schema.field("y").type == data_type


def test_a_declaration_outlives_every_kind_of_write(table: Snapshot) -> None:
    declared = table.computed
    changes.add(table, reader_of({"id": [6]}))
    changes.update(table, {"text": "'new'"}, "id = 1")
    changes.merge_insert(
        table, reader_of({"id": [2, 9], "text": ["m", "n"]}), changes.MergeRules(("id",), True, insert_new=True)
    )
    changes.delete(table, "id = 3")
    reshaping.rename_column(table, "text", "words")
    upkeep.compact(table)
    upkeep.remove_versions(table, [one.version for one in upkeep.versions(table)])
    assert table.latest().computed == declared


def test_a_copied_folder_still_knows_its_computed_columns(store: TableStore, table: Snapshot) -> None:
    shutil.copytree(table.uri, store.path_of("copy"))
    assert store.open("copy").computed == table.computed


def test_repointing_changes_the_declaration_and_no_value(table: Snapshot) -> None:
    table.publish(all_doubled(table), job_id="j", guard=lambda fragment: True)
    before = by_id(table)
    table = table.repoint([table.computed[0].model_copy(update={"version": 2})])
    assert table.computed[0].version == 2
    assert by_id(table) == before


def test_only_computed_columns_can_be_repointed(table: Snapshot) -> None:
    with pytest.raises(ColumnNotFound):
        table.repoint([declaration(table, "text")])


def test_dropping_a_computed_column_drops_its_proof(table: Snapshot) -> None:
    assert reshaping.drop_columns(table, ["y"]).full_schema.names == ["id", "text"]


def test_an_input_cannot_be_dropped_without_what_reads_it(table: Snapshot) -> None:
    with pytest.raises(InUse, match="'y'") as caught:
        reshaping.drop_columns(table, ["id"])
    assert caught.value.users == ("y",)  # type: ignore[attr-defined]
    assert reshaping.drop_columns(table, ["id", "y"]).full_schema.names == ["text"]


def test_the_last_column_stays(table: Snapshot) -> None:
    with pytest.raises(InvalidData):
        reshaping.drop_columns(table, ["id", "text", "y"])


def test_renaming_an_input_changes_nothing_for_its_readers(table: Snapshot) -> None:
    renamed = reshaping.rename_column(table, "id", "number")
    assert renamed.field_name(renamed.computed[0].inputs["x"]) == "number"
    assert [one.files for one in renamed.fragments] == [one.files for one in table.fragments]


def test_a_renamed_computed_column_keeps_its_proof(table: Snapshot) -> None:
    renamed = reshaping.rename_column(table, "y", "z")
    assert (renamed.computed[0].column, renamed.computed[0].proof_column) == ("z", PROOF)


def test_only_the_case_of_a_name_can_be_changed(table: Snapshot) -> None:
    assert "TEXT" in reshaping.rename_column(table, "text", "TEXT").schema.names
    with pytest.raises(AlreadyExists):
        reshaping.rename_column(table, "TEXT", "Id")


def test_the_type_of_an_input_stays(table: Snapshot) -> None:
    with pytest.raises(InUse):
        reshaping.retype_column(table, "id", pa.int32())
    with pytest.raises(InUse):
        reshaping.retype_column(table, "y", pa.int32())


def test_the_type_of_any_other_column_can_be_changed(table: Snapshot) -> None:
    assert reshaping.retype_column(table, "text", pa.large_string()).schema.field("text").type == pa.large_string()
    with pytest.raises(InvalidData):
        reshaping.retype_column(table, "text", pa.int64())


def test_a_sql_column_is_filled_at_once(table: Snapshot) -> None:
    filled = reshaping.add_sql_columns(table, {"next": "id + 1"})
    assert by_id(filled, "next") == {1: 2, 2: 3, 3: 4, 4: 5, 5: 6}


def test_a_wrong_expression_or_name_adds_nothing(table: Snapshot) -> None:
    with pytest.raises(InvalidQuery):
        reshaping.add_sql_columns(table, {"next": "nope + 1"})
    with pytest.raises(AlreadyExists):
        reshaping.add_sql_columns(table, {"ID": "1"})
    assert table.latest().version == table.version


def test_hidden_columns_cannot_be_touched(table: Snapshot) -> None:
    with pytest.raises(InvalidName):
        reshaping.drop_columns(table, [PROOF])
    with pytest.raises(InvalidName):
        reshaping.rename_column(table, PROOF, "z")
    with pytest.raises(InvalidName):
        reshaping.add_sql_columns(table, {"_lancegpu_x": "1"})
