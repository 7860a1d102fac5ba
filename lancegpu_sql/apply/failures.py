"""From what a worker reports to the error that a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lancegpu_sql.apply.batches import InputBatch
from lancegpu_sql.apply.blame import owner_of_loss
from lancegpu_sql.errors import CallTimeout, LanceGpuError, Owner, RowFailed, WorkerLost, WrongResult
from lancegpu_sql.placement.request import Lost, LostCause
from lancegpu_sql.workers.calls import CallFailure, FunctionLoad

_SHOWN_CHARACTERS = 200
_NAMED_ROWS = 100

_NEXT_STEPS: Mapping[LostCause, str] = {
    "signal": "Unless someone killed it, a library that it calls crashed: look at the job's log, and refresh these rows alone "
    "(where, batch_size=1) to find the one at fault.",
    "exit": "The Function, or a library that it calls, ended its process: look at the job's log, and let it raise an error "
    "instead.",
    "memory": "Give it fewer rows at a time (batch_size). On one machine fewer workers (max_workers) leave more to each; on a "
    "cluster an operator gives them more: memory_bytes of the GPU class, or a larger rung of kubernetes_cpu_ladder.",
    "unreachable": "Look at the job's log for what it did last.",
}
"""What to do about a worker that ended, by the cause."""


_ADVICE: Mapping[Owner, str] = {
    "memory": "It needs more memory for this one row than there is: give it a larger GPU class or worker, or a smaller row.",
    "device": "A device is at fault, not the row, as far as can be told: no other one computed it. Look at the device, or "
    "refresh on another GPU class (gpu_class).",
    "environment": "What is installed for the Function, or the machine, is at fault, not the row.",
    "input": "This row made several devices fail.",
}
"""What a person should know of an error that the Function raised, but is not at fault for."""


def call_error(load: FunctionLoad, rows: InputBatch, failure: CallFailure, owner: Owner = "user") -> LanceGpuError:
    """Return the error for a call whose Function failed, by the fault of `owner`."""
    if failure.kind in ("wrong_type", "wrong_length"):
        return _wrong_result(load, rows, failure)
    if failure.kind == "internal":
        return LanceGpuError(
            f"a worker of {_name(load)} failed by itself, which is a fault of this program: {failure.message}\n"
            f"{failure.traceback}".rstrip(),
            owner=owner,
        )
    facts: dict[str, Any] = {
        "function": load.function,
        "version": load.version,
        "owner": owner,
        "error_type": failure.error_type,
        "raised": failure.message,
        "user_traceback": failure.traceback,
    }
    index = 0 if failure.row_index is None and rows.rows == 1 else failure.row_index
    if index is None:
        ids = rows.row_ids.slice(0, _NAMED_ROWS).to_pylist()
        return RowFailed(
            f"{_name(load)} raised {failure.message}\non a batch of {_span(rows)}; it takes whole batches, so which row is at "
            f"fault is not known. {_ADVICE.get(owner, 'A smaller batch_size narrows it down.')}\n{failure.traceback}".rstrip(),
            row_ids=ids,
            rows=rows.rows,
            arguments=None,
            **facts,
        )
    row_id = rows.row_ids[index].as_py()
    (arguments,) = rows.arguments.slice(index, 1).to_pylist()
    where = f"on {_row(rows, row_id, arguments)}"
    advice = f"{_ADVICE[owner]}\n" if owner in _ADVICE else ""
    return RowFailed(
        f"{_name(load)} raised {failure.message}\n{where}\n{advice}{failure.traceback}".rstrip(),
        row_id=row_id,
        row_ids=[row_id],
        arguments=arguments,
        **facts,
    )


def call_timeout(load: FunctionLoad, rows: InputBatch, timeout_seconds: float) -> CallTimeout:
    """Return the error for a row over which a call took too long."""
    row_id, (arguments,) = rows.row_ids[0].as_py(), rows.arguments.slice(0, 1).to_pylist()
    return CallTimeout(
        f"{_name(load)} took longer than call_timeout_seconds={timeout_seconds:g} over "
        f"{_row(rows, row_id, arguments)}\nIts worker was ended. Allow it more time, mend the Function, or leave the row out "
        "(where). Other rows' finished values are kept.",
        function=load.function,
        version=load.version,
        owner="timeout",
        call_timeout_seconds=timeout_seconds,
        row_id=row_id,
        row_ids=[row_id],
        arguments=arguments,
    )


def worker_lost(load: FunctionLoad, rows: InputBatch, losses: int, lost: Lost) -> WorkerLost:
    """Return the error for a call that cost too many workers."""
    times = "a worker" if losses == 1 else f"{losses} workers, one after the other,"
    return WorkerLost(
        f"{times} of {_name(load)} ended over {_span(rows)}. The last one: {lost.message.rstrip('.')}.\n"
        f"{_NEXT_STEPS[lost.cause]} Other rows' finished values are kept.",
        cause=lost.cause,
        function=load.function,
        version=load.version,
        owner=owner_of_loss(lost.cause),
        losses=losses,
        rows=rows.rows,
        row_ids=rows.row_ids.slice(0, _NAMED_ROWS).to_pylist(),
        **({"row_id": rows.row_ids[0].as_py()} if rows.rows == 1 else {}),
    )


def _wrong_result(load: FunctionLoad, rows: InputBatch, failure: CallFailure) -> WrongResult:
    at_fault = rows if failure.row_index is None else rows.slice(failure.row_index, 1)
    return WrongResult(
        f"{_name(load)} gave a wrong result for {_span(at_fault)}. {failure.message}",
        function=load.function,
        version=load.version,
        owner="function",
        kind=failure.kind,
        expected=failure.expected,
        got=failure.got,
        row_ids=at_fault.row_ids.slice(0, _NAMED_ROWS).to_pylist(),
    )


def _name(load: FunctionLoad) -> str:
    return f"{load.function} version {load.version}"


def _span(rows: InputBatch) -> str:
    if not rows.of_table:
        first_row = shown(rows.arguments)
        return first_row if rows.rows == 1 else f"{rows.rows} rows (the first: {first_row})"
    first, last = rows.row_ids[0].as_py(), rows.row_ids[-1].as_py()
    if rows.rows == 1:
        return f"row {first}"
    return f"{rows.rows} rows ({first} to {last})"


def _row(rows: InputBatch, row_id: int, arguments: Mapping[str, Any]) -> str:
    if not rows.of_table:
        return _shown(arguments)
    return f"row {row_id} with {_shown(arguments)}\n(table.to_arrow(where='_rowid = {row_id}') gives the row)"


def shown(arguments: pa.RecordBatch) -> str:
    """Return the first row of some arguments in words."""
    (first,) = arguments.slice(0, 1).to_pylist()
    return _shown(first)


def _shown(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(repr(value))}" for name, value in arguments.items())


def _short(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"
