"""What a person reads when a Function fails."""

from __future__ import annotations

import pyarrow as pa
import pytest
from applied import input_batch

from lancegpu_sql.apply.batches import InputBatch
from lancegpu_sql.apply.failures import call_error, call_timeout, worker_lost
from lancegpu_sql.errors import LanceGpuError, RowFailed, WrongResult
from lancegpu_sql.placement import Lost
from lancegpu_sql.workers import CallFailure, FunctionLoad

LOAD = FunctionLoad("score", 3, "d", b"", {}, "int64")
ROWS = input_batch([5, 6, 7], first_row_id=100)


def raised(row_index):
    return CallFailure("raised", "ValueError: bad", "ValueError", "Traceback …\nValueError: bad\n", row_index)


def test_a_row_that_raised_is_named_with_its_id_and_arguments():
    error = call_error(LOAD, ROWS, raised(1))
    assert isinstance(error, RowFailed)
    assert (error.row_id, error.arguments, error.error_type) == (101, {"number": 6}, "ValueError")


def test_the_message_says_what_happened_where_and_shows_the_users_traceback():
    message = call_error(LOAD, ROWS, raised(1)).message
    assert message.startswith("score version 3 raised ValueError: bad\non row 101 with number=6\n")
    assert "to_arrow(where='_rowid = 101')" in message
    assert message.endswith("Traceback …\nValueError: bad")


def test_a_batch_that_raised_names_its_rows():
    error = call_error(LOAD, ROWS, raised(None))
    assert isinstance(error, RowFailed)
    assert error.row_ids == [100, 101, 102]
    assert "3 rows (100 to 102)" in error.message


def test_a_batch_of_one_row_that_raised_names_that_row():
    error = call_error(LOAD, ROWS.slice(2, 1), raised(None))
    assert isinstance(error, RowFailed)
    assert (error.row_id, error.arguments) == (102, {"number": 7})


def test_long_arguments_are_cut_in_the_message_only():
    rows = input_batch([5])
    text = rows.arguments.set_column(0, "text", pa.array(["x" * 10_000]))
    error = call_error(LOAD, type(rows)(text, rows.row_ids, rows.tag), raised(0))
    assert len(error.message) < 1000
    assert len(error.arguments["text"]) == 10_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["wrong_type", "wrong_length"])
def test_a_wrong_result_names_both(kind):
    failure = CallFailure(kind, "It declares int64 and returned text.", expected="int64", got="string")
    error = call_error(LOAD, ROWS, failure)
    assert isinstance(error, WrongResult)
    assert (error.expected, error.got, error.kind) == ("int64", "string", kind)


def test_a_wrong_result_of_one_row_names_that_row():
    error = call_error(LOAD, ROWS, CallFailure("wrong_type", "no", row_index=2, expected="int64", got="str"))
    assert "row 102" in error.message


def test_a_fault_of_the_worker_is_not_blamed_on_the_user():
    assert type(call_error(LOAD, ROWS, CallFailure("internal", "KeyError: 'x'"))) is LanceGpuError


def test_a_timeout_says_what_to_do():
    assert "row 100 with number=5" in call_timeout(LOAD, ROWS, 2.5).message
    assert "Allow it more time" in call_timeout(LOAD, ROWS, 2.5).message


def test_a_lost_worker_says_why_and_over_which_rows():
    error = worker_lost(LOAD, ROWS, 4, Lost("memory", "worker 7 was killed because memory ran out"))
    assert error.cause == "memory"
    assert "4 workers" in error.message
    assert "memory ran out" in error.message


@pytest.mark.parametrize(
    ("cause", "step"),
    [("signal", "batch_size=1"), ("exit", "let it raise"), ("memory", "max_workers"), ("unreachable", "job's log")],
)
def test_a_lost_worker_is_told_with_what_to_do(cause, step):
    assert step in worker_lost(LOAD, ROWS, 1, Lost(cause, "worker 7 ended")).message


def test_a_row_of_no_table_is_named_by_its_arguments():
    rows = InputBatch(ROWS.arguments, ROWS.row_ids, ROWS.tag, of_table=False)
    assert "on number=6\nTraceback" in call_error(LOAD, rows, raised(1)).message
    assert "3 rows (the first: number=5)" in call_error(LOAD, rows, raised(None)).message
