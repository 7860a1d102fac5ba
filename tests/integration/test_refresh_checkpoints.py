"""Checkpoint parts are whole or absent, are found again by row and digest, and become column files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancegpu_sql.apply.digest import DIGEST_TYPE, binding_key, row_digests, to_array
from lancegpu_sql.errors import StorageError
from lancegpu_sql.refresh.assemble import AddressedRows, column_batches
from lancegpu_sql.refresh.checkpoint import Part, PartWriter, find_parts, part_schema
from lancegpu_sql.refresh.checkpoint_index import CheckpointIndex

KEY = binding_key("aa", {})
VALUE = pa.field("value", pa.int64())
SCHEMA = part_schema([VALUE])
FILE_SCHEMA = pa.schema([VALUE, pa.field("_lancegpu_proof_value", DIGEST_TYPE)])


def rows(addresses: Iterable[int], *, text: str = "t") -> pa.RecordBatch:
    """Rows whose row id is their address plus 1000, whose value is ten times it."""
    places = list(addresses)
    inputs = pa.record_batch([pa.array([f"{text}{place}" for place in places], pa.string())], names=["x"])
    return pa.RecordBatch.from_arrays(
        [
            pa.array(places, pa.uint64()),
            pa.array([place + 1000 for place in places], pa.uint64()),
            to_array(row_digests(inputs, KEY)),
            pa.array([10 * place for place in places], pa.int64()),
        ],
        schema=SCHEMA,
    )


def write(path: Path, *batches: pa.RecordBatch) -> Part:
    writer = PartWriter(path, SCHEMA)
    for batch in batches:
        writer.write(batch)
    return writer.finish()


def keys_of(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    digests = np.frombuffer(batch.column(2).buffers()[1], dtype="<u8").reshape(-1, 2)
    return batch.column(1).to_numpy(), digests[: batch.num_rows]


def values_of(batches: Iterator[pa.RecordBatch]) -> list[int | None]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_a_part_that_was_not_finished_is_not_found(tmp_path: Path) -> None:
    write(tmp_path / "000000", rows([1, 2]))
    PartWriter(tmp_path / "000001", SCHEMA).write(rows([3]))
    assert [part.rows for part in find_parts(tmp_path)] == [2]


def test_an_abandoned_part_leaves_no_file(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path / "000000", SCHEMA)
    writer.write(rows([1]))
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_rows_are_found_in_any_order_and_over_several_parts(tmp_path: Path) -> None:
    write(tmp_path / "000000", rows([5, 3]), rows([1]))
    write(tmp_path / "000001", rows([2, 4]))
    index = CheckpointIndex(find_parts(tmp_path), SCHEMA)
    wanted = rows([4, 9, 1, 5, 2])
    found = index.find(*keys_of(wanted))
    assert found.rows.tolist() == [True, False, True, True, True]
    (places, values), *more = found.values()
    assert places.tolist() == [0, 2, 3, 4]
    assert values.column(0).to_pylist() == [40, 10, 50, 20]
    assert more == []


def test_a_row_whose_input_changed_is_not_found(tmp_path: Path) -> None:
    write(tmp_path / "000000", rows([1, 2]))
    found = CheckpointIndex(find_parts(tmp_path), SCHEMA).find(*keys_of(rows([1, 2], text="other")))
    assert not found.rows.any()
    assert list(found.values()) == []


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-40], lambda data: bytes(len(data))])
def test_a_damaged_part_is_left_out(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    whole, broken = write(tmp_path / "000000", rows([1])), write(tmp_path / "000001", rows([2]))
    broken.path.write_bytes(damage(broken.path.read_bytes()))
    index = CheckpointIndex(find_parts(tmp_path), SCHEMA)
    assert index.find(*keys_of(rows([1, 2]))).rows.tolist() == [True, False]
    assert index.damaged == [broken.path]
    assert whole.path not in index.damaged


def test_a_part_with_other_rows_than_its_name_says_is_left_out(tmp_path: Path) -> None:
    part = write(tmp_path / "000000", rows([1, 2]))
    renamed = part.path.with_name(part.path.name.replace("-2-", "-3-"))
    part.path.rename(renamed)
    index = CheckpointIndex(find_parts(tmp_path), SCHEMA)
    assert not index.find(*keys_of(rows([1, 2]))).rows.any()
    assert index.damaged == [renamed]


WIDE = part_schema([pa.field("value", pa.binary())])
WIDE_FILE = pa.schema([pa.field("value", pa.binary()), pa.field("_lancegpu_proof_value", DIGEST_TYPE)])


def wide_part(path: Path, count: int, row_bytes: int) -> Part:
    """A part whose values are far larger than what they were computed from."""
    writer = PartWriter(path, WIDE)
    for start in range(0, count, 50):
        narrow = rows(range(start, min(start + 50, count)))
        value = pa.array([bytes(row_bytes)] * narrow.num_rows, pa.binary())
        writer.write(pa.RecordBatch.from_arrays([*narrow.columns[:3], value], schema=WIDE))
    return writer.finish()


def test_large_values_are_taken_over_in_runs_of_bounded_size(tmp_path: Path) -> None:
    wide_part(tmp_path / "000000", 1_000, 200_000)
    found = CheckpointIndex(find_parts(tmp_path), WIDE).find(*keys_of(rows(range(1_000))))
    sizes = [(len(places), values.nbytes) for places, values in found.values()]
    assert sum(count for count, _ in sizes) == 1_000
    assert max(size for _, size in sizes) < 40e6


def test_large_values_among_stored_ones_are_written_in_pieces_of_bounded_size(tmp_path: Path) -> None:
    part = wide_part(tmp_path / "000000", 1_000, 200_000)
    stored = iter([pa.record_batch([pa.nulls(1_001, pa.binary()), pa.nulls(1_001, DIGEST_TYPE)], schema=WIDE_FILE)])
    pieces = [(one.num_rows, one.nbytes) for one in column_batches(0, 1_001, WIDE_FILE, AddressedRows([part]), stored)]
    assert sum(count for count, _ in pieces) == 1_001
    assert max(size for _, size in pieces) < 50e6


def test_parts_of_another_type_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "000000", rows([1]))
    assert not CheckpointIndex(find_parts(tmp_path), part_schema([pa.field("value", pa.utf8())]))


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder is wanted")
    with pytest.raises(StorageError, match="finished parts are kept"):
        PartWriter(tmp_path / "taken" / "000000", SCHEMA)


def test_deleted_rows_become_nulls_between_computed_ones(tmp_path: Path) -> None:
    base = 7 << 32
    part = write(tmp_path / "a", rows([base + 1, base + 2, base + 5]), rows([base + 6]))
    batches = column_batches(7, 8, FILE_SCHEMA, AddressedRows([part]), None)
    assert values_of(batches) == [
        None,
        10 * (base + 1),
        10 * (base + 2),
        None,
        None,
        *(10 * (base + at) for at in (5, 6)),
        None,
    ]


def test_rows_of_a_fragment_that_is_left_out_are_passed_over(tmp_path: Path) -> None:
    part = write(tmp_path / "a", rows([0, 1, (1 << 32) + 0, (2 << 32) + 0, (2 << 32) + 1]))
    source = AddressedRows([part])
    assert values_of(column_batches(0, 2, FILE_SCHEMA, source, None)) == [0, 10]
    assert values_of(column_batches(2, 2, FILE_SCHEMA, source, None)) == [20 << 32, (20 << 32) + 10]


@given(places=st.sets(st.integers(0, 19)), split=st.integers(0, 20), window=st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_stored_values_stay_where_nothing_was_computed(
    tmp_path_factory: pytest.TempPathFactory, places: set[int], split: int, window: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    ordered = sorted(places)
    parts = [write(folder / "a", rows(ordered[:split])), write(folder / "b", rows(ordered[split:]))]
    old = pa.record_batch([pa.array(range(-20, 0), pa.int64()), pa.nulls(20, DIGEST_TYPE)], schema=FILE_SCHEMA)
    stored = iter([old.slice(start, window) for start in range(0, 20, window)])
    computed = AddressedRows(parts[:1], parts[1:])
    got = values_of(column_batches(0, 20, FILE_SCHEMA, computed, stored))
    assert got == [10 * place if place in places else place - 20 for place in range(20)]


@given(first=st.sets(st.integers(0, 19)), second=st.sets(st.integers(0, 19)))
@settings(max_examples=60, deadline=None)
def test_rows_of_two_runs_are_taken_in_the_order_of_their_addresses(
    tmp_path_factory: pytest.TempPathFactory, first: set[int], second: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    runs = [[write(folder / str(at), rows(sorted(run)))] for at, run in enumerate((first, second - first))]
    got = values_of(column_batches(0, 20, FILE_SCHEMA, AddressedRows(*runs), None))
    assert got == [10 * place if place in first | second else None for place in range(20)]
