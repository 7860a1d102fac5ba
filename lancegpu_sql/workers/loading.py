"""Between the desk and `functions.loading`: what is called, and its faults as data for the wire."""

from __future__ import annotations

import traceback

from lancegpu_sql.functions.faults import UserFaultError
from lancegpu_sql.functions.loading import LoadedFunction
from lancegpu_sql.functions.loading import load as load_payload
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.workers.calls import CallFailure, FunctionLoad


def load_function(load: FunctionLoad) -> tuple[LoadedFunction, int]:
    """Load a Function in this process; return it and how many calls of it may run at a time.

    A Function that is called once per row has its rows computed several at a time within one call.
    """
    at_once = 1 if Payload.from_bytes(load.payload).calling == "row" else load.concurrency
    return load_payload(load.payload, load.bound, concurrency=load.concurrency), at_once


def failure_of(error: BaseException) -> CallFailure:
    """Describe what loading or calling a Function raised; what is not the user's fault is `internal`."""
    if isinstance(error, UserFaultError):
        return CallFailure(
            kind=error.kind,
            message=error.message,
            error_type=error.error_type or "",
            traceback=error.traceback_text or "",
            row_index=error.row_index,
            expected=error.facts.get("expected"),
            got=error.facts.get("got"),
        )
    text = "".join(traceback.format_exception(error))
    return CallFailure("internal", f"{type(error).__name__}: {error}", type(error).__name__, text)
