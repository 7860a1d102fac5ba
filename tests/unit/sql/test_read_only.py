"""Queries that read known tables and nothing else."""

from __future__ import annotations

import json

import duckdb
import pytest

from lancegpu_sql.sql.read_only import reads_only

TABLES = ["docs", "Tags"]


def read(query: str) -> object:
    with duckdb.connect() as connection:
        return json.loads(connection.execute("SELECT json_serialize_sql($1)", [query]).fetchall()[0][0])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f(a) FROM docs JOIN tags USING (a)",
        "WITH c AS (FROM DOCS) SELECT * FROM c, (VALUES (1)) AS v(n)",
        "SELECT a FROM docs WHERE a IN (SELECT a FROM tags) UNION SELECT 1",
        "SELECT f(a) FROM docs USING SAMPLE 3 ROWS",
    ],
)
def test_tables_and_what_is_made_of_them(query: str):
    assert reads_only(read(query), TABLES)


@pytest.mark.parametrize(
    "query",
    [
        "FROM docs, other",
        "FROM 'docs.csv'",
        "FROM docs WHERE a IN (SELECT b FROM read_parquet('x'))",
        "FROM range(3)",
        "FROM elsewhere.docs",
        "FROM duckdb_tables()",
    ],
)
def test_files_and_functions_and_other_tables(query: str):
    assert not reads_only(read(query), TABLES)


def test_a_query_that_is_not_read_may_read_anything():
    assert not reads_only(None, TABLES)
