"""The queries made for UPDATE, DELETE and MERGE, and what DuckDB says of them told of the statement."""

from __future__ import annotations

from typing import Any

import pytest

from lancegpu_sql.errors import InvalidQuery, ParseError
from lancegpu_sql.sql.statements import split
from lancegpu_sql.sql.statements.blame import told_of
from lancegpu_sql.sql.statements.changes import (
    Target,
    delete_query,
    merge_query,
    numbered,
    parameters_in,
    parts_of,
    source_query,
    update_query,
)

TARGET = Target("t", {"a": "BIGINT", "b": None})


def one(text: str) -> Any:
    """The only statement of a text."""
    (statement,) = split(text)
    return statement


def test_parameters_are_numbered_in_their_order_and_nothing_else():
    assert numbered("UPDATE t SET a = ?, b = '?' -- ?\nWHERE c = ? AND $$?$$ = d") == (
        "UPDATE t SET a = $1, b = '?' -- ?\nWHERE c = $2 AND $$?$$ = d"
    )
    assert parameters_in("a = $2 AND b = $name OR c = $2") == ("$2", "$name")


def test_an_update_reads_rows_and_values_under_names_that_no_expression_can_mean():
    text = update_query(one("UPDATE t SET a = b + 1, b = DEFAULT WHERE a > 2"), TARGET)
    assert text == (
        'SELECT "t"."_rowid",\n"t"."_rowaddr",\nCAST((\nb + 1\n) AS BIGINT) AS "lancegpu value 0",\n'
        'NULL AS "lancegpu value 1"\nFROM "lancegpu rows" AS "t"\nWHERE (\na > 2\n)'
    )


def test_one_row_of_several_that_match_is_taken():
    text = update_query(one("WITH s AS (SELECT 1 AS x) UPDATE t SET a = s.x FROM s"), TARGET)
    assert text.startswith('WITH s AS (SELECT 1 AS x)\nSELECT DISTINCT ON ("t"."_rowaddr")')
    assert text.endswith('FROM "lancegpu rows" AS "t", s')


def test_a_delete_reads_rows_only():
    assert (
        delete_query(one("DELETE FROM t"), TARGET)
        == 'SELECT "t"."_rowid",\n"t"."_rowaddr"\nFROM "lancegpu rows" AS "t"'
    )


@pytest.mark.parametrize(
    ("actions", "join"),
    [
        ("WHEN MATCHED THEN DELETE", "INNER"),
        ("WHEN NOT MATCHED THEN INSERT (a) VALUES (1)", "RIGHT"),
        ("WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE", "LEFT"),
        ("WHEN NOT MATCHED THEN DO NOTHING WHEN NOT MATCHED BY SOURCE THEN DELETE", "FULL"),
    ],
)
def test_a_merge_joins_no_more_than_its_actions_need(actions: str, join: str):
    statement = one(f"MERGE INTO t USING s ON s.x = t.a {actions}")
    assert f" {join} JOIN " in merge_query(statement, TARGET, statement.actions, [])


def test_each_outcome_of_a_merge_has_the_same_values():
    statement = one(
        "MERGE INTO t USING s ON x = a WHEN MATCHED THEN UPDATE SET b = x WHEN NOT MATCHED THEN INSERT (a) VALUES (x)"
    )
    text = merge_query(statement, TARGET, statement.actions, ["a", "b"])
    assert "{'action': 0::INTEGER, 'v0': CAST((\n\"t\".\"a\"\n) AS BIGINT), 'v1': (\nx\n)}" in text
    assert "{'action': 1::INTEGER, 'v0': CAST((\nx\n) AS BIGINT), 'v1': NULL}" in text


def test_the_columns_of_a_source_are_asked_for_with_all_parameters():
    assert source_query(one("MERGE INTO t USING (SELECT $1 AS x) AS s ON x = $2 WHEN MATCHED THEN DELETE")) == (
        'SELECT * FROM (SELECT $1 AS x) AS "s" WHERE false AND $1 IS NULL AND $2 IS NULL'
    )


def said(query: str, at: str, what: str) -> InvalidQuery:
    """What DuckDB says of a query, pointing at a piece of it."""
    start = query.index(at)
    line = query.count("\n", 0, start) + 1
    shown = f"LINE {line}: {query.splitlines()[line - 1]}"
    column = start - (query.rfind("\n", 0, start) + 1) + len(f"LINE {line}: ")
    return InvalidQuery(f"{what}\n\n{shown}\n{' ' * column}^")


def test_a_mistake_is_told_at_its_place_in_the_text_as_written():
    whole = "FROM t;\nUPDATE t SET b = 'é', a = ? WHERE x y"
    written = split(whole)[1]
    statement = one(numbered(written.text))
    query = update_query(statement, TARGET)
    error = said(query, "y", 'Parser Error: syntax error at or near "y"')
    told = told_of(error, query, written, whole, written=statement.text, parts=parts_of(statement))
    assert isinstance(told, ParseError)
    assert (told.line, told.column) == (2, 37)
    assert told.message.splitlines()[0] == 'syntax error at or near "y", at line 2, column 37.'


def test_what_is_missing_at_an_expressions_end_is_told_there():
    written = one("DELETE FROM t WHERE a =")
    query = delete_query(written, TARGET)
    error = said(query, "\n)", 'Parser Error: syntax error at or near ")"')
    error = InvalidQuery(error.message.replace("LINE 5: a =", "LINE 6: )").replace("           ^", "        ^"))
    told = told_of(error, query, written, written.text, written=written.text, parts=parts_of(written))
    assert told.message.startswith("This expression is not complete, at line 1, column 24.")


def test_lines_that_the_user_did_not_write_are_not_shown():
    written = one("UPDATE t SET a = 'x'")
    query = update_query(written, TARGET)
    error = said(query, "CAST", "Conversion Error: Could not convert string 'x' to INT64")
    told = told_of(error, query, written, written.text, written=written.text, parts=parts_of(written))
    assert told.message == "Conversion Error: Could not convert string 'x' to INT64"


def test_columns_that_only_the_query_knows_are_not_suggested():
    written = one("DELETE FROM t WHERE rowe")
    error = InvalidQuery('Binder Error: no "rowe"!\nCandidate bindings: "_rowid", "t._rowaddr", "a"')
    told = told_of(error, "", written, written.text)
    assert told.message == 'Binder Error: no "rowe"!\nCandidate bindings: "a"'
