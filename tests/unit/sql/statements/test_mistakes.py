"""What is said of SQL that is not understood."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.statements import split
from lancegpu_sql.sql.statements.options import known, seconds


def refused(text: str) -> ParseError:
    """What is said of a text."""
    with pytest.raises(ParseError) as caught:
        split(text)
    return caught.value


def test_a_mistake_is_shown_in_its_line_with_a_caret_below_it():
    problem = refused("FROM t;\n\tREFRESH COLUM vec ON t")
    assert (problem.line, problem.column, problem.expected) == (2, 10, ("COLUMN", "MATERIALIZED VIEW"))
    assert problem.message == (
        "'COLUM' does not belong here (did you mean COLUMN?), at line 2, column 10; expected COLUMN or MATERIALIZED VIEW.\n"
        "\tREFRESH COLUM vec ON t\n\t        ^"
    )


def test_a_long_line_is_cut_around_the_mistake():
    _, line, caret = refused(f"SHOW JOBS FOR {'x' * 500} {'y' * 500}").message.splitlines()
    assert len(line) <= 100
    assert line[caret.index("^")] == "y"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("REFRES COLUMN vec ON t", "did you mean REFRESH?"),
        ("SELCT 1", "did you mean SELECT?"),
        ("CREATE FUNCTIN f(x utf8)", "did you mean FUNCTION?"),
        ("CREATE TABEL t (a INT)", "did you mean TABLE?"),
        ("SHOW GPU CLASES", "did you mean CLASSES?"),
        ("SHOW JOB FOR TABLE t", "did you mean SHOW JOBS?"),
        ("CANCEL JOBS 'x'", "did you mean JOB?"),
        ("ALTER TABLE t RENAM COLUMN a TO b", "did you mean RENAME?"),
        ("DROP TABEL t", "did you mean TABLE?"),
        ("DROP COLUMN n", "expected TABLE, FUNCTION, VIEW, MATERIALIZED VIEW or MACRO"),
        ("CREATE TABLE t (a INT UNIQUE)", "expected NOT NULL, ',' or ')'."),
        ("REFRESH COLUMN c ON t WIT (wait = true)", "did you mean WITH?"),
        ("MERGE INTO t USING s ON a WHEN MACHED THEN DELETE", "did you mean MATCHED?"),
    ],
)
def test_a_keyword_that_was_nearly_written_is_suggested(text: str, meant: str):
    assert meant in refused(text).message


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("SELECT 'a''b", 1, 8, "'"),
        ('FROM t;\nSELECT "a', 2, 8, '"'),
        ("SELECT 1 /* a /* b */", 1, 10, "*/"),
        ("SELECT $x$ a $$", 1, 8, "$x$"),
        ("CREATE FUNCTION f()", 1, 18, "(name type, …)"),
        ("CREATE FUNCTION f(x utf8) RETURNS utf8", 1, 39, "LANGUAGE …"),
        ("DROP FUNCTION f VERSION x", 1, 25, "the number of a version"),
        ("REFRESH COLUMN c ON t WHERE a > ?", 1, 33, "the value itself"),
        ("UPDATE t SET a = (1", 1, 18, ")"),
        ("UPDATE t SET a = ", 1, 17, "an expression"),
        ("DELETE FROM t WHERE CASE WHEN 1", 1, 21, "END"),
        ("CANCEL JOB x", 1, 12, "the id of a job in quotes"),
        ("INSERT INTO t VALUES (1) RETURNING a", 1, 26, "the end of the statement"),
        ("EXPLAIN (FORMAT xml) FROM t", 1, 17, "JSON"),
        ("ALTER TABLE t ALTER COLUMN c SET SCHEDULE DAILY", 1, 43, "EVERY"),
        ("ALTER TABLE t ALTER COLUMN c SET SCHEDULE EVERY DAY", 1, 49, "a span of time, such as '10 minutes'"),
        ("ALTER TABLE t ALTER COLUMN c SET SCHEDULE ON UPDATE", 1, 46, "CHANGE"),
        ("ALTER TABLE t ALTER COLUMN c SET SCHEDULE CRON '* * * * *' AT 'UTC'", 1, 60, "the end of the statement"),
    ],
)
def test_what_was_expected_is_said_with_the_place(text: str, line: int, column: int, expected: str):
    problem = refused(text)
    assert (problem.line, problem.column) == (line, column)
    assert expected in problem.expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE FUNCTION f(x varchar) RETURNS utf8", "'varchar' is no Arrow type: write 'utf8'"),
        ("CREATE FUNCTION f(x BIGINT) RETURNS utf8", "is no Arrow type: write 'int64'"),
        ("CREATE FUNCTION f(x utf8, x utf8)", "two parameters 'x'"),
        ("CREATE FUNCTION f(x utf8) RETURNS utf8 LANGUAGE sql AS ''", "not in 'sql'"),
        ("CREATE TEMP FUNCTION f(x utf8) RETURNS utf8 LANGUAGE python AS ''", "never temporary"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS FROM t", "is not replaced"),
        ("CREATE TABLE t (a INT PRIMARY KEY)", "no PRIMARY constraint"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "MERGE INTO"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "MERGE INTO"),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "'a' is named twice"),
        ("UPDATE t SET a = 1, a = 2", "'a' is set twice"),
        ("UPDATE t SET (a, b) = (1, 2, 3)", "2 columns are set to 3 values"),
        ("ALTER TABLE t ADD COLUMN c AS (f(x + 1))", "one Function applied to columns as they are"),
        ("ALTER TABLE t ADD COLUMN c AS (f(x) + 1)", "one Function applied to columns as they are"),
        ("ALTER TABLE t ADD COLUMN c AS (f(g(x)))", "one Function applied to columns as they are"),
        ("ALTER TABLE t ADD COLUMN c AS (f('x'))", "by the name of its parameter"),
        ("ALTER TABLE t RENAME TO u", "A table keeps its name"),
        ("REFRESH COLUMN c ON t WITH (wait = 1)", "expected true or false"),
        ("REFRESH COLUMN c ON t WITH (a = 1, a = 2)", "'a' is given twice"),
        ("EXPLAIN EXPLAIN FROM t", "cannot be explained"),
        ("EXPLAIN REFRESH COLUMN c ON t", "SHOW COLUMNS STATUS FOR tells how many rows"),
        ("xyz", "does not begin a statement"),
    ],
)
def test_what_cannot_be_is_refused_in_words(text: str, told: str):
    assert told in refused(text).message


def test_an_unknown_option_is_refused_with_those_there_are():
    text = "RESUME JOB 'x' WITH (wiat = true)"
    problem = refused(text)
    assert (problem.column, "did you mean wait?" in problem.message) == (22, True)
    assert problem.expected == ("wait",)
    assert known(text, (), ("wait",)) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30.0), ("1.5 minutes", 90.0), ("250ms", 0.25), ("2 h", 7200.0), ("soon", None), ("", None)],
)
def test_spans_of_time_are_read_as_seconds(text: str, value: float | None):
    assert seconds(text) == value


@pytest.mark.parametrize("depth", [10, 20_000])
@pytest.mark.parametrize(
    "opening",
    [
        "UPDATE t SET a = (",
        "UPDATE t SET a = CASE WHEN ",
        "FROM t; DELETE FROM t WHERE [",
        "EXPLAIN ",
        "CREATE FUNCTION f(x list<",
    ],
)
def test_deep_nesting_is_refused_and_ends(opening: str, depth: int):
    assert refused(opening + opening.split()[-1] * depth).line == 1
