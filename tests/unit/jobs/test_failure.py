"""What is kept of an error: enough to act on, always JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.catalog.models import Progress
from lancegpu_sql.errors import RowFailed
from lancegpu_sql.jobs.failure import error_record, job_failed, json_safe


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_of_ours_keeps_type_message_and_facts() -> None:
    kept = error_record(RowFailed("row 3 raised", row_id=3, arguments={"text": "bad"}))
    assert kept == {
        "type": "RowFailed",
        "message": "row 3 raised",
        "facts": {"row_id": 3, "arguments": {"text": "bad"}},
    }


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    try:
        raise KeyError("lost")
    except KeyError as error:
        kept = error_record(error)
    assert kept["type"] == "KeyError"
    assert "test_failure.py" in kept["traceback"]


def test_an_error_without_words_is_named() -> None:
    assert error_record(SystemExit())["message"] == "SystemExit"


def test_another_process_reads_type_and_message() -> None:
    error = job_failed("0193", error_record(RowFailed("row 3 raised", row_id=3)))
    assert str(error) == "Job 0193 failed: row 3 raised"
    assert error.facts["error_type"] == "RowFailed"
    assert error.facts["error_facts"] == {"row_id": 3}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (float("nan"), "nan"),
        (1 << 70, str(1 << 70)),
        (b"\x00", "b'\\x00'"),
        ("a\0\ud800", "a\\x00\\ud800"),
        ({1: (2, None)}, {"1": [2, None]}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (Progress(phase="x").model_copy(), Progress(phase="x").model_dump()),
        (Unprintable(), "<Unprintable>"),
    ],
)
def test_what_json_has_not_becomes_text(value: Any, kept: Any) -> None:
    assert json_safe(value) == kept


def test_a_value_that_holds_itself_ends() -> None:
    circle: list[Any] = []
    circle.append(circle)
    json.dumps(json_safe(circle))


def test_a_long_text_keeps_both_ends() -> None:
    kept = json_safe("start" + "x" * 1_000_000 + "end")
    assert (kept.startswith("start"), kept.endswith("end"), len(kept) < 30_000) == (True, True, True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.frozensets(st.text()),
    )
)
def test_anything_becomes_strict_json(value: Any) -> None:
    text = json.dumps(json_safe(value), allow_nan=False)
    assert "\\u0000" not in text
