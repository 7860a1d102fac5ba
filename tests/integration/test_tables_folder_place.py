"""Tables in a local folder, which stays an ordinary LanceDB directory: what is renamed, and what killed processes leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from tables_kit import declaration, outrun

from lancegpu_sql.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidData,
    StorageError,
    TableNotFound,
)
from lancegpu_sql.tables import TableStore, changes
from lancegpu_sql.tables.columns import COMPUTED_KEY
from lancegpu_sql.tables.engine import lance
from lancegpu_sql.tables.folders import exchange
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return TableStore(tmp_path / "db")


def without_stable_row_ids(store: TableStore, name: str = "theirs") -> None:
    Path(store.uri).mkdir(exist_ok=True)
    lance.write_dataset(pa.table({"gone": [0, 0], "id": [1, 2]}), str(store.path_of(name))).drop_columns(["gone"])


def test_names_lists_tables_and_nothing_else(store: TableStore) -> None:
    store.create("b", reader_of({"id": [1]}))
    store.create("A.x", reader_of({"id": [1]}))
    (Path(store.uri) / "notes.lance").write_text("no table")
    (Path(store.uri) / "folder").mkdir()
    assert store.names() == ["A.x", "b"]


def test_a_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        TableStore(tmp_path / "file")


def test_creation_that_was_killed_before_its_commit_left_no_table(store: TableStore) -> None:
    (Path(store.path_of("t")) / "data").mkdir(parents=True)
    assert store.names() == []
    with pytest.raises(TableNotFound):
        store.open("t")
    assert store.create("t", reader_of({"id": [1]})).count_rows() == 1


def test_a_creation_that_fails_leaves_nothing(store: TableStore) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise OSError("the disk of the source broke")

    with pytest.raises(OSError, match="of the source broke"):
        store.create("t", pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert list(Path(store.uri).iterdir()) == []


@pytest.mark.parametrize(("mode", "ids"), [("exist_ok", [7]), ("append", [7, 1])])
def test_of_two_creations_at_once_the_second_finds_the_table_of_the_first(
    store: TableStore, mode: Literal["exist_ok", "append"], ids: list[int]
) -> None:
    assert store.create("t", outrun(store), mode).to_arrow().to_pydict() == {"id": ids}
    assert [path.name for path in Path(store.uri).iterdir()] == ["t.lance"]


def test_what_killed_processes_left_is_removed_after_a_week(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    for name, age_seconds in (("old", 8 * 24 * 3600), ("new", 0)):
        left = Path(store.uri) / f".lancegpu-table-{name}"
        left.mkdir()
        os.utime(left, times=(left.stat().st_mtime - age_seconds,) * 2)
    store.create("u", reader_of({"id": [1]}))
    assert sorted(path.name for path in Path(store.uri).iterdir()) == [".lancegpu-table-new", "t.lance", "u.lance"]


def test_overwriting_a_table_without_stable_row_ids_gives_it_some(store: TableStore) -> None:
    without_stable_row_ids(store)
    table = store.create("theirs", reader_of({"id": [7]}), mode="overwrite")
    assert table.has_stable_row_ids
    assert table.to_arrow().to_pydict() == {"id": [7]}
    assert [path.name for path in Path(store.uri).iterdir()] == ["theirs.lance"]


def test_rows_that_fail_while_overwriting_leave_the_old_table(store: TableStore) -> None:
    without_stable_row_ids(store)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise OSError("the disk of the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    with pytest.raises(OSError, match="of the source broke"):
        store.create("theirs", reader, mode="overwrite")
    assert store.open("theirs").to_arrow().to_pydict() == {"id": [1, 2]}
    assert [path.name for path in Path(store.uri).iterdir()] == ["theirs.lance"]


def test_a_dropped_table_is_gone_from_disk(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    store.drop("t")
    assert list(Path(store.uri).iterdir()) == []
    with pytest.raises(TableNotFound):
        store.open("t")


def test_convert_keeps_rows_and_redeclares_computed_columns(store: TableStore) -> None:
    without_stable_row_ids(store)
    table = store.open("theirs")
    table = table.declare([(pa.field("y", pa.int64()), declaration(table))], "_lancegpu_proof_y")
    old_id = table.field_id("id")
    converted = store.convert("theirs")
    assert converted.has_stable_row_ids
    assert converted.to_arrow().to_pydict() == {"id": [1, 2], "y": [None, None]}
    assert converted.field_id("id") != old_id
    assert converted.computed[0].inputs == {"x": converted.field_id("id")}
    assert [path.name for path in Path(store.uri).iterdir()] == ["theirs.lance"]


def test_a_table_in_lances_first_format_takes_computed_columns_once_converted(store: TableStore) -> None:
    Path(store.uri).mkdir()
    lance.write_dataset(pa.table({"id": [1]}), str(store.path_of("old")), data_storage_version="legacy")
    table = store.open("old")
    with pytest.raises(InvalidData, match="Convert"):
        table.declare([(pa.field("y", pa.int64()), declaration(table))], "_lancegpu_proof_y")
    table = store.convert("old")
    table = table.declare([(pa.field("y", pa.int64()), declaration(table))], "_lancegpu_proof_y")
    assert table.full_schema.field("y").metadata[COMPUTED_KEY.encode()]


def test_a_commit_between_the_look_and_the_exchange_is_not_lost(store: TableStore) -> None:
    without_stable_row_ids(store)

    def late(one: Path, other: Path) -> None:
        if not store.open("theirs").has_stable_row_ids:
            changes.add(store.open("theirs"), reader_of({"id": [3]}))
        exchange(one, other)

    with pytest.raises(CommitConflict, match="nothing was replaced"):
        store.convert("theirs", exchange=late)
    assert store.open("theirs").to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert store.convert("theirs").to_arrow()["id"].to_pylist() == [1, 2, 3]


def test_a_table_dropped_under_its_conversion_stays_dropped(store: TableStore) -> None:
    without_stable_row_ids(store)

    def late(one: Path, other: Path) -> None:
        store.drop("theirs")
        exchange(one, other)

    with pytest.raises(TableNotFound, match="dropped meanwhile"):
        store.convert("theirs", exchange=late)
    assert store.names() == []


class Impatient(TableStore):
    """Takes every exchange of folders that stands still for one that was killed."""

    swap_seconds = 0.0


@pytest.mark.parametrize("look", ["open", "exists", "create"])
def test_a_table_left_aside_by_a_killed_exchange_is_found_again(store: TableStore, look: str) -> None:
    store.create("t", reader_of({"id": [1]}))
    impatient = Impatient(store.uri)
    Path(store.path_of("t")).rename(Path(store.uri) / ".lancegpu-replaced-t.lance.0123abcd")
    if look == "create":
        with pytest.raises(AlreadyExists):
            impatient.create("t", reader_of({"id": [2]}))
    else:
        assert getattr(impatient, look)("t")
    assert store.open("t").to_arrow()["id"].to_pylist() == [1]


def test_opening_a_database_brings_such_tables_back(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    Path(store.path_of("t")).rename(Path(store.uri) / ".lancegpu-replaced-t.lance.0123abcd")
    assert Impatient(store.uri).names() == ["t"]
