"""DuckDB's own errors, and what they become."""

from __future__ import annotations

import _thread
import threading

import pytest

from lancegpu_sql.query.engine import connect, duckdb_errors


def test_ctrl_c_in_a_step_of_duckdb_is_pythons_own():
    engine = connect()
    interrupt = threading.Timer(0.1, _thread.interrupt_main)
    interrupt.start()
    with pytest.raises(KeyboardInterrupt), duckdb_errors():
        engine.execute("SELECT sum(a.range + b.range) FROM range(10000000) a, range(10000000) b")
    interrupt.join()


def test_an_error_of_others_goes_through_as_it_is():
    with pytest.raises(RuntimeError, match="disk on fire"), duckdb_errors():
        raise RuntimeError("disk on fire")
