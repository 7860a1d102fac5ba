"""Queries that read row ids read their tables under other names, and their stars leave the ids out."""

from __future__ import annotations

import pytest

from lancegpu_sql.sql.row_ids import name_with_row_ids, name_without_row_ids, with_row_ids

T = '"t (with _rowid)"'
U = '"u (with _rowid)"'


def edited(text: str) -> str:
    return with_row_ids(text, {"t", "u"}.__contains__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT _rowid FROM t", f'SELECT _rowid FROM {T} AS "t"'),
        ('SELECT n FROM t AS x WHERE "_ROWID" = 3', f'SELECT n FROM {T} AS x WHERE "_ROWID" = 3'),
        ("SELECT * FROM t WHERE _rowid = 3", f'SELECT * EXCLUDE (_rowid) FROM {T} AS "t" WHERE _rowid = 3'),
        ("FROM t WHERE _rowid = 3", f'SELECT * EXCLUDE (_rowid) FROM {T} AS "t" WHERE _rowid = 3'),
        ("FROM t SELECT *, _rowid", f'FROM {T} AS "t" SELECT * EXCLUDE (_rowid), _rowid'),
        ("SELECT x.*, _rowid FROM t x", f"SELECT x.* EXCLUDE (_rowid), _rowid FROM {T} x"),
        ("SELECT * EXCLUDE (a), _rowid FROM t x", f"SELECT * EXCLUDE (_rowid, a), _rowid FROM {T} x"),
        ("SELECT * EXCLUDE a, _rowid FROM t x", f"SELECT * EXCLUDE (_rowid, a), _rowid FROM {T} x"),
        (
            "SELECT * EXCLUDE (_rowid) FROM t x WHERE _rowid = 3",
            f"SELECT * EXCLUDE (_rowid) FROM {T} x WHERE _rowid = 3",
        ),
        (
            "SELECT min(COLUMNS(*)) FROM t x WHERE _rowid > 3",
            f"SELECT min(COLUMNS(* EXCLUDE (_rowid))) FROM {T} x WHERE _rowid > 3",
        ),
        ("SELECT * LIKE 'a%', _rowid FROM t x", f"SELECT * EXCLUDE (_rowid) LIKE 'a%', _rowid FROM {T} x"),
        ("SELECT * REPLACE (_rowid AS n) FROM t x", f"SELECT * EXCLUDE (_rowid) REPLACE (_rowid AS n) FROM {T} x"),
        ("SELECT count(*) FROM t x WHERE _rowid > 3", f"SELECT count(*) FROM {T} x WHERE _rowid > 3"),
    ],
)
def test_stars_leave_the_row_ids_out(text: str, expected: str):
    assert edited(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t a JOIN u b ON a.x = b._rowid", f'SELECT * EXCLUDE ("b"._rowid) FROM t a JOIN {U} b ON a.x = b._rowid'),
        ("SELECT _rowid FROM t a, u b", f"SELECT _rowid FROM {T} a, {U} b"),
        ("SELECT * FROM t a SEMI JOIN u b ON a.x = b._rowid", f"SELECT * FROM t a SEMI JOIN {U} b ON a.x = b._rowid"),
        ("SELECT * FROM (t a JOIN u b USING (x)) WHERE a._rowid = 1",
         f'SELECT * EXCLUDE ("a"._rowid) FROM ({T} a JOIN u b USING (x)) WHERE a._rowid = 1'),
        ("SELECT (SELECT max(y) FROM u WHERE x = a._rowid) FROM t a", f"SELECT (SELECT max(y) FROM u WHERE x = a._rowid) FROM {T} a"),
        ("SELECT n FROM t WHERE n IN (SELECT _rowid FROM u b)", f"SELECT n FROM t WHERE n IN (SELECT _rowid FROM {U} b)"),
        ("SELECT _rowid FROM t a UNION ALL SELECT n FROM t", f"SELECT _rowid FROM {T} a UNION ALL SELECT n FROM t"),
    ],
)  # fmt: skip
def test_only_the_table_whose_row_ids_are_read_has_them(text: str, expected: str):
    assert edited(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WITH t AS (SELECT 1 AS _rowid) SELECT _rowid FROM t", "WITH t AS (SELECT 1 AS _rowid) SELECT _rowid FROM t"),
        ("WITH t AS (SELECT _rowid FROM t a) SELECT * FROM t WHERE _rowid = 1",
         f"WITH t AS (SELECT _rowid FROM {T} a) SELECT * FROM t WHERE _rowid = 1"),
        ("WITH RECURSIVE t AS (SELECT _rowid FROM t a) FROM t", "WITH RECURSIVE t AS (SELECT _rowid FROM t a) FROM t"),
        ("WITH u AS (SELECT 1), v AS (SELECT _rowid FROM u) FROM v", "WITH u AS (SELECT 1), v AS (SELECT _rowid FROM u) FROM v"),
    ],
)  # fmt: skip
def test_a_cte_is_no_table(text: str, expected: str):
    assert edited(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM own WHERE _rowid = 1",
        "SELECT * FROM other.t WHERE _rowid = 1",
        "SELECT '_rowid' FROM t",
        "SELECT n AS _rowid FROM t",
        "SELECT s._rowid FROM t",
        "SELECT x._rowid FROM (SELECT 1 AS _rowid) x, t",
        "SELECT * FROM t NATURAL JOIN u WHERE t._rowid = 1",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1)) WHERE t._rowid = 1",
        "SELECT COLUMNS('a') FROM t WHERE _rowid = 1",
        "SELECT struct_pack(*) FROM t WHERE _rowid = 1",
        "SELECT t FROM t WHERE _rowid = 1",
        "SELEC _rowid FROM t",
        "EXPLAIN SELECT _rowid FROM t",
    ],
)
def test_anything_else_is_left_as_it_is(text: str):
    assert edited(text) == text


def test_a_table_at_a_version_has_row_ids_too():
    text = with_row_ids('SELECT _rowid FROM "t (version 3)" AS "t"', {"t (version 3)"}.__contains__)
    assert text == 'SELECT _rowid FROM "t (version 3) (with _rowid)" AS "t"'


def test_a_name_is_found_back():
    assert name_without_row_ids(name_with_row_ids("t")) == name_without_row_ids("t") == "t"
