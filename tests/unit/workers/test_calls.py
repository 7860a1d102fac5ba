"""The words on the wire come back as they were."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.workers.calls import (
    STOP_MESSAGE,
    CallFailure,
    CallHead,
    FunctionLoad,
    LoadReport,
    WorkerHealth,
    decode_call,
    decode_result,
    encode_call,
    encode_result,
    with_stored,
)

failures = st.builds(
    CallFailure,
    st.sampled_from(["raised", "wrong_type", "wrong_length", "load", "close", "internal"]),
    st.text(),
    st.text(),
    st.text(),
    st.none() | st.integers(0, 1 << 40),
    st.none() | st.text(),
    st.none() | st.text(),
)
logs = st.lists(st.text()).map(tuple)


@given(st.binary(), st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.integers(1, 64))
def test_a_load(payload, bound, concurrency):
    load = FunctionLoad("f", 2, "digest", payload, bound, "int64", concurrency)
    assert FunctionLoad.from_bytes(memoryview(load.to_bytes())) == load


@given(st.integers(0, 1 << 60), st.none() | st.integers(0, 99))
def test_a_call(call_id, slot):
    assert decode_call(encode_call(CallHead(call_id, slot))) == CallHead(call_id, slot)


def test_the_stop_is_no_call():
    assert decode_call(STOP_MESSAGE) is None


@given(st.integers(0, 1 << 60), st.floats(0, 1e9), logs, failures)
def test_a_failed_result(call_id, seconds, log, failure):
    result = decode_result(encode_result(call_id, seconds, log, failure), None)
    assert (result.call_id, result.seconds, result.log, result.failure) == (call_id, seconds, log, failure)


def test_a_result_with_values():
    values = pa.array([1, 2])
    result = decode_result(encode_result(7, 0.5, (), None), values)
    assert result.values is values
    assert result.failure is None


def test_a_result_whose_values_stand_elsewhere():
    message = with_stored(encode_result(7, 0.5, ("a line",), None), 4096)
    values = pa.array([1, 2])
    asked = []
    result = decode_result(message, None, lambda call_id, nbytes: asked.append((call_id, nbytes)) or values)
    assert (result.values, result.log, asked) == (values, ("a line",), [(7, 4096)])


@given(st.floats(0, 1e9), logs, st.none() | failures, st.integers(1, 9))
def test_a_report(seconds, log, failure, at_once):
    report = LoadReport(seconds, log, failure, at_once)
    assert LoadReport.from_bytes(report.to_bytes()) == report


def test_health():
    health = WorkerHealth("computing", "f", 1, 12, 0.5)
    assert WorkerHealth.from_bytes(health.to_bytes()) == health


def test_a_load_differs_by_what_is_bound():
    assert not FunctionLoad("f", 1, "d", b"", {"a": 1}, "int64").same_content(
        FunctionLoad("f", 1, "d", b"", {"a": 2}, "int64")
    )


def test_a_load_does_not_differ_by_its_time_limit():
    assert FunctionLoad("f", 1, "d", b"", {}, "int64", init_timeout_seconds=1).same_content(
        FunctionLoad("f", 1, "d", b"", {}, "int64", init_timeout_seconds=2)
    )
