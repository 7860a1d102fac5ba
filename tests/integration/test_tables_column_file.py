"""Column files: whole, checked, and invisible until they are published."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tables_kit import COLUMN, PROOF, two_fragments, values

from lancegpu_sql.errors import ColumnNotFound, InvalidData, StorageError
from lancegpu_sql.tables import ColumnFileWriter, Snapshot, TableStore, changes, upkeep
from lancegpu_sql.tables.column_file import discard
from lancegpu_sql.tables.engine import lance


@pytest.fixture
def table(tmp_path: Path) -> Snapshot:
    return two_fragments(TableStore(tmp_path))


def own_files(table: Snapshot) -> list[Path]:
    gc.collect()  # a writer that was let go may hold a file open
    return list((Path(table.uri) / "data").glob("lancegpu-*"))


def test_a_file_takes_batches_as_they_come(table: Snapshot) -> None:
    with ColumnFileWriter(table, table.fragment(0), COLUMN) as writer:
        writer.write(values([1]))
        writer.write(values([2, None]))
        file = writer.finish()
    assert (file.fragment_id, file.rows) == (0, 3)
    assert file.field_ids == (table.field_id("y"), table.field_id(PROOF))
    assert [path.name for path in own_files(table)] == [file.path]


def test_deleted_rows_count(table: Snapshot) -> None:
    latest = changes.delete(table, "id = 2").snapshot
    assert latest.write_column_file(0, COLUMN, [values([1, 2, 3])]).rows == 3


@pytest.mark.parametrize("count", [0, 2, 4])
def test_another_number_of_rows_is_refused_and_leaves_no_file(table: Snapshot, count: int) -> None:
    with pytest.raises(InvalidData, match="where the fragment has 3"):
        table.write_column_file(0, COLUMN, [values(range(count))])
    assert own_files(table) == []


def test_another_type_is_refused_before_anything_is_written(table: Snapshot) -> None:
    with pytest.raises(InvalidData, match="is of type int64, not int32"):
        ColumnFileWriter(table, table.fragment(0), pa.schema([("y", pa.int32()), (PROOF, pa.binary(16))]))
    with pytest.raises(ColumnNotFound):
        ColumnFileWriter(table, table.fragment(0), pa.schema([("nope", pa.int64())]))
    assert own_files(table) == []


def test_a_batch_of_other_columns_is_refused(table: Snapshot) -> None:
    with (
        pytest.raises(InvalidData, match="were announced"),
        ColumnFileWriter(table, table.fragment(0), COLUMN) as writer,
    ):
        writer.write(values([1, 2, 3]).select([PROOF, "y"]))
    assert own_files(table) == []


def test_a_batch_may_claim_that_it_has_no_nulls(table: Snapshot) -> None:
    strict = pa.schema([field.with_nullable(False) for field in COLUMN])
    batch = pa.RecordBatch.from_arrays(values([1, 2, 3]).columns, schema=strict)
    file = table.write_column_file(0, strict, [batch])
    assert table.publish([file], job_id="j", guard=lambda fragment: True).published == (0,)
    assert table.latest().schema.field("y").nullable


def test_an_exception_while_results_stream_in_leaves_no_file(table: Snapshot) -> None:
    def results() -> Iterator[pa.RecordBatch]:
        yield values([1])
        raise KeyError("user code")

    with pytest.raises(KeyError):
        table.write_column_file(0, COLUMN, results())
    assert own_files(table) == []


def test_a_finished_file_is_not_aborted(table: Snapshot) -> None:
    with ColumnFileWriter(table, table.fragment(0), COLUMN) as writer:
        writer.write(values([1, 2, 3]))
        file = writer.finish()
        writer.abort()
    assert [path.name for path in own_files(table)] == [file.path]
    with pytest.raises(ValueError, match="finished"):
        writer.write(values([1]))


def test_discarded_files_are_gone(table: Snapshot) -> None:
    discard(table, [table.write_column_file(0, COLUMN, [values([1, 2, 3])])])
    assert own_files(table) == []


def test_upkeep_leaves_unpublished_files_alone(table: Snapshot) -> None:
    file = table.write_column_file(0, COLUMN, [values([1, 2, 3])])
    changes.update(table, {"text": "'x'"})
    upkeep.compact(table)
    upkeep.remove_versions(table, [one.version for one in upkeep.versions(table)])
    assert file.path in [path.name for path in own_files(table)]


def test_lances_own_cleanup_takes_orphans_once_it_may(table: Snapshot) -> None:
    table.write_column_file(0, COLUMN, [values([1, 2, 3])])
    lance.dataset(table.uri).cleanup_old_versions(delete_unverified=True)
    assert own_files(table) == []


def test_large_batches_are_written_whole(tmp_path: Path) -> None:
    store = TableStore(tmp_path / "large")
    plain = store.create("t", pa.table({"id": pa.array(range(400_000))}).to_reader())
    big = pa.record_batch({"id": pa.array(range(400_000, 0, -1))})
    file = plain.write_column_file(0, big.schema, [big])
    plain.publish([file], job_id="j", guard=lambda fragment: True)
    assert plain.latest().to_arrow()["id"].to_pylist() == list(range(400_000, 0, -1))


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """A disk that refuses what makes a file larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def held_open(folder: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [link for link in found if link.startswith(f"{folder}/")]


def test_a_file_that_the_disk_refuses_takes_no_room_though_its_error_is_kept(table: Snapshot) -> None:
    texts = pa.record_batch({"text": [os.urandom(300_000).hex() for _ in range(3)]})
    with pytest.raises(StorageError, match="too large") as kept, files_of_at_most(100_000):
        table.write_column_file(0, texts.schema, [texts])
    data = Path(table.uri) / "data"
    assert ([one for one in held_open(data) if ".tmp" in one], list(data.glob(".tmp*"))) == ([], []), kept
