"""What the word under the cursor may become."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lancegpu_sql.cli.shell.completion import completions


class Names:
    def tables(self) -> Sequence[str]:
        return ["docs", "My table", "Reviews"]

    def functions(self) -> Sequence[str]:
        return ["embed", "size"]

    def columns(self, table: str) -> Sequence[str]:
        return {"docs": ["id", "text"], "Reviews": ["stars", "Odd name"]}.get(table, [])

    def options(self, statement: str) -> Sequence[str]:
        return {"REFRESH COLUMN": ["batch_size", "wait"], "CREATE FUNCTION": ["gpu"]}.get(statement, [])


def offered(text: str) -> list[str]:
    """What is offered where ``|`` stands."""
    before, _, after = text.partition("|")
    return completions(before, after, Names())[1]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("sel|", ["select"]),
        ("SELECT * FROM do|", ["docs"]),
        ("SELECT * FROM |", ["docs", '"My table"', "Reviews"]),
        ("SELECT * FROM my|", ['"My table"']),
        ("SELECT te| FROM docs", ["text", "temp"]),
        ("SELECT em| FROM docs", ["embed("]),
        ("SELECT d.| FROM docs AS d", ["id", "text"]),
        ("SELECT d.te| FROM docs d, Reviews r", ["text"]),
        ("SELECT r.o| FROM docs d, reviews r", ['"Odd name"']),
        ("SELECT nothing.| FROM docs", []),
        ("UPDATE docs SET t|", ["text", "table", "tables", "temp", "then", "to", "true", "truncate", "try", "type"]),
        ("SELECT 'do|", []),
        ("SELECT 1 -- no comment either\n, si|", ["size("]),
        ("SELECT st FROM Reviews; SELECT st|", ["status"]),
        ("DROP FUNCTION |", ["embed", "size"]),
        ("FROM docs; SHOW g|", ["GPU CLASSES"]),
        ("show jo|", ["jobs"]),
        ("REFRESH COLUMN | ON docs", ["id", "text"]),
        ("REFRESH COLUMN text ON d|", ["docs"]),
        ("REFRESH COLUMN text ON docs WITH (|", ["batch_size = ", "wait = "]),
        ("REFRESH COLUMN text ON docs WITH (wait = false, |", ["batch_size = "]),
        ("CREATE OR REPLACE FUNCTION f(x utf8) RETURNS utf8 LANGUAGE python AS '' WITH (g|", ["gpu = "]),
        ("WITH a AS (SELECT si|", ["size("]),
        ("\\d r|", ["Reviews"]),
        ("\\ti|", ["\\timing"]),
    ],
)
def test_likely_words_are_offered(text: str, first: list[str]):
    assert offered(text) == first


def test_what_is_typed_of_the_word_is_told():
    assert completions("SELECT * FROM do", "", Names())[0] == "do"


def test_keywords_are_written_as_the_user_writes():
    assert offered("REF|") == ["REFRESH"]
    assert offered("ref|") == ["refresh"]
