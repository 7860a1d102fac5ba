"""Constants in a text."""

from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.sql.constants import NoConstant, constant_of, constant_text
from lancegpu_sql.sql.tokens import tokens_of

CONSTANTS = [
    ("'it''s'", "it's"),
    ("-1.5", -1.5),
    ("12", 12),
    ("true", True),
    ("NULL", None),
    ("[1, [2,], []]", [1, [2], []]),
    ("{'a b': NULL, C: {}, \"D\": -1e-7}", {"a b": None, "c": {}, "D": -1e-7}),
    ("$$it's$$", "it's"),
]


@pytest.mark.parametrize(("text", "value"), CONSTANTS)
def test_a_constant_is_read_and_written(text: str, value: Any):
    assert constant_of(tokens_of(text)) == value
    assert constant_of(tokens_of(constant_text(value))) == value


@pytest.mark.parametrize("text", ["x", "1 + 1", "-'a'", "[1", "[1 2]", "{'a' 1}", "{1: 2}", "?", "$x", "f(1)", "1e400"])
def test_anything_else_is_none(text: str):
    with pytest.raises(NoConstant):
        constant_of(tokens_of(text))
