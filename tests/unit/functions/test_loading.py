from __future__ import annotations

import contextvars
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancegpu_sql import function
from lancegpu_sql.functions.faults import LoadError, UserCodeError, WrongResultError
from lancegpu_sql.functions.loading import LoadedFunction, load
from lancegpu_sql.functions.packaging import pack
from lancegpu_sql.functions.payload import Payload
from lancegpu_sql.functions.signature import signature_of

TEXTS = pa.record_batch({"text": ["a", None, "ccc"]})


def loaded(target: Callable[..., Any], bound: dict[str, Any] | None = None, **options: Any) -> LoadedFunction:
    concurrency = options.pop("concurrency", 1)
    return load(pack(target, signature_of(target, **options)), bound, concurrency=concurrency)


def test_a_row_function_gives_a_value_for_each_row() -> None:
    def size(text: str | None) -> int:
        return -1 if text is None else len(text)

    assert loaded(size).call(TEXTS) == pa.array([1, -1, 3])


def test_a_null_that_it_does_not_take_gives_null_without_a_call() -> None:
    calls = []

    def pair(left: str, right: str | None) -> str:
        calls.append(left)
        return f"{left}{right}"

    batch = pa.record_batch({"left": ["a", None, "c"], "right": [None, "y", "z"]})
    assert loaded(pair).call(batch).to_pylist() == ["aNone", None, "cz"]


def test_a_function_may_call_another_function() -> None:
    @function(name="loudly")
    def loudly(text: str) -> str:
        return text.upper()

    def twice(text: str) -> str:
        return str(loudly(text)) * 2

    assert loaded(twice).call(TEXTS).to_pylist() == ["AA", None, "CCCCCC"]


def test_a_batch_of_nulls_only_makes_no_call() -> None:
    def fails(text: str) -> str:
        raise AssertionError

    result = loaded(fails).call(pa.record_batch({"text": pa.nulls(2, pa.utf8())}))
    assert result == pa.nulls(2, pa.utf8())


def test_an_empty_batch_gives_an_empty_array() -> None:
    def size(text: str) -> int:
        return len(text)

    assert loaded(size).call(TEXTS.slice(0, 0)) == pa.array([], pa.int64())


def test_parameters_given_by_keyword_only_get_their_columns() -> None:
    def pair(left: str, *, right: str, mark: str) -> str:
        return left + right + mark

    batch = pa.record_batch({"left": ["a"], "right": ["b"], "mark": ["!"]})
    assert loaded(pair).call(batch).to_pylist() == ["ab!"]


def test_a_batch_function_gets_arrays_with_their_nulls() -> None:
    def size(text: pa.StringArray) -> pa.Int32Array:
        assert text.null_count == 1
        return pc.utf8_length(text)

    assert loaded(size).call(TEXTS) == pa.array([1, None, 3], pa.int32())


def test_a_function_of_record_batches_gets_the_whole_batch() -> None:
    def size(batch: pa.RecordBatch) -> pa.Int64Array:
        return pa.array([batch.num_rows] * batch.num_rows)

    assert loaded(size, input_schema=TEXTS.schema).call(TEXTS).to_pylist() == [3, 3, 3]


class Scale:
    closed: list[str] = []  # noqa: RUF012

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def __call__(self, x: float) -> float:
        return x * self.factor

    def close(self) -> None:
        self.closed.append("closed")


def test_a_class_is_initialised_with_the_bound_values() -> None:
    batch = pa.record_batch({"x": [1.0, 2.0]})
    assert loaded(Scale).call(batch).to_pylist() == [2.0, 4.0]
    assert loaded(Scale, {"factor": 10.0}).call(batch).to_pylist() == [10.0, 20.0]


def test_close_is_called_once() -> None:
    scale = loaded(Scale)
    closed = scale._target.closed  # type: ignore[attr-defined]
    scale.close()
    scale.close()
    assert closed == ["closed"]


def raising(error: Callable[[], BaseException]) -> UserCodeError:
    def fails(text: str) -> str:
        if text == "ccc":
            raise error()
        return text

    with pytest.raises(UserCodeError) as failed:
        loaded(fails).call(TEXTS)
    return failed.value


def test_an_error_says_on_which_row_of_the_batch_and_where() -> None:
    failed = raising(lambda: KeyError("ccc"))
    assert (failed.kind, failed.row_index, failed.error_type, failed.message) == (
        "raised",
        2,
        "KeyError",
        "KeyError: 'ccc'",
    )
    assert failed.traceback_text is not None
    assert "raise error()" in failed.traceback_text
    assert "in _results" not in failed.traceback_text


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError, Unpicklable, StopIteration]
)
def test_whatever_it_raises_is_its_fault_and_travels_as_text(error: type[BaseException]) -> None:
    failed = raising(error)
    again = pickle.loads(pickle.dumps(failed))
    assert (again.row_index, again.message, again.facts) == (2, failed.message, failed.facts)
    assert again.error_type.endswith(error.__name__)
    assert failed.__cause__ is None


