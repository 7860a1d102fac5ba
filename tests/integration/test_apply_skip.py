"""Rows that fail, found among the others of their calls; and what is not a row's fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import worker_functions
from applied import Remembering, counting, input_batch, need_for, run

from lancegpu_sql.apply import Computed, RetryPolicy
from lancegpu_sql.errors import LoadFailed, RowFailed, WorkerLost, WrongResult
from lancegpu_sql.placement import GpuClass, LocalPlacement, Ready
from lancegpu_sql.placement.gpu_class import LocalDevices
from lancegpu_sql.workers import WorkerPool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    placement = LocalPlacement(tmp_path_factory.mktemp("run"))
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()
    placement.close()


def two_devices(name: str) -> GpuClass:
    return GpuClass(name=name, local=LocalDevices(simulated=2))


def outcome(computed: Iterator[Computed]) -> tuple[list[Any], dict[int, str]]:
    """The values, and the owners of what failed by the ids of the rows."""
    values: list[Any] = []
    failed: dict[int, str] = {}
    for piece in computed:
        values += piece.values.to_pylist()
        ids = piece.tag.column(0).to_pylist()
        failed |= {ids[failure.index]: failure.owner for failure in piece.failed}
        assert all(piece.values[failure.index].as_py() is None for failure in piece.failed)
    return values, failed


@pytest.mark.parametrize("target", [worker_functions.Counts, worker_functions.CountsBatches])
def test_one_failing_row_in_a_thousand_costs_only_itself(pool, tmp_path, target):
    numbers = [-number if number % 1000 == 777 else number for number in range(30_000)]
    need = need_for(target, bound={"path": str(tmp_path / "calls")})
    computed = run(need, pool, iter([input_batch(numbers)]), batch_size=10_000, error_policy="skip")
    values, failed = outcome(computed)
    assert values == [None if number < 0 else number for number in numbers]
    assert failed == {row: "user" for row, number in enumerate(numbers) if number < 0}
    assert (tmp_path / "calls").stat().st_size <= 3 * len(numbers)


def test_where_every_row_fails_every_row_is_null(pool):
    rows = [-1] * 200
    values, failed = outcome(
        run(need_for(worker_functions.fails_on_negative), pool, iter([input_batch(rows)]), error_policy="skip")
    )
    assert (values, set(failed)) == ([None] * 200, set(range(200)))


def test_of_a_batch_that_raises_the_error_names_the_row(pool):
    rows = input_batch([*range(500), -1, *range(500)])
    with pytest.raises(RowFailed) as raised:
        list(run(need_for(worker_functions.fails_on_negative_in_batch), pool, iter([rows])))
    assert (raised.value.row_id, raised.value.arguments) == (500, {"number": -1})  # type: ignore[attr-defined]


def test_a_row_that_kills_its_worker_is_found_and_alone_null(pool):
    need = need_for(worker_functions.KillsInBatch)
    computed = run(need, pool, counting(300), error_policy="skip", max_worker_losses=0, max_workers=1)
    values, failed = outcome(computed)
    assert values == [None if number == 13 else number for number in range(300)]
    assert failed == {13: "input"}


def test_a_row_that_kills_its_worker_is_named_where_it_may_not_be_skipped(pool):
    need = need_for(worker_functions.KillsInBatch)
    with pytest.raises(WorkerLost) as raised:
        list(run(need, pool, counting(300), max_worker_losses=0, max_workers=1))
    assert (raised.value.row_id, raised.value.owner) == (13, "input")  # type: ignore[attr-defined]


def test_what_is_worth_another_try_is_tried_again_after_as_long_as_the_exception_says(pool, tmp_path):
    need = need_for(worker_functions.FailsAtFirst, bound={"marker": str(tmp_path), "times": 3})
    retry = RetryPolicy(attempts=4, backoff_seconds=3600.0, errors=("TimeoutError",), messages="later")
    assert outcome(run(need, pool, counting(100), retry=retry)) == (list(range(100)), {})


def test_what_was_tried_often_enough_has_failed(pool, tmp_path):
    need = need_for(worker_functions.FailsAtFirst, bound={"marker": str(tmp_path), "times": 99})
    computed = run(need, pool, counting(100), retry=RetryPolicy(attempts=3), error_policy="skip")
    assert outcome(computed)[1] == {13: "user"}
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_that_is_not_named_is_not_tried_again(pool, tmp_path):
    need = need_for(worker_functions.FailsAtFirst, bound={"marker": str(tmp_path), "times": 1, "kind": "ValueError"})
    with pytest.raises(RowFailed, match="come back later"):
        list(run(need, pool, counting(100), retry=RetryPolicy(attempts=9, errors=("TimeoutError",))))


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (worker_functions.FailsToLoad, LoadFailed),
        (worker_functions.wrong_type, WrongResult),
        (worker_functions.imports_what_is_not_there, RowFailed),
    ],
)
def test_what_is_no_rows_fault_fails_at_once(pool, target, error):
    with pytest.raises(error) as raised:
        list(run(need_for(target), pool, counting(100), error_policy="skip"))
    assert raised.value.owner in ("function", "environment")


def test_out_of_memory_halves_the_calls_and_the_next_work_begins_so(pool):
    need = need_for(worker_functions.NeedsMemory, bound={"rows": 100})
    watch = Remembering()
    assert outcome(run(need, pool, counting(3000), watch=watch)) == (list(range(3000)), {})
    assert {kind for kind, _ in watch.events} == {"batch_halved"}
    again = Remembering()
    assert outcome(run(need, pool, counting(3000), watch=again)) == (list(range(3000)), {})
    assert again.events == []
    assert max(rows for rows, _, _ in again.calls) <= 100


def test_a_row_for_which_there_is_too_little_memory_is_never_null(pool):
    need = need_for(worker_functions.NeedsMemory, bound={"rows": 0, "message": "CUDA out of memory. Tried to allocate"})
    with pytest.raises(RowFailed, match="more memory for this one row") as raised:
        list(run(need, pool, counting(10), error_policy="skip"))
    assert raised.value.owner == "memory"  # type: ignore[attr-defined]


def test_a_broken_device_is_named_and_avoided_and_costs_no_row(pool, tmp_path):
    need = need_for(
        worker_functions.FailsWithItsDevice,
        bound={"marker": str(tmp_path), "broken": 1},
        gpu_class=two_devices("pair"),
    )
    watch = Remembering()
    computed = run(need, pool, counting(200), watch=watch, error_policy="skip", max_workers=1)
    assert outcome(computed) == (list(range(200)), {})
    ran_on = [event.devices for event in watch.placements if isinstance(event, Ready)]
    assert ran_on == [("simulated:pair/0",), ("simulated:pair/1",)]
    (avoided,) = [told for kind, told in watch.events if kind == "device_avoided"]
    assert avoided.startswith("simulated:pair/0 is avoided")


def test_a_row_that_breaks_two_devices_is_blamed_alone(pool, tmp_path):
    need = need_for(
        worker_functions.FailsWithItsDevice,
        bound={"marker": str(tmp_path), "broken": 99},
        gpu_class=two_devices("brittle"),
    )
    computed = run(need, pool, counting(20), error_policy="skip", max_workers=1)
    values, failed = outcome(computed)
    assert values == [None if number == 13 else number for number in range(20)]
    assert failed == {13: "input"}


def test_where_there_is_one_device_it_is_to_blame_and_no_row(pool, tmp_path):
    need = need_for(
        worker_functions.FailsWithItsDevice,
        bound={"marker": str(tmp_path), "broken": 99},
        gpu_class=GpuClass(name="only", local=LocalDevices(simulated=1)),
    )
    with pytest.raises(RowFailed, match="A device is at fault") as raised:
        list(run(need, pool, counting(20), error_policy="skip", max_worker_losses=1))
    assert raised.value.owner == "device"  # type: ignore[attr-defined]
