from __future__ import annotations

import functools
import logging
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from lancegpu_sql.functions import Function, function
from lancegpu_sql.functions.identity import digest_of
from lancegpu_sql.functions.options import FunctionOptions
from lancegpu_sql.functions.signature import signature_of

BASE = """
import re
import threading
from dataclasses import dataclass

WORDS = {"good", "great", "fine"}
LIMIT = 10
PATTERN = re.compile("a+")
LOCK = threading.Lock()
_model = None

@dataclass
class Weights:
    good: float = 1.0

def clean(text):
    return text.strip() if len(text) < LIMIT else text

def target(text: str, scale: float = 2.0) -> float:
    '''Score a text.'''
    global _model
    if _model is None:
        _model = object()
    with LOCK:
        return Weights().good * scale * (clean(text) in WORDS or bool(PATTERN.match(text)) or text in {"x", "y", "z"})
"""


def defined(source: str = BASE, *, module: str = "__main__", file: str = "a.py", name: str = "target") -> Any:
    """Define a module's text as if it were imported from a file, and give what it calls `target`."""
    namespace = types.ModuleType(module)
    sys.modules.setdefault(module, namespace)
    exec(compile(source, file, "exec", dont_inherit=True), namespace.__dict__)
    return getattr(namespace, name)


def digest(target: Callable[..., Any], **declared: Any) -> str:
    return digest_of(target, signature_of(target), **declared)


def changed(old: str, new: str) -> str:
    assert old in BASE
    return digest(defined(BASE.replace(old, new)))


def test_a_digest_is_32_hexadecimal_characters() -> None:
    assert re.fullmatch("[0-9a-f]{32}", digest(defined()))


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"file": "/another/folder/b.py"},
        {"module": "shop.scores"},
        {"source": "\n\n# a remark\n\n" + BASE},
        {"source": BASE + "\nUNUSED = 1\ndef unused(): return 2\n"},
        {"source": BASE.replace("Score a text.", "Give the score.")},
        {"source": BASE.replace("        return Weights", "        # a remark\n\n        return Weights")},
        {"source": BASE.replace('"good", "great", "fine"', '"fine", "good", "great"')},
    ],
)
def test_the_same_content_elsewhere_is_the_same_version(elsewhere: dict[str, str]) -> None:
    assert digest(defined(**elsewhere)) == digest(defined())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale: float = 2.0", "scale: float = 3.0"),
        ("LIMIT = 10", "LIMIT = 11"),
        ('"fine"', '"bad"'),
        ('re.compile("a+")', 're.compile("b+")'),
        ("text.strip()", "text.lstrip()"),
        ("good: float = 1.0", "good: float = 1.5"),
        ('"x", "y", "z"', '"x", "y"'),
        ("Weights().good *", "Weights().good +"),
        ("len(text) < LIMIT", "len(text) <= LIMIT"),
    ],
)
def test_a_change_of_what_it_reaches_is_another_version(old: str, new: str) -> None:
    assert changed(old, new) != digest(defined())


def test_a_state_it_keeps_for_itself_does_not_count() -> None:
    target = defined()
    before = digest(target)
    target("x")
    assert digest(target) == before


@pytest.mark.parametrize("declared", [{"env": {"A": "1"}}, {"deterministic": False}])
def test_env_and_deterministic_count(declared: dict[str, Any]) -> None:
    assert digest(defined(), **declared) != digest(defined())


def test_types_count() -> None:
    assert changed("text: str", "text: str | None") != digest(defined())


def test_a_value_it_closes_over_counts() -> None:
    def make(threshold: float) -> Any:
        def above(x: float) -> bool:
            return x > threshold

        return above

    assert digest(make(0.5)) == digest(make(0.5))
    assert digest(make(0.5)) != digest(make(0.6))


def test_numbers_that_are_equal_but_not_the_same_are_told_apart() -> None:
    def make(value: Any) -> Any:
        def f(x: int) -> float:
            return x + value  # type: ignore[no-any-return]

        return f

    assert len({digest(make(value)) for value in (1, 1.0, True, -0.0, 0.0)}) == 5


def test_functions_that_call_each_other_have_a_digest() -> None:
    source = """
def even(n: int) -> bool:
    return n == 0 or odd(n - 1)
def odd(n: int) -> bool:
    return n != 0 and even(n - {step})
"""
    first, second = (digest(defined(source.format(step=step), name="even")) for step in (1, 2))
    assert first == digest(defined(source.format(step=1), name="even"))
    assert first != second


def test_a_method_and_a_base_of_a_class_count() -> None:
    source = """
class Base:
    def weight(self): return {weight}
class target(Base):
    def __call__(self, text: str) -> float: return self.weight() * {factor}
"""
    digests = {digest(defined(source.format(weight=w, factor=f))) for w, f in ((1, 1), (2, 1), (1, 2))}
    assert len(digests) == 3


def test_a_class_that_refers_to_its_decorated_self_has_a_digest() -> None:
    source = """
from lancegpu_sql import function
@function(name="scores")
class target:
    SCALE = 2
    def __call__(self, text: str) -> float: return target.target.SCALE
"""
    decorated = defined(source)
    assert isinstance(decorated, Function)
    assert digest(decorated.target) == digest(defined(source).target)


def test_an_object_of_another_module_counts_by_its_name() -> None:
    def f(text: str) -> str:
        return functools.reduce(lambda a, b: a + b, text)

    def g(text: str) -> str:
        return functools.partial(lambda a, b: a + b, text)  # type: ignore[return-value]

    assert digest(f) != digest(g)


def test_a_service_counts_by_its_class() -> None:
    def make(service: Any) -> Any:
        def f(x: int) -> bool:
            return bool(service)

        return f

    assert digest(make(threading.Lock())) == digest(make(threading.Lock()))
    assert digest(make(logging.getLogger("a"))) == digest(make(logging.getLogger("b")))
    assert digest(make(threading.Lock())) != digest(make(logging.getLogger("a")))


def test_an_object_of_an_own_class_counts_by_its_state() -> None:
    class Config:
        def __init__(self, size: int) -> None:
            self.size = size
            self.lock = threading.Lock()
            self.me = self

    def make(size: int) -> Any:
        config = Config(size)

        def f(x: int) -> int:
            return x + config.size

        return f

    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


def test_where_it_runs_does_not_count() -> None:
    options = FunctionOptions(gpu=True, gpu_class="l4", gpus=2, cpus=3, batch_size=7)
    placed = Function(defined(), options)
    assert digest(placed.target) == digest(function(defined()).target)
