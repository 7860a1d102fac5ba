"""Tables by their names: what holds of those in a folder and of those in an object store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables_kit import PLACES, outrun, store_at, two_fragments

from lancegpu_sql.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidData,
    InvalidName,
    TableNotFound,
    VersionNotFound,
)
from lancegpu_sql.tables import TableStore, changes
from lancegpu_sql.tables.sources import reader_of


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return store_at(request, tmp_path / "db")


def test_a_new_table_has_stable_row_ids_and_the_given_rows(store: TableStore) -> None:
    table = store.create("t", reader_of({"id": [1, 2]}))
    assert table.has_stable_row_ids
    assert table.to_arrow().to_pydict() == {"id": [1, 2]}


def test_a_folder_that_is_not_there_yet_has_no_tables(store: TableStore) -> None:
    assert store.names() == []


def test_of_two_creations_at_once_one_is_refused(store: TableStore) -> None:
    with pytest.raises(AlreadyExists, match="meanwhile"):
        store.create("t", outrun(store))
    assert store.open("t").to_arrow().to_pydict() == {"id": [7]}


def test_creating_over_a_table_is_refused(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    with pytest.raises(AlreadyExists, match="overwrite"):
        store.create("t", reader_of({"id": [2]}))


def test_exist_ok_leaves_the_table_as_it_is(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    assert store.create("t", reader_of({"other": [2]}), mode="exist_ok").to_arrow().to_pydict() == {"id": [1]}


def test_append_adds_rows_or_creates(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}), mode="append")
    assert store.create("t", reader_of({"id": [2]}), mode="append").count_rows() == 2


def test_overwrite_replaces_rows_and_schema_and_keeps_earlier_versions(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    table = store.create("t", reader_of({"name": ["x"]}), mode="overwrite")
    assert table.to_arrow().to_pydict() == {"name": ["x"]}
    assert store.open("t", version=1).to_arrow().to_pydict() == {"id": [1]}


def test_a_parquet_file_becomes_a_table(store: TableStore, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.parquet")
    assert store.create("t", reader_of(tmp_path / "rows.parquet")).count_rows() == 2


def test_a_table_created_from_anothers_rows_has_plain_columns(store: TableStore) -> None:
    source = two_fragments(store)
    copy = store.create("copy", source.to_reader())
    assert copy.computed == ()
    assert copy.schema.names == ["id", "text", "y"]


@pytest.mark.parametrize("name", ["_lancegpu_proof_y", "a.b", "", "_rowid"])
def test_columns_that_would_break_the_table_are_refused(store: TableStore, name: str) -> None:
    with pytest.raises(InvalidName):
        store.create("t", reader_of({name: [1]}))
    assert store.names() == []


def test_a_path_is_no_name(store: TableStore) -> None:
    for refuse in (store.open, store.drop, store.convert, lambda name: store.create(name, reader_of({"id": [1]}))):
        with pytest.raises(InvalidName):
            refuse("../elsewhere")


def test_a_type_that_lance_cannot_store_is_refused(store: TableStore) -> None:
    interval = pa.array([None], pa.month_day_nano_interval())
    with pytest.raises(InvalidData):
        store.create("t", reader_of(pa.table({"i": interval})))


def test_dropping_a_missing_table_is_refused_unless_allowed(store: TableStore) -> None:
    store.drop("t", missing_ok=True)
    with pytest.raises(TableNotFound):
        store.drop("t")


def test_a_version_that_never_was_is_not_found(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    with pytest.raises(VersionNotFound):
        store.open("t", version=99)


def test_convert_leaves_a_table_that_needs_nothing(store: TableStore) -> None:
    store.create("t", reader_of({"id": [1]}))
    assert store.convert("t").version == 1


def test_a_table_that_moved_on_is_not_replaced_by_its_copy(store: TableStore) -> None:
    table = store.create("t", reader_of({"id": [1]}))
    changes.add(table, reader_of({"id": [2]}))
    with pytest.raises(CommitConflict):
        changes.check_unchanged(table)
