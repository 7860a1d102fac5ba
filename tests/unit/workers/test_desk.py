"""The desk, with a Function of the test's own: order, dropping, retiring."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancegpu_sql.workers.calls import CallFailure, CallResult, FunctionLoad, decode_result
from lancegpu_sql.workers.desk import Desk, Stream

LOAD = FunctionLoad("f", 1, "d", b"", {}, "int64")
BATCH = pa.record_batch([pa.array([1, 2])], names=["number"])


class Quiet:
    """No output to catch."""

    def take(self) -> tuple[str, ...]:
        return ()


class Told:
    """A Function that does what it is told."""

    def __init__(self, act: Callable[[pa.RecordBatch], pa.Array] | None = None) -> None:
        self._act = act or (lambda batch: batch.column(0))
        self.closed = 0

    def call(self, batch: pa.RecordBatch) -> pa.Array:
        return self._act(batch)

    def close(self) -> None:
        self.closed += 1


def failure_of(error: BaseException) -> CallFailure:
    return CallFailure("raised", str(error), type(error).__name__)


def desk_with(function: Told, at_once: int = 1) -> Desk:
    """A desk that runs in a thread, as a worker's main thread would, with the Function loaded."""
    desk = Desk(lambda load: (function, at_once), failure_of, Quiet())  # type: ignore[arg-type]
    threading.Thread(target=desk.run, daemon=True).start()
    assert desk.load(LOAD).calls_at_once == at_once
    return desk


def open_stream(desk: Desk) -> Stream:
    return desk.open(lambda: False)


def results(stream: Stream) -> list[CallResult]:
    found = []
    while (reply := stream.replies.get()) is not None:
        message, values, _ = reply
        found.append(decode_result(message, values and values.column(0)))
    return found


def call_all(desk: Desk, stream: Stream, calls: int) -> None:
    for call_id in range(calls):
        desk.call(stream, call_id, BATCH)
    desk.end(stream)


def test_calls_are_answered_in_order_and_then_the_stream_ends():
    desk = desk_with(Told())
    stream = open_stream(desk)
    call_all(desk, stream, 5)
    assert [result.call_id for result in results(stream)] == [0, 1, 2, 3, 4]


def test_an_answer_names_the_slot_of_its_call():
    desk = desk_with(Told())
    stream = open_stream(desk)
    desk.call(stream, 1, BATCH, slot=3)
    reply = stream.replies.get()
    assert reply is not None
    assert reply.slot == 3


def test_a_call_that_raises_is_answered_with_its_failure():
    def refuse(batch: pa.RecordBatch) -> Any:
        raise ValueError("no")

    desk = desk_with(Told(refuse))
    stream = open_stream(desk)
    call_all(desk, stream, 1)
    (result,) = results(stream)
    assert result.failure == CallFailure("raised", "no", "ValueError")


def test_a_call_before_any_load_is_a_failure_and_not_the_end():
    desk = Desk(lambda load: (Told(), 1), failure_of, Quiet())  # type: ignore[arg-type]
    threading.Thread(target=desk.run, daemon=True).start()
    stream = open_stream(desk)
    call_all(desk, stream, 1)
    assert results(stream)[0].failure is not None


def test_a_skipping_stream_drops_the_calls_not_begun():
    begun, go_on = threading.Event(), threading.Event()

    def wait(batch: pa.RecordBatch) -> pa.Array:
        begun.set()
        go_on.wait()
        return batch.column(0)

    desk = desk_with(Told(wait))
    stream = open_stream(desk)
    call_all(desk, stream, 3)
    begun.wait()
    stream.skipping = True
    go_on.set()
    assert [result.call_id for result in results(stream)] == [0]


def test_a_cancelled_stream_is_not_computed():
    desk = desk_with(Told())
    stream = desk.open(lambda: True)
    call_all(desk, stream, 3)
    assert results(stream) == []


def test_calls_run_at_once_where_the_function_allows_it():
    together = threading.Barrier(3, timeout=10)

    def meet(batch: pa.RecordBatch) -> pa.Array:
        together.wait()
        return batch.column(0)

    desk = desk_with(Told(meet), at_once=3)
    stream = open_stream(desk)
    call_all(desk, stream, 3)
    assert sorted(result.call_id for result in results(stream) if result.values is not None) == [0, 1, 2]


def test_health_tells_that_a_call_runs():
    begun, go_on = threading.Event(), threading.Event()

    def wait(batch: pa.RecordBatch) -> pa.Array:
        begun.set()
        go_on.wait()
        return batch.column(0)

    desk = desk_with(Told(wait))
    stream = open_stream(desk)
    call_all(desk, stream, 1)
    begun.wait()
    assert desk.health().state == "computing"
    go_on.set()
    results(stream)
    assert (desk.health().state, desk.health().calls_done) == ("idle", 1)


def test_another_load_closes_the_function_before():
    function = Told()
    desk = desk_with(function)
    desk.load(LOAD)
    assert function.closed == 1


def test_retiring_closes_the_function_and_ends_the_streams():
    function = Told()
    desk = Desk(lambda load: (function, 1), failure_of, Quiet())  # type: ignore[arg-type]
    main = threading.Thread(target=desk.run, daemon=True)
    main.start()
    desk.load(LOAD)
    stream = open_stream(desk)
    desk.retire()
    assert results(stream) == []
    main.join()
    assert function.closed == 1


def test_a_failed_load_leaves_the_desk_empty_and_alive():
    def load(_: FunctionLoad) -> Any:
        raise OSError("no weights")

    desk = Desk(load, failure_of, Quiet())  # type: ignore[arg-type]
    threading.Thread(target=desk.run, daemon=True).start()
    assert desk.load(LOAD).failure == CallFailure("raised", "no weights", "OSError")
    assert desk.health().state == "empty"


def test_what_the_output_raises_does_not_keep_a_call_from_its_answer():
    class Broken:
        def __init__(self) -> None:
            self.fine = 1  # the load's

        def take(self) -> tuple[str, ...]:
            self.fine -= 1
            if self.fine < 0:
                raise SystemExit
            return ()

    desk = Desk(lambda load: (Told(), 1), failure_of, Broken())  # type: ignore[arg-type]
    threading.Thread(target=desk.run, daemon=True).start()
    desk.load(LOAD)
    stream = open_stream(desk)
    call_all(desk, stream, 2)
    assert [result.failure.error_type for result in results(stream) if result.failure] == ["SystemExit"] * 2


def test_a_desk_whose_thread_ended_says_so():
    desk = Desk(lambda load: (Told(), 1), failure_of, Quiet())  # type: ignore[arg-type]
    main = threading.Thread(target=desk.run, daemon=True)
    main.start()
    assert desk.alive
    desk.retire()
    main.join()
    assert not desk.alive
