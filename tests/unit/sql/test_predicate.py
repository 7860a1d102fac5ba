"""Which columns a predicate reads, and what is no predicate."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.predicate import columns_of

KNOWN = ["id", "Text", "st", "we.ird", "current_date", "é", "l"]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("id = 1", ("id",)),
        ("TEXT LIKE 'a;)%' AND id > 2", ("id", "Text")),
        ("st.a.b = 5", ("st",)),
        ("docs.id = 1", ("id",)),
        ('"we.ird" IS NULL', ("we.ird",)),
        ("current_date > '2020-01-01'", ("current_date",)),
        ("é = 'x' -- a note", ("é",)),
        ("id IS DISTINCT FROM 3", ("id",)),
        ("list_contains(l, extract(year FROM id))", ("id", "l")),
        ("len(list_filter(l, lambda x: x > id)) > 0", ("id", "l")),
        ("true", ()),
        ("$$;)$$ = Text", ("Text",)),
    ],
)
def test_only_the_columns_that_a_predicate_names_are_read(predicate: str, expected: tuple[str, ...]):
    assert columns_of(predicate, KNOWN) == expected


@pytest.mark.parametrize("predicate", ["COLUMNS(*) IS NOT NULL", "docs IS NULL", "unknown = 1", "docs.* = 1"])
def test_what_may_read_any_column_reads_all(predicate: str):
    assert columns_of(predicate, KNOWN) is None


@pytest.mark.parametrize(
    "predicate",
    [
        "",
        "  -- nothing",
        "id = 1; DROP TABLE docs",
        "id = 1) OR (1 = 1",
        "id = (1",
        "id = 'open",
        "SELECT 1",
        "id IN (SELECT 1)",
        "EXISTS (FROM docs)",
        "id = 1 UNION SELECT 2",
        "DELETE FROM docs",
        "(VALUES (true))",
    ],
)
def test_what_is_not_one_expression_is_refused(predicate: str):
    with pytest.raises(InvalidQuery):
        columns_of(predicate, KNOWN)
