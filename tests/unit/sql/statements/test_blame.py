"""What DuckDB says of a query, told of the statement that it was made for."""

from __future__ import annotations

import duckdb
import pytest

from lancegpu_sql.errors import InvalidQuery, LanceGpuError
from lancegpu_sql.sql.statements import split
from lancegpu_sql.sql.statements.blame import told_of

ENGINE = duckdb.connect(":memory:")
LONG = ", ".join(f"{number} AS number_{number}" for number in range(20))


def said_of(text: str, query: str = "", parts: tuple[str, ...] = ()) -> LanceGpuError:
    """What is told of the last statement of a text after what DuckDB says of a query, or of the statement itself."""
    statement = split(text)[-1]
    query = query or statement.text
    with pytest.raises(duckdb.Error) as caught:
        ENGINE.execute(query)
    return told_of(InvalidQuery(str(caught.value)), query, statement, text, parts=parts)


@pytest.mark.parametrize("before", ["", "FROM a;\n ", "SELECT '🎉', 'é';"])
@pytest.mark.parametrize(
    "lead", ["", f"{LONG}, ", "'🎉é🎉', '漢', ", "1\u00a0 AS\u3000a, ", f"'{'🎉é' * 40}' AS n, {LONG}, "]
)
@pytest.mark.parametrize(("wrong", "at"), [("nothing", 0), ("1 one two", len("1 one "))])
def test_a_place_is_found_in_long_lines_and_beside_wide_characters(before: str, lead: str, wrong: str, at: int):
    text = f"{before}SELECT {lead}{wrong}"
    told = said_of(text)
    line = text.split("\n")[-1]
    assert (told.facts["line"], told.facts["column"]) == (text.count("\n") + 1, line.index(wrong) + at + 1)


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("SELECT 1 FROM", 14, "The statement is not complete, at line 1, column 14; expected a table."),
        ("SELECT 1 WHERE 1 = 1 AND", 25, "expected a condition"),
        ("SELECT a, SELECT", 17, "expected an expression"),
        ("SELECT", 7, "expected an expression"),
        ("SELECT abs(1, (2)", 11, "This is not closed, at line 1, column 11; expected ')'."),
        ("SELECT CASE WHEN a THEN (1)", 8, "expected END"),
        ("SELECT a FRM b", 14, "(did you mean FROM?)"),
        ("SELECT a FROM b WEHRE c", 23, "(did you mean WHERE?)"),
        ("SELECT 1 2", 10, 'syntax error at or near "2", at line'),
    ],
)
def test_a_query_that_stops_short_or_has_a_word_nearly_written_says_so(text: str, column: int, says: str):
    told = said_of(text)
    assert (told.facts["column"], says in told.message) == (column, True), told.message


def test_the_place_is_in_the_part_that_duckdb_points_into():
    text = "WITH a AS (SELECT 1) INSERT INTO t BY NAME FFROM a"
    told = said_of(text, "WITH a AS (SELECT 1)\nFFROM a", ("WITH a AS (SELECT 1)", "FFROM a"))
    assert told.facts["column"] == text.index("FFROM") + 1


def test_what_is_missing_at_the_end_of_a_part_is_told_there():
    text = "CREATE MATERIALIZED VIEW v AS SELECT a AS"
    told = said_of(text, "FROM (\nSELECT a AS\n) LIMIT 0", ("SELECT a AS",))
    assert told.message.startswith(f"This expression is not complete, at line 1, column {len(text) + 1}.")


def test_a_mistake_without_a_place_is_told_where_the_statement_begins():
    told = said_of("FROM t;\n  SELECT FROM t")
    assert (told.facts["line"], told.facts["column"]) == (2, 3)
