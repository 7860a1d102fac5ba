"""Types of the values that a class's __init__ takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Optional

import pytest

from lancegpu_sql import col, function
from lancegpu_sql.errors import InvalidBinding
from lancegpu_sql.functions.init_types import suits, type_words


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "int"),
        (str | None, "str | None"),
        (Optional[float], "float | None"),  # noqa: UP045 - users write it
        (list, "list"),
        (list[int | None], "list[int | None]"),
        (dict[str, list[float]], "dict[str, list[float]]"),
        (Annotated[bool, "words"], "bool"),
        (list[Any], "list"),
        (Any, None),
        (object, None),
        (int | Any, None),
        (Sequence[str], None),
        (Literal["a"], None),
        ("unread", None),
    ],
)
def test_simple_annotations_have_words(hint: Any, words: str | None) -> None:
    assert type_words(hint) == words


@pytest.mark.parametrize(
    ("value", "words", "expected"),
    [
        (1, "int", True),
        ("zz", "int", False),
        (1.0, "int", False),
        (1, "float", True),
        ("1", "float", False),
        (None, "str | None", True),
        (None, "str", False),
        (1, "str | None", False),
        (1, "bool", False),
        ([1, None], "list[int | None]", True),
        ([1, "a"], "list[int]", False),
        ({"a": [1.5]}, "dict[str, list[float]]", True),
        ({"a": 1.5}, "dict[str, list[float]]", False),
        ([], "dict", False),
    ],
)
def test_values_are_held_against_the_words(value: Any, words: str, expected: bool) -> None:
    assert suits(value, words) is expected


@function
class Cut:
    def __init__(self, k: int, marks: list[str] | None = None, anything: object = None) -> None: ...

    def __call__(self, text: str) -> str: ...


@pytest.mark.parametrize(
    ("values", "says"),
    [({"k": "zz"}, "'k' of __init__ is to be int, not 'zz', a str"), ({"k": 1, "marks": [1]}, r"list\[str\] \| None")],
)
def test_a_value_of_another_type_is_refused_when_it_is_bound(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidBinding, match=says):
        Cut(text=col("t"), **values)


def test_what_the_annotation_leaves_open_passes() -> None:
    assert Cut(text=col("t"), k=3, anything=[1, "a"]).bound == {"k": 3, "anything": [1, "a"]}
