"""Functions defined by a text: run in another process, typed by what the statement says."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancegpu_sql.errors import InvalidFunction, LoadFailed
from lancegpu_sql.functions.definition import Definition
from lancegpu_sql.functions.faults import UserCodeError
from lancegpu_sql.functions.inspection import inspect_file
from lancegpu_sql.functions.loading import load
from lancegpu_sql.functions.source import inspect_source


def defined(source: str, *parameters: str, output: str = "int64", **options: Any) -> Definition:
    """Function f of a text; its parameters are int64."""
    typed = [(name, "int64", True) for name in parameters or ("x",)]
    return inspect_source("f", source, typed, (output, True), options=options)


def called(definition: Definition, *columns: list[Any], **bound: Any) -> list[Any]:
    """What it gives for columns of int64."""
    names = [each.name for each in definition.version.parameters]
    batch = pa.record_batch([pa.array(column, pa.int64()) for column in columns], names=names)
    return load(definition.payload, bound).call(batch).to_pylist()


def test_a_text_makes_a_function_with_helpers_and_imports():
    found = defined("import math\nBASE = 10\ndef up(x): return math.floor(x) + BASE\ndef f(x): return up(x)")
    assert called(found, [1, 2]) == [11, 12]


def test_the_types_are_those_of_the_statement():
    version = defined("def f(x, y): return x", "x", "y", output="list<int64>").version
    assert [(each.name, each.type) for each in version.parameters] == [("x", "int64"), ("y", "int64")]
    assert version.output_type == "list<int64>"


@pytest.mark.parametrize(
    "source", ["def f(x):\n    return x + 1", "\n    def f(x):\n        return x + 1\n    ", "  f = lambda x: x + 1"]
)
def test_a_text_may_be_indented_as_a_whole(source: str):
    assert called(defined(source), [1]) == [2]


def test_the_same_text_is_the_same_version_however_it_is_indented():
    one, other = defined("def f(x):\n    return x + 1"), defined("\n  def f(x):\n      return x + 1")
    assert one.version.digest == other.version.digest
    assert one.version.digest != defined("def f(x):\n    return x + 2").version.digest


def test_arrays_and_classes_are_called_as_everywhere():
    arrays = defined("import pyarrow as pa, pyarrow.compute as pc\ndef f(x: pa.Array): return pc.add(x, 1)")
    assert (arrays.version.calling, called(arrays, [1, None])) == ("arrays", [2, None])
    own = defined("class f:\n    def __init__(self, k: int): self.k = k\n    def __call__(self, x): return x * self.k")
    assert (own.version.is_class, called(own, [2], k=3)) == (True, [6])


def test_options_win_over_a_decorators():
    source = "from lancegpu_sql import function\n@function(cpus=2, batch_size=5)\ndef f(x: int) -> int: return x"
    placement = defined(source, cpus=3).version.placement
    assert (placement.cpus, placement.batch_size) == (3, 5)


def test_the_text_runs_in_another_process_only(tmp_path: Path):
    mark = tmp_path / "pid"
    defined(f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ndef f(x): return x")
    assert int(mark.read_text()) != os.getpid()


def test_a_traceback_shows_the_lines_of_the_text():
    with pytest.raises(UserCodeError) as caught:
        called(defined("def f(x):\n    return 1 / 0  # here"), [1])
    assert "return 1 / 0  # here" in caught.value.traceback_text


@pytest.mark.parametrize(
    ("source", "error", "told"),
    [
        ("def f(x) return x", LoadFailed, "SyntaxError"),
        ("1 / 0", LoadFailed, "ZeroDivisionError"),
        ("raise SystemExit(3)", LoadFailed, "SystemExit"),
        ("import os; os._exit(3)", LoadFailed, "exit status 3"),
        ("def g(x): return x", InvalidFunction, "defines no f: write def f(x). It defines g"),
        ("def f(y): return y", InvalidFunction, "but its source takes (y)"),
        ("f = 3", InvalidFunction, "defines no f"),
        ("async def f(x): return x", InvalidFunction, "asynchronous"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(source: str, error: type[Exception], told: str):
    with pytest.raises(error, match=re.escape(told)):
        defined(source)


def test_a_function_of_a_file_may_get_another_name_and_options(tmp_path: Path):
    path = tmp_path / "measures.py"
    path.write_text("def size(text: str) -> int: return len(text)\n")
    (found,) = inspect_file(path, "size", options={"name": "length_of", "cpus": 2})
    assert (found.version.name, found.version.placement.cpus) == ("length_of", 2)
