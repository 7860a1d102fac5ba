"""User code that disturbs its worker: every call is answered, or the process ends and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import worker_functions
from applied import numbers
from started_worker import END_SECONDS, StartedWorker

from lancegpu_sql.workers import CallResult, CallStream
from lancegpu_sql.workers.turns import EXIT_FAULT


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[StartedWorker]:
    started = StartedWorker(tmp_path)
    yield started
    started.close()


def answers(stream: CallStream, calls: int) -> list[CallResult]:
    """Send calls one after the other, each when the one before is answered."""
    found = []
    for call_id in range(calls):
        stream.send(call_id, numbers([1, 2]))
        result = stream.receive()
        assert result is not None
        found.append(result)
    return found


def test_an_alarm_that_goes_off_between_calls_keeps_no_call_from_its_answer(worker: StartedWorker) -> None:
    results = answers(worker.loaded_with(worker_functions.leaves_an_alarm), 50)
    assert {result.failure.error_type for result in results if result.failure} <= {"TimeoutError"}
    assert [result.call_id for result in results] == list(range(50))


def test_an_alarm_is_never_called_a_fault_of_the_program(worker: StartedWorker) -> None:
    results = answers(worker.loaded_with(worker_functions.leaves_an_alarm), 50)
    assert {result.failure.kind for result in results if result.failure} <= {"raised"}


@pytest.mark.parametrize(
    "disturb",
    [worker_functions.replaces_streams, worker_functions.replaces_clocks_and_json, worker_functions.forks],
    ids=lambda function: function.__name__,
)
def test_what_user_code_puts_in_the_place_of_others_reaches_no_answer(
    worker: StartedWorker, disturb: Callable[..., Any]
) -> None:
    results = answers(worker.loaded_with(disturb), 3)
    assert [result.values.to_pylist() for result in results] == [[1, 2]] * 3


def test_a_call_whose_answer_cannot_be_made_is_a_failure_of_that_call(worker: StartedWorker) -> None:
    (result,) = answers(worker.loaded_with(worker_functions.replaces_record_batches), 1)
    assert result.failure is not None
    assert "its answer could not be written" in result.failure.message


def test_a_child_that_comes_back_from_a_call_ends(worker: StartedWorker) -> None:
    answers(worker.loaded_with(worker_functions.forks), 1)
    children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
    while any(_runs(int(child)) for child in children.read_text().split()):
        pass


def _runs(process_id: int) -> bool:
    return ") Z " not in Path(f"/proc/{process_id}/stat").read_text()


def test_exceptions_thrown_into_its_thread_keep_no_call_from_its_answer(worker: StartedWorker) -> None:
    results = answers(worker.loaded_with(worker_functions.throws_into_its_thread), 300)
    assert "internal" not in {result.failure.kind for result in results if result.failure}


def test_a_main_thread_that_raises_ends_the_process_and_says_why() -> None:
    program = (
        "import threading\nfrom lancegpu_sql.workers.ending import run_to_end\n"
        "threading.Thread(target=threading.Event().wait).start()\nrun_to_end(lambda: 1 // 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=END_SECONDS, check=False)
    assert ended.returncode == EXIT_FAULT
    assert b"ZeroDivisionError" in ended.stderr


def test_an_error_of_any_length_arrives_at_a_sane_one(worker: StartedWorker) -> None:
    (result,) = answers(worker.loaded_with(worker_functions.raises_at_length), 1)
    assert result.failure is not None
    assert len(result.failure.message) < 21_000
    assert len(result.failure.traceback) < 101_000
    result.failure.message.encode()


def test_a_result_that_ends_the_program_when_it_is_read_is_the_users_fault(worker: StartedWorker) -> None:
    (result,) = answers(worker.loaded_with(worker_functions.gives_an_interrupting_number), 1)
    assert result.failure is not None
    assert result.failure.kind == "wrong_type"


def test_an_interrupt_between_calls_ends_nothing(worker: StartedWorker) -> None:
    stream = worker.loaded_with(worker_functions.double)
    os.kill(worker.process.pid, 2)
    assert answers(stream, 1)[0].values.to_pylist() == [2, 4]
