"""What can go wrong in user code, as a worker sees it: text and numbers only, so that any process can read it."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Any, Literal

from lancegpu_sql.functions.retry_after import retry_after_seconds

_PACKAGE = str(Path(__file__).parent)
_IMPORTLIB = str(Path(importlib.__file__).parent)

Kind = Literal["raised", "wrong_type", "wrong_length", "load", "close"]


class UserFaultError(Exception):
    """User code is at fault; nothing else is.

    Attributes
    ----------
    kind
        `raised`: it raised. `wrong_type`, `wrong_length`: its result does not suit. `load`: it could not be imported,
        unpickled or initialised. `close`: its `close()` raised.
    message
        What happened, in a line or two.
    row_index
        Of the row in the batch; None where the whole batch was one call.
    error_type
        Of what it raised, such as `builtins.KeyError` without its module for Python's own.
    traceback_text
        The user's own frames, as Python prints them.
    """

    kind: Kind

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        self.kind = facts.get("kind", self.kind)
        self.row_index: int | None = facts.get("row_index")
        self.error_type: str | None = facts.get("error_type")
        self.traceback_text: str | None = facts.get("traceback_text")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(fault: type[UserFaultError], message: str, facts: dict[str, Any]) -> UserFaultError:
    return fault(message, **facts)


class UserCodeError(UserFaultError):
    """It raised, on a row or on a batch."""

    kind: Kind = "raised"


class WrongResultError(UserFaultError):
    """Its result has another type or length than it declared; `expected` and `got` say which."""

    kind: Kind = "wrong_type"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.expected: str = facts["expected"]
        self.got: str = facts["got"]


class LoadError(UserFaultError):
    """It could not be imported, unpickled or initialised here."""

    kind: Kind = "load"


def described(error: BaseException) -> dict[str, Any]:
    """Give the facts of what user code raised, as text.

    The exception itself goes no further: it may not pickle, may hold gigabytes, and its `str` may raise.
    """
    return {
        "error_type": _type_name(error),
        "traceback_text": _traceback_text(error),
        "retry_after_seconds": retry_after_seconds(error),
    }


def summary(error: BaseException) -> str:
    """Give an exception in one line, as the last line of a traceback does."""
    try:
        text = str(error)
    except BaseException as problem:
        text = f"<its text cannot be read: {type(problem).__name__}>"
    return f"{_type_name(error)}: {text}" if text else _type_name(error)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _traceback_text(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        # Formatting runs user code too: the exception's `__str__`, its notes, its causes.
        return "".join(traceback.format_tb(trace)) + summary(error) + "\n"


def _is_ours(filename: str) -> bool:
    """Tell whether a frame belongs to what stands between the worker and user code: this package, or an import."""
    return filename.startswith((_PACKAGE, _IMPORTLIB, "<frozen importlib"))
