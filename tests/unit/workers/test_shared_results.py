"""Slots of memory that a worker and its owner share, both sides in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lancegpu_sql.placement.shared_memory import SHARED_BYTES, make_shared_memory
from lancegpu_sql.workers.shared_results import LEAST_BYTES, SLOT_BYTES, ResultSlots, SharedResults

if not hasattr(os, "memfd_create"):
    pytest.skip("this system has no memory without a name", allow_module_level=True)

Sides = tuple[ResultSlots, SharedResults]


@pytest.fixture
def sides() -> Iterator[Sides]:
    shared = make_shared_memory()
    assert shared is not None
    memory, descriptor = shared
    return ResultSlots(memory), SharedResults(descriptor)


def column(values: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([values], names=["value"])


def numbers(nbytes: int, first: int = 0) -> pa.RecordBatch:
    return column(pa.array(range(first, first + nbytes // 8), pa.int64()))


def passed(sides: Sides, batch: pa.RecordBatch) -> pa.Array:
    slots, results = sides
    slot = slots.take()
    assert slot is not None
    stored_bytes = results.store(slot, batch)
    assert stored_bytes is not None
    return slots.read(slot, stored_bytes)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "c" * 100] * 2_000),
        pa.array([[1.0] * 384] * 100, pa.list_(pa.float32(), 384)),
        pa.array([{"label": "cat", "boxes": [[1, 2], None]}] * 5_000),
        pa.array(["cat", "dog"] * 20_000).dictionary_encode(),
        pa.array(range(50_000)).slice(1_000, 20_000),
        pa.array(["long enough to stand apart"] * 9_000, pa.string_view()),
    ],
    ids=lambda values: str(values.type)[:20],
)
def test_values_of_any_type_come_through_a_slot(sides: Sides, values: pa.Array) -> None:
    found = passed(sides, column(values))
    found.validate(full=True)
    assert found.equals(values)


def test_what_was_read_stays_when_the_slot_is_used_again(sides: Sides) -> None:
    first = passed(sides, numbers(LEAST_BYTES))
    sides[0].give_back(SHARED_BYTES // SLOT_BYTES - 1)
    passed(sides, numbers(LEAST_BYTES, first=1_000_000))
    assert first[5].as_py() == 5


@pytest.mark.parametrize("nbytes", [LEAST_BYTES - 8, SLOT_BYTES, SLOT_BYTES + 8])
def test_a_result_that_is_small_or_does_not_fit_is_not_stored(sides: Sides, nbytes: int) -> None:
    assert sides[1].store(0, numbers(nbytes)) is None


def test_a_result_leaves_the_slots_beside_it_alone(sides: Sides) -> None:
    slots, results = sides
    stored_bytes = results.store(1, numbers(LEAST_BYTES))
    assert results.store(0, numbers(SLOT_BYTES)) is None
    assert results.store(2, numbers(SLOT_BYTES - 4_096)) is not None
    assert slots.read(1, stored_bytes or 0)[-1].as_py() == LEAST_BYTES // 8 - 1


def test_each_slot_is_taken_once(sides: Sides) -> None:
    slots, _ = sides
    taken = [slots.take() for _ in range(SHARED_BYTES // SLOT_BYTES)]
    assert sorted(filter(lambda slot: slot is not None, taken)) == list(range(len(taken)))
    assert slots.take() is None
    slots.give_back(3)
    assert slots.take() == 3


@pytest.mark.parametrize("nbytes", [-1, 0, SLOT_BYTES + 1, 1_000])
def test_bytes_that_are_no_result_are_refused(sides: Sides, nbytes: int) -> None:
    with pytest.raises(pa.ArrowInvalid):
        sides[0].read(0, nbytes)


def test_an_end_without_values_is_refused() -> None:
    shared = make_shared_memory()
    assert shared is not None
    memory, descriptor = shared
    os.close(descriptor)
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(pa.py_buffer(memory)), numbers(8).schema):
        pass
    with pytest.raises(pa.ArrowInvalid, match="no values"):
        ResultSlots(memory).read(0, LEAST_BYTES)


def test_user_code_that_replaces_what_writes_a_stream_leaves_results_to_the_socket(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pa.ipc, "RecordBatchStreamWriter", None)
    assert sides[1].store(0, numbers(LEAST_BYTES)) is None


def test_a_worker_without_room_for_the_memory_leaves_results_to_the_socket() -> None:
    reading, writing = os.pipe()  # cannot be mapped either
    assert SharedResults(reading).store(0, numbers(LEAST_BYTES)) is None
    os.close(writing)


def test_memory_that_is_closed_is_gone_and_values_read_before_stay(sides: Sides) -> None:
    slots, _ = sides
    values = passed(sides, numbers(LEAST_BYTES))
    slots.close()
    slots.close()
    assert values[5].as_py() == 5
    with pytest.raises(pa.ArrowInvalid, match="no values"):
        slots.read(0, LEAST_BYTES)


def test_a_worker_cannot_cut_the_memory() -> None:
    shared = make_shared_memory()
    assert shared is not None
    with pytest.raises(PermissionError):
        os.ftruncate(shared[1], 4_096)
    os.close(shared[1])
