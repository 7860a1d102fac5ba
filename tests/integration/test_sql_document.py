"""docs/sql.md: its SQL runs in its order and gives what it says, and every kind of statement stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import program_of
from suites import TESTS

import lancegpu_sql as lg
from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.query.result import QueryResult
from lancegpu_sql.sql.statements import model, split

TEXT = (TESTS.parent / "docs" / "sql.md").read_text()
BLOCKS = re.findall(r"^```(sql|sql refused|sql fragment|text rows)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def db(fresh_folder: Path) -> Iterator[lg.Database]:
    program_of(TEXT).write(fresh_folder)
    with lg.connect("db", progress="quiet", runtime_folder=fresh_folder / "run") as opened:
        yield opened


def shown(result: QueryResult) -> str:
    """A result as the document shows it."""
    lines = [result.columns, *result.fetchall()]
    return "\n".join(" | ".join(map(str, line)) for line in lines) + "\n"


def test_the_sql_of_the_document_runs_and_gives_what_it_says(db: lg.Database):
    result: QueryResult | None = None
    for kind, block in BLOCKS:
        if kind == "sql":
            result = db.sql(block)
            result.to_arrow()
        elif kind == "sql refused":
            with pytest.raises(InvalidQuery):
                db.sql(block)
        elif kind == "text rows":
            assert result is not None
            assert shown(result) == block


def test_every_kind_of_statement_stands_in_the_document():
    told = {
        type(each)
        for kind, block in BLOCKS
        if kind.startswith("sql") and "RENAME TO" not in block
        for each in split(block)
    }
    every = {kind for kind in vars(model).values() if isinstance(kind, type) and issubclass(kind, model.Statement)}
    assert every - {model.Statement} == told
