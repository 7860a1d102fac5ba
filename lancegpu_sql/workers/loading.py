"""Between the desk and `functions.loading`: what is called, and its faults as data for the wire."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import cloudpickle
import pyarrow as pa

from lancegpu_sql.functions.faults import UserFaultError, described, summary
from lancegpu_sql.functions.loading import LoadedFunction
from lancegpu_sql.functions.loading import load as load_payload
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.functions.secret_sources import Masking
from lancegpu_sql.workers.calls import CallFailure, FunctionLoad

# User code raises what it likes: gigabytes, too. So much of it is for people to read.
_MESSAGE_CHARACTERS = 20_000
_TRACEBACK_CHARACTERS = 100_000
_TYPE_CHARACTERS = 200

_OWN_FILES = (
    str(Path(__file__).parents[1]),
    str(Path(pa.__file__).parent),
    str(Path(cloudpickle.__file__).parent),
    "<frozen ",
)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_INSTALLED = tuple(filter(None, (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))))


def load_function(load: FunctionLoad, folder: Path | None, masked: Masking) -> tuple[LoadedFunction, int]:
    """Load a Function in this process; return it and how many calls of it may run at a time.

    Modules that travel with it are unpacked into `folder`, which goes when the worker's owner does. Its secrets become
    environment variables here, where no other process sees them, and are masked from now on.

    A Function that is called once per row has its rows computed several at a time within one call.
    """
    os.environ.update({name: value for name, value in load.secrets.items() if value is not None})
    masked.add(os.environ[name] for name in load.secrets if name in os.environ)
    at_once = 1 if Payload.from_bytes(load.payload).calling == "row" else load.concurrency
    return load_payload(load.payload, load.bound, concurrency=load.concurrency, folder=folder), at_once


def failure_of(error: BaseException, masked: Masking) -> CallFailure:
    """Describe what loading or calling a Function raised, without its secrets; what is not the user's fault is `internal`."""

    def shown(text: str | None, most: int) -> str:
        return _cut(masked(text or ""), most)

    if isinstance(error, UserFaultError):
        return CallFailure(
            kind=error.kind,
            message=shown(error.message, _MESSAGE_CHARACTERS),
            error_type=shown(error.error_type, _TYPE_CHARACTERS),
            traceback=shown(error.traceback_text, _TRACEBACK_CHARACTERS),
            row_index=error.row_index,
            expected=_shown_or_none(error.facts.get("expected"), masked),
            got=_shown_or_none(error.facts.get("got"), masked),
            retry_after_seconds=error.facts.get("retry_after_seconds"),
        )
    facts = described(error)
    struck = _comes_from_user_code(error)
    where = " (by a signal handler or another interruption, outside of the Function itself)" if struck else ""
    return CallFailure(
        kind="raised" if struck else "internal",
        message=shown(summary(error), _MESSAGE_CHARACTERS) + where,
        error_type=shown(facts["error_type"], _TYPE_CHARACTERS),
        traceback=shown(facts["traceback_text"], _TRACEBACK_CHARACTERS),
    )


def _comes_from_user_code(error: BaseException) -> bool:
    """Tell whether user code raised it inside the worker's own work: a signal handler, a `__index__`, another thread."""
    if not isinstance(error, Exception) or not _is_known(type(error).__module__):
        return True
    trace = error.__traceback__
    while trace is not None:
        if not _is_own_file(trace.tb_frame.f_code.co_filename):
            return True
        trace = trace.tb_next
    return False


def _is_known(module: str) -> bool:
    return module == "builtins" or module.partition(".")[0] in ("lancegpu_sql", "pyarrow", "pickle", "_pickle", "json")


def _is_own_file(filename: str) -> bool:
    if filename.startswith(_OWN_FILES):
        return True
    return filename.startswith(_STANDARD_LIBRARY) and not filename.startswith(_INSTALLED)


def _cut(text: str, most: int) -> str:
    # A lone surrogate is text in Python, and nowhere else.
    if len(text) > most:
        text = f"{text[: most // 2]} … [{len(text) - most} characters left out] … {text[-(most // 2) :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _shown_or_none(text: str | None, masked: Masking) -> str | None:
    return None if text is None else _cut(masked(text), _MESSAGE_CHARACTERS)
