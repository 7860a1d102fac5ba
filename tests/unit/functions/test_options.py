from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql import function
from lancegpu_sql.errors import InvalidFunction, InvalidName
from lancegpu_sql.functions import Function


def double(x: int) -> int:
    return 2 * x


def test_a_function_takes_the_name_of_its_callable() -> None:
    assert function(double).name == "double"


def test_defaults_are_one_core_one_call_and_no_gpu() -> None:
    options = function(double).options
    assert (options.gpu, options.gpus, options.cpus, options.concurrency, options.batch_size) == (False, 1, 1, 1, None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpu_class": "l4"}, "write gpu=True, gpu_class='l4'"),
        ({"gpu": "l4"}, "True or False"),
        ({"gpu": True, "gpu_class": 4}, "name of a GPU class"),
        ({"gpu": True, "gpus": 0}, "at least 1"),
        ({"gpus": 2}, "without gpu=True"),
        ({"cpus": True}, "whole number"),
        ({"concurrency": 0}, "at least 1"),
        ({"batch_size": -1}, "at least 1"),
        ({"gpuclass": "l4"}, "Did you mean 'gpu_class'"),
        ({"deterministic": 1}, "True or False"),
        ({"env": {"A": 1}}, "write '1'"),
        ({"env": {"A-B": "1"}}, "environment variable"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "set by the placement"),
        ({"env": {"HIP_VISIBLE_DEVICES": "0"}}, "set by the placement"),
        ({"env": ["A"]}, "env is a dict"),
        ({"input_schema": {"x": "int64"}}, "is a pyarrow.Schema"),
    ],
)
def test_a_wrong_option_says_what_to_write(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidFunction, match=says):
        function(**options)(double)


@pytest.mark.parametrize("name", ["2fast", "a b", "naïve", "a/b"])
def test_a_name_follows_the_rule_of_lancedb(name: str) -> None:
    with pytest.raises(InvalidName, match="starts with a letter"):
        function(name=name)(double)


@pytest.mark.parametrize("name", ["upper", "UPPER", "read_parquet", "coalesce", "sum", "select", "list_sort"])
def test_a_name_that_sql_has_taken_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="already"):
        function(name=name)(double)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidName, match="name="):
        function(lambda x: x)


def test_a_name_in_place_of_options_is_refused() -> None:
    with pytest.raises(InvalidFunction, match="name='twice'"):
        function("twice")  # type: ignore[call-overload]


def test_a_function_is_decorated_once() -> None:
    with pytest.raises(InvalidFunction, match="already"):
        function(function(double))


def test_changed_options_leave_the_first_function_alone() -> None:
    first = function(gpu=True)(double)
    second = first.changed(gpu_class="l4")
    assert isinstance(second, Function)
    assert (first.options.gpu_class, second.options.gpu_class) == (None, "l4")
