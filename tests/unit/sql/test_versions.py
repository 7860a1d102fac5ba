"""Older versions of tables in a text."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.versions import with_version_names


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("FROM t AT (VERSION => 3)", 'FROM "t (version 3)" AS "t"'),
        ("FROM t x AT (version => 3) WHERE x.a", 'FROM "t (version 3)" x WHERE x.a'),
        ("FROM t AT (VERSION => 3) x JOIN u", 'FROM "t (version 3)" x JOIN u'),
        ("FROM t AT (VERSION => 3) AS x", 'FROM "t (version 3)" AS x'),
        ("FROM t AS x AT (VERSION := 3), u", 'FROM "t (version 3)" AS x, u'),
        ('FROM a JOIN "b c" AT (VERSION => 1) ON true', 'FROM a JOIN "b c (version 1)" AS "b c" ON true'),
    ],
)
def test_a_table_at_a_version_has_a_name_of_its_own(text: str, edited: str):
    assert with_version_names(text)[0] == edited


def test_one_table_may_stand_at_several_versions():
    _, names = with_version_names("FROM t AT (VERSION => 1) JOIN t n AT (VERSION => 2) USING (id)")
    assert names == {"t (version 1)": ("t", 1), "t (version 2)": ("t", 2)}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT version, at FROM t",
        "SELECT 'AT (VERSION => 3)'",
        "FROM db.t AT (VERSION => 3)",
        "FROM t AT (TIMESTAMP => now())",
    ],
)
def test_anything_else_is_left_as_it_is(text: str):
    assert with_version_names(text) == (text, {})


@pytest.mark.parametrize("inside", ["'a'", "-1", "1.5", "1 + 1", ""])
def test_a_version_that_is_no_number_is_refused_with_its_place(inside: str):
    with pytest.raises(InvalidQuery, match="AT \\(VERSION => 3\\)") as raised:
        with_version_names(f"FROM t AT (VERSION => {inside})")
    assert raised.value.facts["column"] == 8
