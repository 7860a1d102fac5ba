"""How a worker's process ends: always, at once, and with its reason told to whoever started it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from lancegpu_sql.workers.turns import EXIT_FAULT

# What user code replaces in these modules must not keep the process alive.
_exit, _write, _format = os._exit, os.write, traceback.format_exc

# Standard error as it was when the process started: later, user code's output goes elsewhere.
_owner_stderr = os.dup(2)


def run_to_end(main: Callable[[], int]) -> NoReturn:
    """Run `main` and end the process with its status, or with 70 and a traceback where it raises.

    Neither Flight's server nor a thread that user code left behind may keep alive a process that computes no more.
    """
    try:
        code = main()
    except BaseException:
        end_with_fault()
    # Every reply is written. Waiting for open streams, or for threads, could take for ever.
    _exit(code)


def end_with_fault() -> NoReturn:
    """End the process with the exception that is being handled."""
    try:
        with suppress(BaseException):
            _write(_owner_stderr, _format().encode(errors="backslashreplace"))
    finally:
        _exit(EXIT_FAULT)
