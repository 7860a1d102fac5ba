"""DuckDB's own errors, and what they become."""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType

import pytest

from lancegpu_sql.query.engine import connect, duckdb_errors


def test_ctrl_c_in_a_step_of_duckdb_is_pythons_own():
    engine, over = connect(), threading.Event()

    def endless() -> None:
        while True:  # a long one, whose last task another thread has, is deaf
            engine.execute("SELECT sum(range) FROM range(3000000)")

    def interrupt(_: int, frame: FrameType | None) -> None:
        # Not in Python that DuckDB calls before it begins, which would swallow it, nor in what comes after.
        if frame is not None and frame.f_code is endless.__code__:
            raise KeyboardInterrupt

    def ask() -> None:
        while not over.wait(0.05):
            _thread.interrupt_main()

    before = signal.signal(signal.SIGINT, interrupt)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with pytest.raises(KeyboardInterrupt), duckdb_errors():
            endless()
    finally:
        over.set()
        asking.join()
        signal.signal(signal.SIGINT, before)


def test_an_error_of_others_goes_through_as_it_is():
    with pytest.raises(RuntimeError, match="disk on fire"), duckdb_errors():
        raise RuntimeError("disk on fire")
