"""The board, moved by hand: who gets which call, in which order results leave, what a failure stops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from applied import counting, input_batch
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.batches import InputBatch
from lancegpu_sql.apply.board import Board
from lancegpu_sql.apply.hand import Call, Hand
from lancegpu_sql.apply.options import ApplyOptions
from lancegpu_sql.apply.retry import RetryPolicy
from lancegpu_sql.errors import CallTimeout, Cancelled, RowFailed, WorkerLost
from lancegpu_sql.placement import Lost
from lancegpu_sql.workers import CallFailure, CallResult, FunctionLoad

LOAD = FunctionLoad("double", 1, "d", b"", {}, "int64")
KILLED = Lost("signal", "worker 1 was killed by SIGKILL")


def board_over(rows: int, batch_rows: int = 1000, **options: object) -> Board:
    return Board(counting(rows, batch_rows), LOAD, ApplyOptions(**options))  # type: ignore[arg-type]


def joined(board: Board, name: str = "worker 1", *, stays: bool = True) -> Hand:
    hand = Hand(name, stays)
    board.join(hand)
    return hand


def take(board: Board, hand: Hand) -> Call:
    call = board.next_call(hand)
    assert call is not None
    return call


def done(board: Board, hand: Hand, call: Call, seconds: float = 1e-5) -> None:
    board.complete(hand, CallResult(call.id, call.rows.arguments.column(0), None, seconds))


def failed(board: Board, hand: Hand, call: Call) -> None:
    board.complete(hand, CallResult(call.id, None, CallFailure("raised", "ValueError: no", "ValueError", "", 0), 0.1))


def warmed_up(board: Board, hand: Hand, calls: int = 4) -> None:
    """Get past the probe, so that several calls go ahead."""
    for _ in range(calls):
        done(board, hand, take(board, hand))
        assert board.next_done(0) is not None


def test_a_worker_whose_pace_is_known_begins_with_more_than_one_row():
    board = board_over(1000, max_part_rows=None)
    hand = Hand("worker 1", stays=True, rows_per_second_before=100_000)
    board.join(hand)
    assert take(board, hand).rows.rows == 256


def test_the_first_call_is_one_row_and_the_probe_ends_with_the_tenth():
    board = board_over(1000)
    hand = joined(board)
    sizes = []
    for _ in range(3):
        call = take(board, hand)
        sizes.append((call.rows.rows, call.closes_part))
        done(board, hand, call)
    assert sizes == [(1, False), (9, True), (144, False)]


def test_results_leave_in_the_order_of_the_input():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    earlier, later = take(board, first), take(board, second)
    done(board, second, later)
    assert board.next_done(0) is None
    done(board, first, earlier)
    assert [board.next_done(0), board.next_done(0)] == [earlier, later]


def test_the_calls_of_a_lost_worker_go_to_another_first():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    lost = [take(board, first), take(board, first)]
    board.hand_back(first, KILLED)
    again = [take(board, second)]
    done(board, second, again[0])
    assert [*again, take(board, second)] == lost


def test_the_calls_of_a_lost_worker_go_to_another_one_by_one():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    take(board, first)
    take(board, first)
    board.hand_back(first, KILLED)
    take(board, second)
    assert call_if_any(board, second) is None


def test_only_the_call_that_a_lost_worker_computed_is_blamed():
    board = board_over(10_000)
    hand = joined(board)
    warmed_up(board, hand)
    computed, waiting = take(board, hand), take(board, hand)
    board.hand_back(hand, KILLED)
    assert (computed.losses, waiting.losses) == (1, 0)


def test_a_call_is_not_blamed_for_a_worker_that_a_larger_one_replaces():
    board = board_over(10, max_worker_losses=0)
    hand = joined(board)
    call = take(board, hand)
    board.hand_back(hand, KILLED, blamed=False)
    assert (call.losses, call.error) == (0, None)
    assert take(board, hand) is call


def test_a_call_that_cost_too_many_workers_fails():
    board = board_over(10, max_worker_losses=1)
    hand = joined(board)
    for _ in range(2):
        call = take(board, hand)
        board.hand_back(hand, KILLED)
    assert isinstance(call.error, WorkerLost)


def test_after_a_failed_call_no_later_one_is_given_out():
    board = board_over(10_000)
    hand = joined(board)
    warmed_up(board, hand)
    failed(board, hand, take(board, hand))
    assert board.next_call(hand) is None


def test_a_call_before_a_failed_one_is_still_done_when_its_worker_is_lost():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    earlier, later = take(board, first), take(board, second)
    failed(board, second, later)
    board.hand_back(first, KILLED)
    assert take(board, first) is earlier


def test_a_call_behind_a_failed_one_is_dropped_when_its_worker_is_lost():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    earlier, later = take(board, first), take(board, second)
    failed(board, first, earlier)
    board.hand_back(second, KILLED)
    assert not board.owed(second)
    assert board.next_call(first) is None
    assert later.error is None


def test_of_two_failed_calls_the_first_one_is_met():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    earlier, later = take(board, first), take(board, second)
    failed(board, second, later)
    failed(board, first, earlier)
    assert board.next_done(0) is earlier
    assert isinstance(earlier.error, RowFailed)


def test_a_call_over_its_time_fails():
    board = board_over(10)
    hand = joined(board)
    call = take(board, hand)
    assert call.begun_at is not None
    assert not board.time_out(hand, 5.0, call.begun_at + 4.9)
    assert board.time_out(hand, 5.0, call.begun_at + 5.1)
    assert isinstance(call.error, CallTimeout)


def test_a_call_that_waits_behind_another_is_not_over_its_time():
    board = board_over(10_000)
    hand = joined(board)
    warmed_up(board, hand)
    first, second = take(board, hand), take(board, hand)
    done(board, hand, first)
    assert second.begun_at is not None
    assert not board.time_out(hand, 5.0, second.begun_at + 4.9)


def test_an_error_of_the_input_is_raised_after_what_was_done_before():
    def broken() -> Iterator[InputBatch]:
        yield input_batch(range(10))
        raise OSError("the disk is gone")

    board = Board(broken(), LOAD, ApplyOptions())
    hand = joined(board)
    warmed_up(board, hand, calls=2)
    assert board.next_call(hand) is None
    with pytest.raises(OSError, match="disk"):
        board.next_done(0)


def test_the_last_call_closes_its_part():
    board = board_over(12)
    hand = joined(board)
    closes = []
    for _ in range(3):
        done(board, hand, take(board, hand))
    assert board.next_call(hand) is None
    while (call := board.next_done(0)) is not None:
        closes.append((call.values is not None and len(call.values), call.closes_part))
    assert closes == [(1, False), (9, True), (2, True)]


def test_nothing_is_read_ahead_of_what_may_be_outstanding():
    pulled = []

    def watched() -> Iterator[InputBatch]:
        for batch in counting(100_000, 100):
            pulled.append(batch)
            yield batch

    board = Board(watched(), LOAD, ApplyOptions(outstanding_bytes=100_000, batch_size=100))
    hand = joined(board)
    while board._queue.weight_bytes < 100_000:  # nobody takes the results off
        done(board, hand, take(board, hand))
    assert len(pulled) < 30


def test_a_worker_that_does_not_stay_leaves_when_the_input_is_over():
    board = board_over(10)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    done(board, first, take(board, first))
    take(board, first)
    assert board.next_call(second) is None


def call_if_any(board: Board, hand: Hand) -> Call | None:
    """What `next_call` gives, without waiting."""
    with board._changed:
        while (call := board._dealer.pick(hand)) is None and board._dealer.needs_rows(hand):
            board._pull()
        if call is not None:
            board._give(hand, call, 0.0, 0.0)
        return call


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["take", "done", "lost"])), max_size=200), st.integers(1, 400))
def test_whatever_is_lost_every_row_comes_once_and_in_order(moves, rows):
    board = board_over(rows, batch_rows=37, batch_size=20, max_worker_losses=1000)
    hands = joined(board), joined(board, "worker 2", stays=False)
    rest = [(False, "lost"), (True, "lost")] + [(True, "take"), (True, "done")] * (rows + 2)
    came: list[int] = []
    for which, move in [*moves, *rest]:
        hand = hands[which]
        if move == "take":
            call_if_any(board, hand)
        elif move == "lost":
            board.hand_back(hand, KILLED)
        elif hand.calls:
            done(board, hand, next(iter(hand.calls.values())))
        while not board.finished and (out := board.next_done(0)) is not None:
            came += out.rows.tag.column(0).to_pylist()
    assert came == list(range(rows))
    assert board.finished


def test_a_batch_without_rows_sends_what_was_read():
    board = Board(iter([input_batch(range(20)), input_batch([]), input_batch(range(20, 40))]), LOAD, ApplyOptions())
    hand = joined(board)
    done(board, hand, take(board, hand))
    done(board, hand, take(board, hand))
    # More rows would fit into this call, and the next batch may take its time.
    assert take(board, hand).rows.rows == 10


def settle(board: Board, hand: Hand, raising: set[int], killing: set[int], *, names_rows: bool) -> None:
    """Let a worker meet its first call as a Function would that raises on some numbers and dies of others."""
    call = next(iter(hand.calls.values()))
    found = call.rows.arguments.column(0).to_pylist()
    bad = [index for index, number in enumerate(found) if number in raising]
    if killing.intersection(found):
        board.hand_back(hand, KILLED)
    elif bad:
        failure = CallFailure("raised", "ValueError: no", "ValueError", "", bad[0] if names_rows else None)
        board.complete(hand, CallResult(call.id, None, failure, 0.1))
    else:
        done(board, hand, call)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["take", "settle", "lost"])), max_size=200),
    st.integers(1, 300),
    st.sets(st.integers(0, 300), max_size=12),
    st.sets(st.integers(0, 300), max_size=3),
    st.booleans(),
)
def test_whatever_fails_exactly_the_failing_rows_are_null(moves, rows, raising, killing, names_rows):
    board = board_over(rows, batch_rows=37, batch_size=60, max_worker_losses=1, error_policy="skip")
    hands = joined(board), joined(board, "worker 2", stays=False)
    values: dict[int, int | None] = {}
    steps = [*moves, (False, "lost"), *[(True, "take"), (True, "settle")] * (40 * rows + 400)]
    for which, move in steps:
        hand = hands[which]
        if move == "take":
            call_if_any(board, hand)
        elif move == "lost":
            board.hand_back(hand, KILLED, blamed=False)
        elif hand.calls:
            settle(board, hand, raising, killing, names_rows=names_rows)
        while not board.finished and (out := board.next_done(0)) is not None:
            assert out.values is not None
            rows_of = out.rows.tag.column(0).to_pylist()
            assert (out.failed is not None) == (rows_of[0] in raising | killing)
            values |= dict(zip(rows_of, out.values.to_pylist(), strict=True))
        if board.finished:
            break
    assert list(values) == list(range(rows))
    assert values == {number: None if number in raising | killing else number for number in range(rows)}


def test_a_call_that_waits_for_its_next_try_holds_up_no_other():
    board = board_over(10_000, retry=RetryPolicy(attempts=2, backoff_seconds=3600.0))
    hand = joined(board)
    warmed_up(board, hand)
    waiting, other = take(board, hand), take(board, hand)
    board.complete(hand, CallResult(waiting.id, None, CallFailure("raised", "no", "ValueError"), 0.1))
    done(board, hand, other)
    assert take(board, hand).start > other.start
    assert board.next_done(0) is None


def test_what_did_not_fit_into_memory_bounds_the_calls_of_all_workers_of_the_class():
    board = board_over(10_000)
    first, second = joined(board), joined(board, "worker 2", stays=False)
    warmed_up(board, first)
    call = take(board, first)
    board.complete(first, CallResult(call.id, None, CallFailure("raised", "", "MemoryError"), 0.1))
    half = call.rows.rows - call.rows.rows // 2
    assert (first.fits_rows, second.fits_rows) == (half, half)
    assert [news.fits_rows for news in board.take_news()] == [half]
    assert {take(board, first).rows.rows, take(board, second).rows.rows} == {half, call.rows.rows - half}


def test_a_call_does_not_go_back_to_the_device_on_which_it_failed_while_there_is_another():
    board = board_over(10)
    bad, good = Hand("worker 1", True, places=frozenset({"a"})), Hand("worker 2", False, places=frozenset({"b"}))
    board.join(bad)
    board.join(good)
    call = take(board, bad)
    error = CallFailure("raised", "RuntimeError: CUDA error: misaligned address", "RuntimeError")
    board.complete(bad, CallResult(call.id, None, error, 0.1))
    assert call_if_any(board, bad) is None
    assert take(board, good) is call
    assert (bad.spoiled is None, board.avoided_places) == (False, {"a"})


def test_while_it_drains_no_call_is_given_out_and_those_that_run_still_count():
    board = board_over(10_000)
    hand = joined(board)
    warmed_up(board, hand)
    running = take(board, hand)
    board.drain()
    assert (board.next_call(hand), board.drained) == (None, False)
    done(board, hand, running)
    assert (board.next_done(0), board.drained) == (running, True)


def test_an_input_that_was_told_to_end_as_well_costs_no_call_that_runs():
    def told() -> Iterator[InputBatch]:
        yield input_batch(range(10))
        raise Cancelled("told to end")

    board = Board(told(), LOAD, ApplyOptions())
    hand = joined(board)
    done(board, hand, take(board, hand))
    running = take(board, hand)
    assert call_if_any(board, hand) is None
    board.next_done(0)
    board.drain()
    done(board, hand, running)
    assert board.next_done(0) is running
