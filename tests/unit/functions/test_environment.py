from __future__ import annotations

from importlib.metadata import requires
from typing import Any

import pytest

from lancegpu_sql import function
from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.definition import digest_of_function
from lancegpu_sql.functions.environment import RUNTIME_REQUIREMENTS, Environment, own_python_version, packages_of

LOCK = """\
cloudpickle==3.1.3 \\
    --hash=sha256:1654
My_Package==1.2 ; sys_platform == 'linux' \\
    --hash=sha256:cbe9
local @ file:///wheels/local-1.0-py3-none-any.whl
/wheels/by_path-2.0-py3-none-any.whl \\
    --hash=sha256:aaaa
"""


def double(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (3, "list of requirements"),
        ({"magika": "1"}, "list of requirements"),
        (("",), "no requirement"),
        ((None,), "no requirement"),
        (("--index-url http://there",), "uv's own settings"),
        (("-r other.txt",), "uv's own settings"),
        (("magika --hash=sha256:00",), "uv's own settings"),
        (("magika\nnumpy",), "uv's own settings"),
        (("magika==${VERSION}",), "uv's own settings"),
        (("magika @ https://me:word@there/magika.whl",), "a user or a password"),
        (("./magika.whl",), "whole path"),
    ],
)
def test_what_is_no_requirement_is_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidFunction, match=says):
        function(pip=given)(double)


@pytest.mark.parametrize("given", ["3", "3.12.1", 3.12, "2.7", "python3.12"])
def test_a_python_version_is_a_minor_one_in_quotes(given: Any) -> None:
    with pytest.raises(InvalidFunction, match="is a minor version in quotes"):
        function(python_version=given)(double)


def test_a_python_on_which_workers_do_not_run_is_refused() -> None:
    with pytest.raises(InvalidFunction, match=r"Python 3\.11 and newer"):
        function(python_version="3.10")(double)


def test_one_requirement_may_be_given_as_it_is() -> None:
    assert function(pip="magika==1.*")(double).options.pip == ("magika==1.*",)


def test_a_lock_names_its_packages_and_their_versions() -> None:
    assert packages_of(LOCK) == {
        "cloudpickle": "3.1.3",
        "my-package": "1.2",
        "local": "file:///wheels/local-1.0-py3-none-any.whl",
        "by-path": "2.0",
    }


def test_environments_of_other_packages_or_another_python_are_others() -> None:
    kinds = [Environment("3.11", LOCK), Environment("3.12", LOCK), Environment("3.11", LOCK + "\n")]
    assert len({each.digest for each in kinds}) == 3
    assert Environment("3.11", LOCK).digest == kinds[0].digest


def test_packages_are_part_of_a_version_whatever_their_order() -> None:
    plain, one, other = (function(pip=pip)(double) for pip in ((), ("a", "b"), ("b", "a")))
    assert digest_of_function(one) == digest_of_function(other) != digest_of_function(plain)


def test_the_present_python_may_be_named_and_changes_nothing() -> None:
    named = function(python_version=own_python_version())(double)
    assert digest_of_function(named) == digest_of_function(function(double))


def test_workers_need_what_this_package_says_it_needs() -> None:
    assert set(RUNTIME_REQUIREMENTS) <= set(requires("lancegpu-sql") or ())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (3, "list of modules"),
        (("my-package",), "no module"),
        (("mypackage.part",), "write 'mypackage'"),
        (("json",), "every worker has json"),
    ],
)
def test_what_is_no_module_to_ship_is_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidFunction, match=says):
        function(code=given)(double)


def test_a_module_may_be_given_itself() -> None:
    assert function(code=pytest)(double).options.code == ("pytest",)
