"""What apply gives: every row once and in order, parts, several workers, logs and timings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import NO_ONE, Remembering, counting, input_batch, need_for, run, values_of

from lancegpu_sql.apply import Computed, InputBatch
from lancegpu_sql.errors import Cancelled
from lancegpu_sql.placement import GpuClass, LocalDevices, LocalPlacement, Ready
from lancegpu_sql.workers import WorkerPool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    placement = LocalPlacement(tmp_path_factory.mktemp("run"))
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()
    placement.close()


def endless() -> Iterator[InputBatch]:
    """Yield batches for ever."""
    while True:
        yield input_batch(range(256))


@pytest.mark.parametrize("target", [worker_functions.double, worker_functions.double_all])
def test_every_row_comes_once_and_in_order(pool, target):
    assert values_of(run(need_for(target), pool, counting(20_000))) == [2 * number for number in range(20_000)]


def test_the_tag_comes_back_beside_its_values(pool):
    for piece in run(need_for(worker_functions.double), pool, counting(5000, 700)):
        assert piece.values.to_pylist() == [2 * row for row in piece.tag.column(0).to_pylist()]


def test_small_input_batches_are_computed_together(pool):
    watch = Remembering()
    values = values_of(run(need_for(worker_functions.double_all), pool, counting(3000, 7), watch=watch))
    assert values == [2 * number for number in range(3000)]
    assert len(watch.calls) < 30


def test_batch_size_bounds_each_call(pool):
    watch = Remembering()
    list(run(need_for(worker_functions.double_all), pool, counting(1000), watch=watch, batch_size=64))
    assert max(rows for rows, _, _ in watch.calls) == 64


def test_without_input_no_worker_is_asked_for(pool):
    watch = Remembering()
    assert list(run(need_for(worker_functions.double), pool, iter(()), watch=watch)) == []
    assert watch.placements == []


def test_input_batches_without_rows_give_nothing(pool):
    assert values_of(run(need_for(worker_functions.double), pool, iter([input_batch([]), input_batch([])]))) == []


def part_rows(computed: Iterator[Computed]) -> list[int]:
    parts, rows = [], 0
    for piece in computed:
        rows += len(piece.values)
        if piece.closes_part:
            parts.append(rows)
            rows = 0
    assert rows == 0, "the last part is closed"
    return parts


def test_parts_grow_from_a_probe(pool):
    need = need_for(worker_functions.double_all)
    assert part_rows(run(need, pool, counting(10_000), part_target_seconds=1e6)) == [10, 160, 2560, 7270]


def test_parts_are_no_larger_than_they_may_be(pool):
    need = need_for(worker_functions.double_all)
    assert part_rows(run(need, pool, counting(1000), max_part_rows=300)) == [10, 160, 300, 300, 230]


def test_parts_of_a_slow_function_take_about_the_target_time(pool):
    need = need_for(worker_functions.slow_double)
    parts = part_rows(run(need, pool, counting(16), part_target_seconds=0.3, max_workers=1))
    assert parts[0] == 10
    assert max(parts[1:]) <= 4


def test_an_input_that_ends_where_a_part_ends_closes_it(pool):
    assert part_rows(run(need_for(worker_functions.double), pool, counting(10))) == [10]


def test_two_workers_share_the_work_and_results_stay_in_order(pool):
    need = need_for(worker_functions.process_id)
    for lease in [pool.lease(need, lambda _: None, NO_ONE) for _ in range(2)]:
        lease.release()
    watch = Remembering()
    rows = [
        row
        for piece in run(need, pool, counting(2000, 100), watch=watch, batch_size=20)
        for row in piece.tag.column(0).to_pylist()
    ]
    assert rows == list(range(2000))
    assert len({worker for _, _, worker in watch.calls}) == 2


def test_max_workers_caps_the_workers(pool):
    need = need_for(worker_functions.process_id)
    watch = Remembering()
    list(run(need, pool, counting(1000, 100), watch=watch, batch_size=20, max_workers=1))
    assert len({worker for _, _, worker in watch.calls}) == 1


def test_a_cold_second_worker_is_started_when_the_work_goes_on(pool):
    watch = Remembering()
    values = values_of(run(need_for(worker_functions.slow_batch), pool, counting(400, 100), watch=watch, batch_size=10))
    assert values == [2 * number for number in range(400)]
    assert [kind for kind, _ in watch.events] == ["worker_added"]


def test_no_worker_is_started_for_the_little_that_is_left(pool):
    cold = replace(need_for(worker_functions.slow_batch), env={"NO_WORKER_HAS": "this"})
    watch = Remembering()
    list(run(cold, pool, counting(350, 100), watch=watch, batch_size=10, rows_left=lambda: 1))
    assert watch.events == []


def test_of_two_devices_one_goes_to_another_job_that_waits(pool):
    two = GpuClass(name="two", resource_name="example.com/toy", local=LocalDevices(simulated=2))
    watch = Remembering()
    computed = run(need_for(worker_functions.slow_batch, gpu_class=two), pool, endless(), watch=watch, batch_size=1)
    while ("worker_added" not in dict(watch.events)) and next(computed):
        pass
    other = run(need_for(worker_functions.double_all, gpu_class=two), pool, counting(10))
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.extend(values_of(other)))
    waiting.start()
    while waiting.is_alive():
        next(computed)
    assert got == [2 * number for number in range(10)]
    computed.close()  # type: ignore[attr-defined]


def test_a_second_worker_is_of_a_backup_class_where_the_own_one_is_full(pool):
    own, spare = (GpuClass(name=name, local=LocalDevices(simulated=1)) for name in ("own", "spare"))
    need = replace(need_for(worker_functions.slow_batch, gpu_class=own), backups=(spare,))
    watch = Remembering()
    computed = run(need, pool, endless(), watch=watch, batch_size=1)
    while ("worker_added" not in dict(watch.events)) and next(computed):
        pass
    computed.close()  # type: ignore[attr-defined]
    assert dict(watch.events)["worker_added"].endswith("computes as well, on GPU class 'spare' (a backup of 'own')")
    assert [one.gpu_class for one in watch.timings.values()] == ["own", "spare"]


def test_a_second_warm_worker_waits_for_no_result_where_earlier_work_tells_that_rows_would_wait(pool, tmp_path):
    two = GpuClass(name="pair", resource_name="example.com/toy", local=LocalDevices(simulated=2))
    need = need_for(worker_functions.MeetsAnother, bound={"path": str(tmp_path)}, gpu_class=two)
    for lease in [pool.lease(need, lambda _: None, NO_ONE) for _ in range(2)]:
        lease.note_computed(1.0, rows=10)
        lease.release()
    assert values_of(run(need, pool, counting(100), max_part_rows=None)) == [2] * 100


def test_gpu_limits_hold_over_all_classes(pool):
    own, spare = (GpuClass(name=name, local=LocalDevices(simulated=1)) for name in ("first", "second"))
    need = replace(need_for(worker_functions.slow_batch, gpu_class=own), backups=(spare,))
    pool.lease(need.on(spare), lambda _: None, NO_ONE).release()  # warm, so it would be used at once
    watch = Remembering()
    list(run(need, pool, counting(300, 100), watch=watch, batch_size=10, max_workers=1))
    assert watch.events == []


def test_a_fast_function_gets_no_second_worker(pool):
    watch = Remembering()
    list(run(need_for(worker_functions.double_all), pool, counting(200_000), watch=watch))
    assert watch.events == []


def test_calls_of_a_concurrent_batch_function_keep_their_order(pool):
    need = need_for(worker_functions.slow_batch, concurrency=8)
    watch = Remembering()
    values = values_of(run(need, pool, counting(400, 100), watch=watch, batch_size=10, max_workers=1))
    assert values == [2 * number for number in range(400)]
    (timings,) = watch.timings.values()
    assert timings.idle_seconds + timings.waiting_for_rows_seconds < timings.computing_seconds / 2


def test_lines_printed_while_loading_and_computing_reach_the_log(pool, tmp_path):
    watch = Remembering()
    list(run(need_for(worker_functions.Notes, bound={"path": str(tmp_path / "n")}), pool, counting(1), watch=watch))
    list(run(need_for(worker_functions.prints), pool, counting(1), watch=watch))
    assert watch.lines[0] == "getting ready"
    assert sorted(watch.lines[1:]) == ["child 0", "native", "python 0"]


def test_the_watch_hears_that_the_worker_is_ready(pool):
    watch = Remembering()
    list(run(need_for(worker_functions.double), pool, counting(1), watch=watch))
    assert isinstance(watch.placements[-1], Ready)


def test_timings_tell_computing_from_waiting_for_rows(pool):
    let_go = threading.Event()

    def hesitant() -> Iterator[InputBatch]:
        yield input_batch([1])
        let_go.wait(0.5)
        yield input_batch([2])

    watch = Remembering()
    list(run(need_for(worker_functions.slow_double), pool, hesitant(), watch=watch))
    (timings,) = watch.timings.values()
    assert timings.computing_seconds >= 0.2
    assert timings.waiting_for_rows_seconds >= 0.3


def test_an_error_of_the_input_is_raised_as_it_is(pool):
    def broken() -> Iterator[InputBatch]:
        yield from counting(100)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(run(need_for(worker_functions.double), pool, broken()))


def test_what_is_read_ahead_is_bounded_however_long_the_input(pool):
    read = taken = ahead = 0

    def counted() -> Iterator[InputBatch]:
        nonlocal read
        for batch in endless():
            read += batch.rows
            yield batch

    bound_bytes = 8 * 1024 * 1024
    computed = run(
        need_for(worker_functions.wide, output=pa.list_(pa.int64(), 512)),
        pool,
        counted(),
        outstanding_bytes=bound_bytes,
        call_target_bytes=1024 * 1024,
        max_workers=1,
    )
    for piece in computed:
        taken += len(piece.values)
        ahead = max(ahead, read - taken)
        if taken > 20_000:
            break
    computed.close()  # type: ignore[attr-defined]
    assert ahead * 4096 < bound_bytes + 3 * 1024 * 1024


def test_closing_the_generator_gives_the_worker_back_warm(pool):
    need = need_for(worker_functions.double)
    computed = run(need, pool, counting(1_000_000))
    next(computed)
    computed.close()  # type: ignore[attr-defined]
    assert pool.warm_workers(need) == 1


def test_cancelling_ends_the_work_and_keeps_the_worker_warm(pool):
    need = need_for(worker_functions.slow_double)
    cancelled = threading.Event()
    computed = run(need, pool, counting(1000), cancelled=cancelled)
    next(computed)
    cancelled.set()
    with pytest.raises(Cancelled):
        list(computed)
    assert pool.warm_workers(need) >= 1


def test_cancelling_kills_a_worker_that_does_not_come_back(pool):
    need = need_for(worker_functions.forever)
    cancelled = threading.Event()
    watch = Remembering()
    threading.Timer(0.5, cancelled.set).start()
    with pytest.raises(Cancelled):
        list(run(need, pool, counting(10), watch=watch, cancelled=cancelled))
    assert pool.warm_workers(need) == 0


def test_no_thread_is_left_behind(pool):
    before = {thread.name for thread in threading.enumerate()}
    list(run(need_for(worker_functions.double), pool, counting(1000)))
    assert {thread.name for thread in threading.enumerate()} <= before | {"worker-pool"}


def test_nulls_go_to_the_worker_and_come_back(pool, tmp_path: Path):
    batch = input_batch([1, None, 3])
    assert values_of(run(need_for(worker_functions.double), pool, iter([batch]))) == [2, None, 6]
