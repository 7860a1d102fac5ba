"""Names in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.names import choose, fold, quote
from lancegpu_sql.sql.tokens import tokens_of


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_quoted_name_reads_back_as_itself(name: str):
    (token,) = tokens_of(quote(name))
    assert token.text == name


def test_names_differ_by_case_in_ascii_only():
    assert fold("Straße-É") == "straße-É"


def test_the_same_spelling_is_chosen_before_any_other():
    assert choose("Docs", ["docs", "Docs"]) == "Docs"


def test_another_case_is_chosen_where_it_is_the_only_one():
    assert choose("DOCS", ["docs", "other"]) == "docs"


def test_a_name_that_could_be_several_is_refused_with_the_candidates():
    with pytest.raises(InvalidQuery) as caught:
        choose("DOCS", ["docs", "Docs"])
    assert caught.value.facts["candidates"] == ["Docs", "docs"]


def test_an_unknown_name_is_none():
    assert choose("nope", ["docs"]) is None
