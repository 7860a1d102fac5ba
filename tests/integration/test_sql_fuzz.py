"""Whatever is written to a database of tables, an error of ours comes out, or none."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from sql_corpus import edited, statements_of

import lancegpu_sql as lg
from lancegpu_sql.errors import LanceGpuError

EDITS = 6_000 if os.environ.get("TEST_LENGTH") == "full" else 150
TABLES = """
CREATE OR REPLACE TABLE docs AS SELECT i AS id, 'x' || i AS text, i::DECIMAL(10, 2) AS price FROM range(5) AS r(i);
CREATE OR REPLACE TABLE other AS SELECT i AS id, 'o' AS text, i AS key FROM range(3) AS r(i)
"""


def told_of(db: lg.Database, text: str) -> str:
    """What is said of a text, if anything."""
    try:
        db.sql(text).to_arrow()
    except LanceGpuError as problem:
        return problem.message
    except Exception as problem:
        pytest.fail(f"{type(problem).__name__} for {text!r}: {problem}")
    return ""


def test_random_statements_end_with_an_error_of_ours_or_none(fresh_folder: Path):
    chance = random.Random(7)
    own = [*statements_of("tables"), *statements_of("writes")]
    with lg.connect("db", progress="quiet") as db:
        for number in range(EDITS):
            if number % 50 == 0:
                db.sql(TABLES)
            text = edited(chance.choice(own), chance)
            told = told_of(db, text)
            assert "lancegpu rows" not in told, text
