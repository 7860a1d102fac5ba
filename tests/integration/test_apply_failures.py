"""What goes wrong in user code and with workers, each told apart."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import Remembering, counting, input_batch, need_for, run, values_of

from lancegpu_sql.errors import CallTimeout, LoadFailed, LoadTimeout, RowFailed, WorkerLost, WrongResult
from lancegpu_sql.placement import LocalPlacement
from lancegpu_sql.workers import WorkerNeed, WorkerPool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    placement = LocalPlacement(tmp_path_factory.mktemp("run"))
    workers = WorkerPool(placement, worker_idle_seconds=60)
    yield workers
    workers.close()
    placement.close()


def killing(folder: Path, *, times: int, how: str = "signal") -> WorkerNeed:
    return need_for(worker_functions.Kills, bound={"marker": str(folder), "times": times, "how": how})


def test_a_row_that_raises_is_named_with_its_id_arguments_and_traceback(pool):
    rows = input_batch([1, 2, -3, 4], first_row_id=70)
    with pytest.raises(RowFailed, match="no negative numbers: -3") as raised:
        list(run(need_for(worker_functions.fails_on_negative), pool, iter([rows])))
    error = raised.value
    assert (error.row_id, error.arguments, error.error_type) == (72, {"number": -3}, "ValueError")  # type: ignore[attr-defined]
    assert "in fails_on_negative" in error.user_traceback  # type: ignore[attr-defined]


def test_results_before_a_failed_row_still_come(pool):
    rows = input_batch([*range(500), -1, *range(500)])
    computed = run(need_for(worker_functions.fails_on_negative), pool, iter([rows]), batch_size=50)
    came: list[pa.Array] = []
    with pytest.raises(RowFailed):
        came.extend(piece.values for piece in computed)
    values = pa.concat_arrays(came).to_pylist()
    assert values == list(range(len(values)))
    assert len(values) > 400


def test_a_failed_row_leaves_the_worker_warm(pool):
    need = need_for(worker_functions.fails_on_negative)
    with pytest.raises(RowFailed):
        list(run(need, pool, iter([input_batch([-1] * 1000)])))
    assert pool.warm_workers(need) == 1


def test_an_exception_that_does_not_pickle_is_a_row_that_failed(pool):
    with pytest.raises(RowFailed, match="held fast"):
        list(run(need_for(worker_functions.fails_unpicklably), pool, counting(5)))


def test_a_batch_that_raises_names_its_rows(pool):
    rows = input_batch(range(100), first_row_id=900)
    with pytest.raises(RowFailed, match="not this batch") as raised:
        list(run(need_for(worker_functions.fails_as_batch), pool, iter([rows])))
    assert raised.value.row_ids == [900]  # type: ignore[attr-defined]


def test_a_result_of_the_wrong_length_says_both(pool):
    with pytest.raises(WrongResult) as raised:
        list(run(need_for(worker_functions.too_short), pool, counting(5)))
    assert (raised.value.expected, raised.value.got) == ("1", "0")  # type: ignore[attr-defined]


def test_a_result_of_the_wrong_type_says_both(pool):
    with pytest.raises(WrongResult, match=r"int64.*string"):
        list(run(need_for(worker_functions.wrong_type), pool, counting(5)))


def test_a_call_over_its_time_is_told_and_its_worker_ended(pool):
    need = need_for(worker_functions.forever)
    with pytest.raises(CallTimeout, match=r"call_timeout_seconds=0\.3"):
        list(run(need, pool, counting(5), call_timeout_seconds=0.3))
    assert pool.warm_workers(need) == 0


def test_the_row_that_never_ends_is_named_and_others_are_computed(pool, tmp_path):
    need = need_for(worker_functions.HangsInBatch, bound={"path": str(tmp_path / "calls")})
    rows = input_batch(range(300), first_row_id=70)
    watch, came = Remembering(), []
    options = {"call_timeout_seconds": 0.5, "batch_size": 300, "max_workers": 1, "error_policy": "skip"}
    with pytest.raises(CallTimeout, match=r"0\.5 over row 83 with number=13") as raised:
        came.extend(piece.values for piece in run(need, pool, iter([rows]), watch=watch, **options))
    assert (raised.value.row_id, raised.value.arguments) == (83, {"number": 13})  # type: ignore[attr-defined]
    assert raised.value.owner == "timeout"  # type: ignore[attr-defined]
    assert pa.concat_arrays(came).to_pylist() == list(range(13))
    times = [told for kind, told in watch.events if kind == "call_timed_out"]
    assert "rows took longer than call_timeout_seconds=0.5: they are tried again in pieces" in times[0]
    assert len(times) <= 3, "each takes all of the time"


def test_a_call_that_is_too_large_for_its_time_is_done_in_pieces(pool):
    need = need_for(worker_functions.slowly_in_batch)
    computed = run(need, pool, counting(40), call_timeout_seconds=0.4, batch_size=40, max_workers=1)
    assert values_of(computed) == list(range(40))


def test_a_function_that_cannot_be_loaded(pool):
    with pytest.raises(LoadFailed, match=r"weights\.bin"):
        list(run(need_for(worker_functions.FailsToLoad), pool, counting(5)))


def test_a_function_that_takes_too_long_to_load(pool):
    with pytest.raises(LoadTimeout):
        list(run(need_for(worker_functions.SlowToLoad, init_timeout_seconds=0.2), pool, counting(5)))


def test_a_worker_that_dies_while_loading(pool):
    with pytest.raises(WorkerLost, match="SIGKILL"):
        list(run(need_for(worker_functions.DiesLoading), pool, counting(5), max_worker_losses=1))


def test_the_calls_of_a_killed_worker_are_done_by_another(pool, tmp_path):
    watch = Remembering()
    values = values_of(run(killing(tmp_path, times=2), pool, counting(1000), watch=watch))
    assert values == list(range(1000))
    assert [kind for kind, _ in watch.events] == ["worker_lost", "worker_lost"]


@pytest.mark.parametrize(("how", "cause"), [("signal", "signal"), ("exit", "exit")])
def test_a_call_that_costs_too_many_workers_is_blamed_with_the_cause(pool, tmp_path, how, cause):
    with pytest.raises(WorkerLost) as raised:
        list(run(killing(tmp_path, times=100, how=how), pool, iter([input_batch([13])]), max_worker_losses=2))
    assert (raised.value.cause, raised.value.losses) == (cause, 3)  # type: ignore[attr-defined]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_stopped_worker_is_given_up_and_its_calls_are_done_by_another(pool, tmp_path):
    watch = Remembering()
    computed = run(
        killing(tmp_path, times=1, how="stop"),
        pool,
        counting(100),
        watch=watch,
        silence_seconds=0.2,
        health_timeout_seconds=0.2,
    )
    assert values_of(computed) == list(range(100))
    assert "did not answer" in watch.events[0][1]


def test_a_worker_that_is_told_to_end_hands_its_calls_over(pool):
    values: list[int] = []
    for piece in run(need_for(worker_functions.slow_double), pool, counting(12), max_workers=1, batch_size=2):
        if not values:
            (worker,) = [int(lease.name.rpartition(" ")[2]) for lease in pool._leased]
            os.kill(worker, signal.SIGTERM)
        values += piece.values.to_pylist()
    assert values == [2 * number for number in range(12)]


def test_workers_killed_again_and_again_lose_and_double_no_row(pool):
    rows: list[int] = []
    computed = run(
        need_for(worker_functions.slow_batch),
        pool,
        counting(300, 20),
        batch_size=10,
        max_workers=1,
        max_worker_losses=99,
    )
    for turn, piece in enumerate(computed):
        rows += piece.tag.column(0).to_pylist()
        if turn % 3 == 2:
            for worker in tuple(pool._leased):
                os.kill(int(worker.name.rpartition(" ")[2]), signal.SIGKILL)
    assert rows == list(range(300))


def test_nothing_is_said_on_standard_error_when_a_worker_is_killed(pool, tmp_path, capfd):
    values_of(run(killing(tmp_path, times=1), pool, counting(1000)))
    assert capfd.readouterr().err == ""
