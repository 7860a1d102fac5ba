"""What is said of a function that neither DuckDB nor the database has."""

from __future__ import annotations

from lancegpu_sql.sql.missing_function import with_registered

TOLD = 'Catalog Error: Scalar Function with name sentimnt does not exist!\nDid you mean "sem"?\n\nLINE 1: SELECT sentimnt(x)'


def test_a_registered_function_of_a_similar_name_comes_before_one_of_duckdb():
    told = with_registered(TOLD, ["Sentiment", "words"])
    assert told == TOLD.replace('"sem"', '"Sentiment"')


def test_where_none_is_similar_it_is_said_where_they_are_listed():
    told = with_registered(TOLD, ["words"])
    assert told == TOLD.replace("?\n", "?\nSHOW FUNCTIONS lists those that are registered.\n", 1)


def test_a_registered_function_is_called_without_a_schema():
    told = with_registered(TOLD, ["Sentimnt"])
    assert 'The Function "Sentimnt" is called by its name alone.' in told


def test_another_message_stays_as_it_is():
    assert with_registered("Binder Error: no", ["no"]) == "Binder Error: no"
