"""The query inside of a statement of DuckDB's own."""

from __future__ import annotations

import pytest

from lancegpu_sql.sql.inner_query import inner_query, inserted_query, with_column_names


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("CREATE TEMP TABLE t AS SELECT 1", "SELECT 1"),
        ("CREATE OR REPLACE TEMP VIEW v (a) AS (FROM u);", "(FROM u)"),
        ("CREATE TABLE t AS WITH c AS (SELECT 1) FROM c", "WITH c AS (SELECT 1) FROM c"),
        ("COPY (SELECT a FROM t) TO 'file.csv' (HEADER)", "SELECT a FROM t"),
        ("CREATE TABLE t (a INT)", None),
        ("CREATE MACRO m(a) AS (SELECT a)", None),
        ("COPY t TO 'file.csv'", None),
        ("INSERT INTO t SELECT 1", None),
    ],
)
def test_the_query_is_found(text: str, inner: str | None):
    span = inner_query(text)
    assert (None if span is None else text[slice(*span)]) == inner


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("INSERT INTO t SELECT 1", "SELECT 1"),
        ("INSERT INTO t (a, b) FROM u ON CONFLICT DO NOTHING", "FROM u"),
        (
            "INSERT OR REPLACE INTO x.t BY NAME WITH c AS (FROM u) FROM c RETURNING (SELECT 1);",
            "WITH c AS (FROM u) FROM c",
        ),
        ("INSERT INTO t SELECT a FROM u JOIN v ON u.a = v.a", "SELECT a FROM u JOIN v ON u.a = v.a"),
        ("INSERT INTO t VALUES (1)", None),
        ("INSERT INTO t DEFAULT VALUES", None),
        ("INSERT INTO t (SELECT 1)", None),
        ("SELECT 1", None),
    ],
)
def test_the_query_that_is_inserted_is_found(text: str, inner: str | None):
    span = inserted_query(text)
    assert (None if span is None else text[slice(*span)]) == inner


def test_its_columns_are_given_names():
    text = "COPY (SELECT a -- all\n) TO 'f'"
    span = inner_query(text)
    assert span is not None
    assert with_column_names(text, span, ['x "y"'], "query") == (
        'COPY (FROM (\nSELECT a -- all\n\n) AS "query"("x ""y""")) TO \'f\''
    )
