"""Where the items of SELECT lists stand."""

from __future__ import annotations

import pytest

from lancegpu_sql.sql.select_items import select_items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("SELECT f(x), y FROM t", []),
        ("FROM t", []),
        ("SELECT a FROM (SELECT f(x), g(y, 1) AS b FROM t)", ["a", "f(x)", "g(y, 1) AS b"]),
        ("SELECT 1 UNION SELECT DISTINCT f(x) WHERE true", ["1", "f(x)"]),
        ("FROM (FROM t SELECT f(x) LIMIT 1) SELECT ALL a;", ["f(x)", "a"]),
        ("WITH c AS (SELECT DISTINCT ON (a, b) f(x) IS NOT DISTINCT FROM 1) FROM c", ["f(x) IS NOT DISTINCT FROM 1"]),
        ("SELECT (SELECT f(x), 1)", ["f(x)", "1", "(SELECT f(x), 1)"]),
        ('SELECT q."from", q.select FROM (SELECT [f(1), 2])', ['q."from"', "q.select", "[f(1), 2]"]),
        ("INSERT INTO t BY NAME SELECT extract(year FROM f(x)) a", ["extract(year FROM f(x)) a"]),
        ("SELECT FROM (SELECT", []),
        ("SELECT f(x)) FROM (SELECT g(y", ["f(x)"]),
    ],
)
def test_items_are_found(text: str, items: list[str]):
    assert [text[start:end] for start, end in select_items(text)] == items
