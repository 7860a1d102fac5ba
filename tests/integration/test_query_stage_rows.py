"""How much a stage asks for ahead of what is taken from it."""

from __future__ import annotations

import gc
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from in_process_functions import InProcessFunctions

from lancegpu_sql.functions.definition import as_function, define
from lancegpu_sql.query.arguments import FunctionTypes
from lancegpu_sql.query.session import QuerySession
from lancegpu_sql.query.stage_rows import StageCall, StageRows, fixed_bytes

ROWS = 40_000
ROW_BYTES = 4_096
PENDING_BYTES = 4 * 1024 * 1024


def blob(n: int) -> bytes:
    return bytes(n)


@dataclass
class Asked:
    """Rows asked for whose results are not taken yet, now and at most."""

    rows: int = 0
    most: int = 0
    batches: list[int] = field(default_factory=list)

    def ask(self, arguments: pa.RecordBatch) -> _Later:
        self.rows += arguments.num_rows
        self.most = max(self.most, self.rows)
        self.batches.append(arguments.num_rows)
        return _Later(self, arguments.num_rows)


@dataclass(frozen=True)
class _Later:
    asked: Asked
    rows: int

    def result(self) -> pa.Array:
        self.asked.rows -= self.rows
        return pa.array([bytes(ROW_BYTES)] * self.rows, pa.binary())

    def failed(self) -> pa.Array:
        return pa.repeat(pa.scalar(False), self.rows)


def test_large_results_are_asked_for_a_few_rows_at_a_time():
    numbers = pa.table({"n": range(ROWS)})
    types = FunctionTypes(define(as_function(blob)).version)
    asked = Asked()
    schema = pa.schema([("n", pa.int64()), ("v", pa.binary())])
    calls = [StageCall(("n",), None, types, asked.ask)]
    rows = StageRows(["n"], numbers.to_reader(2_048), calls, schema, pending_bytes=PENDING_BYTES)
    assert sum(batch.num_rows for batch in rows) == ROWS
    assert asked.most * ROW_BYTES <= 1.5 * PENDING_BYTES
    assert max(asked.batches[10:-1]) > 100  # and not one by one


@pytest.mark.parametrize(
    ("kind", "row_bytes"),
    [
        (pa.list_(pa.float32(), 384), 1_536),
        (pa.fixed_shape_tensor(pa.float32(), [2, 3]), 24),
        (pa.bool_(), 0.125),
        (pa.string(), None),
        (pa.list_(pa.string(), 3), None),
        (pa.dictionary(pa.int32(), pa.string()), None),
    ],
    ids=str,
)
def test_of_some_types_all_values_take_the_same(kind: pa.DataType, row_bytes: float | None):
    assert fixed_bytes(kind) == row_bytes


@pytest.mark.parametrize(
    ("kind", "batches"),
    [(pa.binary(64), [2_048] * 8), (pa.binary(ROW_BYTES), [256] * 4), (pa.binary(), [256])],
    ids=["small", "large", "unknown"],
)
def test_where_all_rows_are_wanted_and_their_size_is_known_many_are_asked_for_at_once(
    kind: pa.DataType, batches: list[int]
):
    asked = Asked()
    types = FunctionTypes(define(as_function(blob)).version)
    calls = [StageCall(("n",), None, types, asked.ask)]
    schema = pa.schema([("n", pa.int64()), ("v", kind)])
    source = pa.table({"n": range(ROWS)}).to_reader(2_048)
    rows = StageRows(["n"], source, calls, schema, pending_bytes=PENDING_BYTES, reads_all=True)
    with suppress(pa.ArrowException, ValueError):  # values of another size than these come
        next(iter(rows))
    assert asked.batches == batches


def size(text: str) -> int:
    return len(text)


def test_values_are_let_go_of_with_the_result_without_the_collector():
    functions = InProcessFunctions()
    functions.add(size)
    session = QuerySession(lambda _name: None, list, functions)
    result = session.query("SELECT size('x' || i) FROM range(10) r(i)")
    gc.disable()
    try:
        result.fetchall()
        (memo,) = functions.memos
        del result
        assert memo() is None
    finally:
        gc.enable()
        session.close()
