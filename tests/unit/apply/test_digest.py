"""A digest tells two rows apart exactly when a Function could."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.apply.digest import (
    DIGEST_TYPE,
    binding_key,
    from_array,
    is_failed,
    row_digests,
    same,
    to_array,
)

KEY = binding_key("0f" * 16, {})


def digests(*columns: pa.Array) -> list[bytes]:
    batch = pa.record_batch(list(columns), names=[f"c{at}" for at in range(len(columns))])
    return to_array(row_digests(batch, KEY)).to_pylist()


DISTINCT = [
    pa.array([1, 2, -1, None]),
    pa.array([1.5, float("nan"), -0.0, 0.0, None]),
    pa.array([1, 2], pa.float16()),
    pa.array([True, False, None]),
    pa.array([dt.date(2026, 1, 1), None]),
    pa.array([dt.timedelta(1), dt.timedelta(2), None]),
    pa.array([1, 2, None]).cast(pa.decimal128(23, 2)),
    pa.array(["a", "", "b", None]),
    pa.array(["a", "", None], pa.large_string()),
    pa.array(["a", "", None], pa.string_view()),
    pa.array([b"a", b"", None]),
    pa.array([b"1234", b"1235", None], pa.binary(4)),
    pa.array([[1, 2], [2, 1], [1], [], None, [None]]),
    pa.array([["a", "b"], ["ab"], ["", "ab"], [None]]),
    pa.array([[[1], [2]], [[1, 2]], None], pa.large_list(pa.list_(pa.int64()))),
    pa.array([None, [1.0, None], [1.0, 2.0], [None, 1.0]], pa.list_(pa.float32(), 2)),
    pa.array([["a", "b"], ["ab", ""], None], pa.list_(pa.string(), 2)),
    pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": None, "b": None}, None]),
    pa.array([[("k", 1)], [("k", 2)], [], None], pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize("values", DISTINCT, ids=lambda values: str(values.type))
def test_different_values_have_different_digests(values: pa.Array) -> None:
    assert len(set(digests(values))) == len(values)


@pytest.mark.parametrize("values", DISTINCT, ids=lambda values: str(values.type))
def test_a_digest_does_not_depend_on_the_rows_around_it(values: pa.Array) -> None:
    whole = digests(values)
    padded = pa.concat_arrays([values, values, values])
    assert [digests(values.slice(at, 1))[0] for at in range(len(values))] == whole
    assert digests(padded.slice(len(values), len(values))) == whole


def test_text_has_one_digest_in_all_its_arrow_forms() -> None:
    texts = ["a", "", None, "日本語", "a"]
    forms = [pa.array(texts), pa.array(texts, pa.large_string()), pa.array(texts, pa.string_view())]
    forms.append(pa.array(texts).dictionary_encode())
    assert len({tuple(digests(form)) for form in forms}) == 1


def test_every_nan_is_one_nan() -> None:
    other_nan = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert digests(pa.array(other_nan)) == digests(pa.array([float("nan")]))


def test_columns_do_not_run_into_each_other() -> None:
    assert digests(pa.array(["ab"]), pa.array(["c"])) != digests(pa.array(["a"]), pa.array(["bc"]))
    assert digests(pa.array(["a"]), pa.array(["b"])) != digests(pa.array(["b"]), pa.array(["a"]))
    assert digests(pa.array(["a"]), pa.array([None], pa.string())) != digests(pa.array(["a"]))


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=30))
def test_equal_rows_and_only_they_have_equal_digests(rows: list[tuple[str | None, int | None]]) -> None:
    texts, numbers = pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int64())
    found = digests(texts, numbers)
    assert len(set(found)) == len(set(rows))
    assert [rows.index(row) for row in rows] == [found.index(digest) for digest in found]


def test_another_function_or_bound_value_gives_other_digests() -> None:
    keys = [
        binding_key("aa", {}),
        binding_key("ab", {}),
        binding_key("aa", {"model": "small"}),
        binding_key("aa", {"model": "large"}),
    ]
    batch = pa.record_batch([pa.array(["one"])], names=["x"])
    assert len({to_array(row_digests(batch, key))[0].as_py() for key in keys}) == len(keys)


def test_stored_digests_read_back_from_a_slice_with_nulls() -> None:
    present = row_digests(pa.record_batch([pa.array(["a", "b", "c", "d"])], names=["x"]), KEY)
    stored = pa.array([None, *to_array(present).to_pylist()], DIGEST_TYPE).slice(1)
    lanes, known = from_array(stored)
    assert known.all()
    assert same(lanes, present).all()
    assert not from_array(pa.nulls(3, DIGEST_TYPE))[1].any()


def test_a_failed_mark_leaves_the_digest_comparable() -> None:
    present = row_digests(pa.record_batch([pa.array(["a", "b"])], names=["x"]), KEY)
    marked = present.copy()
    marked[0, 0] |= np.uint64(1)
    assert is_failed(marked).tolist() == [True, False]
    assert same(marked, present).all()


def test_digests_are_the_same_in_every_process() -> None:
    program = (
        "import pyarrow as pa; from lancegpu_sql.apply.digest import *;"
        "batch = pa.record_batch([pa.array(['one']), pa.array([1.5])], names=['a', 'b']);"
        "print(to_array(row_digests(batch, binding_key('aa', {})))[0].as_py().hex())"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in "ab"]
    assert {run.stdout.strip() for run in runs} == {EXPECTED}


# Stored values are proven by these bytes: a release that changes them recomputes every column.
EXPECTED = "ac400525803f8f62961056e636e3455a"
