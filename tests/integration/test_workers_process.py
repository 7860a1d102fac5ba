"""The worker process by itself: who may speak to it, what user code sees, how it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import worker_functions
from applied import numbers
from started_worker import END_SECONDS, StartedWorker

from lancegpu_sql.errors import WorkerLost
from lancegpu_sql.placement.shared_memory import SHARED_BYTES
from lancegpu_sql.workers.calls import TOKEN_VARIABLE
from lancegpu_sql.workers.shared_results import SLOT_BYTES


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[StartedWorker]:
    started = StartedWorker(tmp_path)
    yield started
    started.close()


def test_a_call_gives_its_values(worker):
    result = worker.result_of(worker_functions.double, [1, 2, 3])
    assert result.values.to_pylist() == [2, 4, 6]


def test_large_values_are_in_memory_that_is_used_again(worker):
    before = pa.total_allocated_bytes()
    values = worker.result_of(worker_functions.double, range(1_000_000)).values
    assert values.nbytes >= 8_000_000
    assert pa.total_allocated_bytes() - before >= values.nbytes
    assert values[-1].as_py() == 1_999_998


def test_a_wrong_token_is_refused(worker):
    stranger = worker.connect("guessed")
    with pytest.raises(WorkerLost, match="owner only"):
        stranger.health(5)
    stranger.close()


def test_a_wrong_token_gets_no_stream(worker):
    stranger = worker.connect("guessed")
    with pytest.raises(WorkerLost, match="owner only"):
        stranger.open_stream().receive()
    stranger.close()


def test_without_a_token_no_worker_starts(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    command = [sys.executable, "-m", "lancegpu_sql.workers", "--socket", str(tmp_path / "w.sock")]
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 2


def test_user_code_does_not_see_the_token(worker):
    assert worker.result_of(worker_functions.secret, [1]).values.to_pylist() == ["none"]


def test_user_code_reads_nothing_from_standard_input(worker):
    assert worker.result_of(worker_functions.reads_stdin, [1]).values.to_pylist() == [""]


def test_a_worker_loads_no_room_but_its_own_and_functions(worker):
    (loaded,) = worker.result_of(worker_functions.modules, [1]).values.to_pylist()
    assert set(loaded.split()) <= {
        "lancegpu_sql.errors",
        "lancegpu_sql.functions",
        "lancegpu_sql.imports",
        "lancegpu_sql.version",
        "lancegpu_sql.workers",
    }


def test_a_function_of_numbers_does_not_wait_for_pandas_to_be_imported(worker):
    stream = worker.loaded_with(worker_functions.has_pandas)
    for call_id in range(2):
        stream.send(call_id, numbers([1]))
    assert [stream.receive().values.to_pylist() for _ in range(2)] == [[0], [0]]


def test_what_user_code_prints_comes_beside_the_result_however_it_is_printed(worker):
    result = worker.result_of(worker_functions.prints, [7])
    assert sorted(result.log) == ["child 7", "native", "python 7"]


def test_of_a_flood_no_line_is_cut(worker):
    log = worker.result_of(worker_functions.floods_with_long_lines, [1]).log
    assert len({line for line in log if "left out" not in line}) == 1


def test_of_a_flood_of_lines_the_first_and_last_are_kept(worker):
    log = worker.result_of(worker_functions.floods, [1]).log
    assert (log[0], log[-1]) == ("line 0", "line 99999")
    assert len(log) <= 1001
    assert any("left out" in line for line in log)


def test_a_failure_is_data_and_the_worker_goes_on(worker):
    stream = worker.loaded_with(worker_functions.fails_on_negative)
    for call_id, value in ((1, -5), (2, 5)):
        stream.send(call_id, numbers([1, value]))
    failed, fine = stream.receive(), stream.receive()
    assert (failed.failure.kind, failed.failure.row_index, failed.failure.error_type) == ("raised", 1, "ValueError")
    assert fine.values.to_pylist() == [1, 5]


def test_an_exception_that_does_not_pickle_arrives_as_text(worker):
    failure = worker.result_of(worker_functions.fails_unpicklably, [1]).failure
    assert "held fast" in failure.message
    assert failure.error_type.endswith("Unpicklable")


def test_health_is_answered_while_a_call_runs(worker):
    stream = worker.loaded_with(worker_functions.forever)
    stream.send(1, numbers([1]))
    while (health := worker.client.health(5)).state != "computing":
        pass
    assert (health.function, health.calls_done) == ("forever", 0)


def test_a_stopped_worker_does_not_answer_in_time(worker):
    os.kill(worker.process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerLost, match="in time"):
        worker.client.health(0.2)


def test_calls_of_a_batch_function_run_several_at_a_time(worker):
    stream = worker.loaded_with(worker_functions.slow_batch, concurrency=8)
    for call_id in range(8):
        stream.send(call_id, numbers([call_id]))
    results = [stream.receive() for _ in range(8)]
    assert {result.call_id: result.values[0].as_py() for result in results} == {n: 2 * n for n in range(8)}


def test_a_stopped_stream_finishes_the_call_that_runs_and_drops_the_others(worker, tmp_path):
    stream = worker.loaded_with(worker_functions.Notes, bound={"path": str(tmp_path / "notes")})
    for call_id in range(3):
        stream.send(call_id, numbers([1]))
    while worker.client.health(5).state != "computing":
        pass
    stream.stop()
    assert stream.receive().call_id == 0
    assert stream.receive() is None


def test_sigterm_finishes_the_call_that_runs_and_closes_the_function(worker, tmp_path):
    notes = tmp_path / "notes"
    stream = worker.loaded_with(worker_functions.Notes, bound={"path": str(notes)})
    for call_id in range(3):
        stream.send(call_id, numbers([1]))
    while worker.client.health(5).state != "computing":
        pass
    worker.process.send_signal(signal.SIGTERM)
    assert stream.receive().call_id == 0
    assert worker.process.wait(END_SECONDS) == 0
    assert notes.read_text().split("\n") == ["init", "call 1", "called", "close", ""]


def test_end_of_standard_input_closes_the_function(worker, tmp_path):
    notes = tmp_path / "notes"
    worker.loaded_with(worker_functions.Notes, bound={"path": str(notes)})
    worker.process.stdin.close()
    assert worker.process.wait(END_SECONDS) == 0
    assert notes.read_text().split() == ["init", "close"]


@pytest.fixture
def sharing(tmp_path: Path) -> Iterator[StartedWorker]:
    started = StartedWorker(tmp_path, shares=True)
    yield started
    started.close()


def test_large_values_come_through_shared_memory(sharing):
    values = sharing.result_of(worker_functions.double_all, range(100_000)).values
    assert values[-1].as_py() == 199_998
    assert bytes(sharing.memory[-SLOT_BYTES:]).strip(b"\0")


def test_values_too_large_for_shared_memory_come_all_the_same(sharing):
    values = sharing.result_of(worker_functions.double_all, range(SLOT_BYTES // 8)).values
    assert (len(values), values[-1].as_py()) == (SLOT_BYTES // 8, SLOT_BYTES // 4 - 2)


def test_more_calls_than_slots_are_answered_in_order(sharing):
    stream = sharing.loaded_with(worker_functions.double_all)
    for call_id in range(20):
        stream.send(call_id, numbers([call_id] * 10_000))
    stream.done_sending()
    results = list(iter(stream.receive, None))
    assert [(result.call_id, result.values[9_999].as_py()) for result in results] == [(n, 2 * n) for n in range(20)]


def test_the_slots_of_a_stream_that_ended_serve_the_next(sharing):
    for _ in range(20):
        stream = sharing.loaded_with(worker_functions.double_all)
        for call_id in range(3):
            stream.send(call_id, numbers([1] * 10_000))
        stream.stop()
        while stream.receive() is not None:
            pass
    sharing.memory[:] = bytes(len(sharing.memory))
    assert sharing.result_of(worker_functions.double_all, [7] * 10_000).values[0].as_py() == 14
    assert bytes(sharing.memory).strip(b"\0")


def test_the_slots_of_streams_that_broke_are_not_used_again(sharing):
    for _ in range(SHARED_BYTES // SLOT_BYTES):
        stream = sharing.loaded_with(worker_functions.double_all)
        stream.send(0, numbers([1] * 10_000))
        stream.cancel()
    assert sharing.result_of(worker_functions.double_all, [2] * 10_000).values[0].as_py() == 4
    sharing.memory[:] = bytes(len(sharing.memory))  # nothing is under way any more
    assert sharing.result_of(worker_functions.double_all, [3] * 10_000).values[0].as_py() == 6
    assert not bytes(sharing.memory).strip(b"\0")


def test_a_worker_ends_with_its_owner_whatever_it_is_busy_with(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert owner.stdout is not None
    worker = os.pidfd_open(int(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    ended = select.poll()
    ended.register(worker, select.POLLIN)
    assert ended.poll(END_SECONDS * 1000)
    os.close(worker)


def _own_a_busy_worker(folder: Path) -> None:
    """What the owner in the test above does."""
    worker = StartedWorker(folder)
    stream = worker.loaded_with(worker_functions.holds_the_lock)
    stream.send(1, numbers([1]))
    print(worker.process.pid, flush=True)
    stream.receive()


if __name__ == "__main__":
    _own_a_busy_worker(Path(sys.argv[1]))
