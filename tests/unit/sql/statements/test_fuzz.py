"""Whatever is written, the reader gives statements, or an error of ours that says where."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from sql_corpus import CORPUS, STATEMENTS, edited, statements_of

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.statements import split

FULL = os.environ.get("TEST_LENGTH") == "full"
EDITS = 20_000 if FULL else 300


def mistake_in(text: str) -> ParseError | None:
    """What is said of a text, if anything; nothing but a ParseError may come out."""
    try:
        split(text)
    except ParseError as problem:
        return problem
    return None


def check(text: str) -> None:
    """Read a text; a mistake in it has a place inside it."""
    problem = mistake_in(text)
    if problem is not None:
        assert 0 <= problem.position <= len(text)
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.column >= 1
        assert problem.message.endswith("^")


@pytest.mark.parametrize("text", STATEMENTS, ids=lambda text: text[:30])
def test_every_prefix_and_suffix_of_a_statement_is_read_or_refused_with_a_place(text: str):
    step = 1 if FULL or len(text) < 120 else 3
    for cut in range(0, len(text) + 1, step):
        check(text[:cut])
        check(text[cut:])


@pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
def test_random_edits_are_read_or_refused_with_a_place(file: Path):
    chance = random.Random(file.stem)
    own = statements_of(file.stem)
    for _ in range(EDITS):
        check(edited(chance.choice(own), chance))