def test_an_error_of_a_batch_names_no_row() -> None:
    def fails(text: pa.StringArray) -> pa.StringArray:
        raise ValueError("all of it")

    with pytest.raises(UserCodeError, match="ValueError: all of it") as failed:
        loaded(fails).call(TEXTS)
    assert failed.value.row_index is None


def test_a_wrong_result_after_a_skipped_null_names_the_row_of_the_batch() -> None:
    def wrong(text: str) -> int:
        return 1 if text == "a" else text  # type: ignore[return-value]

    with pytest.raises(WrongResultError) as refused:
        loaded(wrong).call(TEXTS)
    assert refused.value.row_index == 2


NUMBERS = pa.record_batch({"x": list(range(20))})


def test_calls_at_a_time_keep_the_order_of_rows() -> None:
    at_once = threading.Barrier(4)

    def wait(x: int) -> int:
        at_once.wait(timeout=60)
        return x

    with_threads = loaded_here(wait, concurrency=4)
    assert with_threads.call(NUMBERS).to_pylist() == list(range(20))
    with_threads.close()


def test_calls_at_a_time_report_the_first_row_that_failed_and_begin_no_more() -> None:
    seen: list[int] = []
    endpoint = threading.Event()  # answers after its time is over

    def fails(x: int) -> int:
        seen.append(x)
        if x == 3:
            raise SystemExit("no")
        return x + int(endpoint.wait(timeout=0.001))

    with_threads = loaded_here(fails, concurrency=2)
    with pytest.raises(UserCodeError) as failed:
        with_threads.call(pa.record_batch({"x": range(10_000)}))
    assert failed.value.row_index == 3
    assert len(seen) < 10_000
    with_threads.close()


def test_calls_at_a_time_see_the_context_of_the_batch() -> None:
    tenant = contextvars.ContextVar("tenant", default=0)
    tenant.set(7)

    def read(x: int) -> int:
        tenant.set(tenant.get() + 1)
        return tenant.get()

    with_threads = loaded_here(read, concurrency=3)
    assert set(with_threads.call(NUMBERS).to_pylist()) == {8}
    with_threads.close()


def loaded_here(target: Callable[..., Any], concurrency: int) -> LoadedFunction:
    """Call a function with what this process holds, such as a barrier: those cannot be packed."""
    signature = signature_of(target)
    fields = {"input_schema": signature.input_schema, "output_field": pa.field("value", signature.output_type)}
    packed = Payload("f", "3", "row", is_class=False, by_keyword=(), search_path=(), module=None, **fields)
    return LoadedFunction(packed, target, concurrency)


def test_an_init_that_raises_is_a_fault_of_loading() -> None:
    class Model:
        def __init__(self) -> None:
            raise OSError("no weights")

        def __call__(self, text: str) -> str:
            return text

    with pytest.raises(LoadError, match=r"could not be initialised \(OSError: no weights\)") as failed:
        loaded(Model)
    assert "no weights" in str(failed.value.traceback_text)


def test_a_missing_module_says_to_install_it() -> None:
    def f(text: str) -> str:
        return text

    payload = Payload.from_bytes(pack(f, signature_of(f)))
    broken = Payload(**{**vars(payload), "pickled": b"cno_such_module_here\nf\n."})
    with pytest.raises(LoadError, match=r"no module 'no_such_module_here': install it.*has moved, register"):
        load(broken.to_bytes())


def test_another_minor_version_of_python_is_refused() -> None:
    def f(text: str) -> str:
        return text

    payload = Payload.from_bytes(pack(f, signature_of(f)))
    older = Payload(**{**vars(payload), "python_version": "3.7"})
    with pytest.raises(LoadError, match=r"under Python 3.7 and this worker runs 3\."):
        load(older.to_bytes())


def test_other_bytes_are_refused() -> None:
    with pytest.raises(LoadError, match="register it again"):
        load(b"\x80\x04N.")


def test_a_close_that_raises_is_told_apart() -> None:
    class Model:
        def __call__(self, text: str) -> str:
            return text

        def close(self) -> None:
            raise OSError("still open")

    with pytest.raises(UserCodeError, match="still open") as failed:
        loaded(Model).close()
    assert failed.value.kind == "close"
