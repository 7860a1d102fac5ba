"""What statements become, told by their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql_corpus import CORPUS

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.statements import model, split


def one(text: str) -> Any:
    """The only statement of a text."""
    (statement,) = split(text)
    return statement


@pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
def test_every_statement_of_the_corpus_is_one_of_ours_or_known_to_be_duckdbs(file: Path):
    kinds = {type(statement) for statement in split(file.read_text())}
    duckdbs = {model.Query, model.Engine, model.Explain, model.Transaction}
    assert kinds <= duckdbs if file.stem == "duckdb" else not kinds & duckdbs


def test_every_kind_of_statement_stands_in_the_corpus():
    found = {type(statement) for file in CORPUS for statement in split(file.read_text())}
    every = {kind for kind in vars(model).values() if isinstance(kind, type) and issubclass(kind, model.Statement)}
    assert found == every - {model.Statement}


@pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
def test_a_statement_alone_is_what_it_was_among_others(file: Path):
    for statement in split(file.read_text()):
        assert type(one(statement.text)) is type(statement)


def test_semicolons_in_strings_bodies_names_and_comments_end_nothing():
    texts = ["SELECT ';', $$;$$, $a$;$$;$a$, \";\" -- ;\n/* ; /* ; */ ; */, E'\\';'", "FROM t"]
    assert [statement.text for statement in split(";;".join(texts) + ";\n")] == texts


def test_types_are_read_whatever_their_case_and_fields_and_zones_are_left_as_they_are():
    text = "CREATE FUNCTION f(a Utf8, b LIST<Struct<Lo: INT64, \"Hi\": Bool>>) RETURNS TIMESTAMP[us, Europe/Paris] LANGUAGE {} ''"
    made = one(text.format("PYTHON AS"))
    assert [each.type for each in made.parameters] == ["utf8", "list<struct<Lo: int64, Hi: bool>>"]
    assert made.output_type == "timestamp[us, Europe/Paris]"


def test_a_comma_may_end_a_list():
    assert one("CREATE TABLE t (a INT, b INT,)").columns == one("CREATE TABLE t (a INT, b INT)").columns


def test_what_duckdb_takes_for_a_space_is_one_here_too():
    (query, shown) = split("\ufeffSELECT 1;\u200bSHOW\u00a0FUNCTIONS\u2060")
    assert query.text == "SELECT 1"
    assert isinstance(shown, model.ShowFunctions)


def test_what_is_not_understood_of_a_table_of_duckdbs_is_left_to_duckdb():
    text = "ALTER TABLE x.t RENAME TO u"
    with pytest.raises(ParseError):
        split(text)
    (left,) = split(text, lambda name: name == ("x", "t"))
    assert isinstance(left, model.Engine)


def test_a_statement_knows_where_it_begins():
    places = [statement.place for statement in split("FROM t; \n  SHOW JOBS")]
    assert [(place.line, place.column) for place in places] == [(1, 1), (2, 3)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CREATE FUNCTION f(x) AS x + 1", model.Engine),
        ("CREATE OR REPLACE FUNCTION f(x, y := 1) AS (SELECT language FROM t)", model.Engine),
        ("CREATE FUNCTION f(x) AS TABLE FROM t WHERE returns", model.Engine),
        ("CREATE FUNCTION f(x utf8) RETURNS utf8 LANGUAGE python AS $$def f(x): ...$$", model.CreateFunction),
        ("CREATE FUNCTION f(x utf8) AS 'def f(x): ...' LANGUAGE python RETURNS utf8", model.CreateFunction),
        ("CREATE TEMP TABLE t AS SELECT 1", model.Engine),
        ("UPDATE EXTENSIONS (json)", model.Engine),
        ("WITH x AS (SELECT 1) DELETE FROM t USING x", model.Delete),
        ("WITH update AS (SELECT 1) FROM update", model.Query),
        ("INSERT INTO t (SELECT 1)", model.Insert),
        ("SHOW DATABASES", model.Query),
        ("SHOW functions", model.ShowFunctions),
        ("DESCRIBE function", model.Describe),
        ("DESCRIBE", model.Query),
        ("begin", model.Transaction),
    ],
)
def test_a_statement_is_told_by_its_words(text: str, kind: type):
    assert type(one(text)) is kind


def test_a_function_of_source_is_read_with_its_types_and_options():
    found = one(
        "create function f(a utf8 not null, b list<float32>) returns struct<x: int64> language python as $$code$$ "
        "with (gpu = true, gpus = 2, cpus => 1, env := 'x')"
    )
    assert found.parameters == (
        model.FunctionParameter("a", "utf8", False),
        model.FunctionParameter("b", "list<float32>", True),
    )
    assert (found.output_type, found.output_nullable, found.source) == ("struct<x: int64>", True, "code")
    assert {each.name: each.value for each in found.options} == {"gpu": True, "gpus": 2, "cpus": 1, "env": "x"}


def test_a_file_may_name_the_function_it_defines():
    assert (one("CREATE FUNCTION f FROM 'a/b.py'").path, one("CREATE FUNCTION f FROM 'a/b.py:g'").defined_as) == (
        "a/b.py",
        "g",
    )


def test_expressions_stay_as_written():
    found = one("UPDATE t SET a = f(x, 'y,z'), b = CASE WHEN 1 THEN 2 END FROM s WHERE a IS DISTINCT FROM [1, 2][1]")
    assert [each.expression for each in found.assignments] == ["f(x, 'y,z')", "CASE WHEN 1 THEN 2 END"]
    assert (found.sources, found.where) == ("s", "a IS DISTINCT FROM [1, 2][1]")


def test_a_column_list_is_told_from_a_query_in_brackets():
    assert one("INSERT INTO t (a, b) VALUES (1, 2)").columns == ("a", "b")
    assert one("INSERT INTO t (FROM s)").query == "(FROM s)"


def test_what_a_with_names_is_seen_by_the_query_that_is_inserted():
    assert one("WITH a AS (SELECT 1) INSERT INTO t WITH b AS (FROM a) FROM b").query == (
        "WITH a AS (SELECT 1)\nFROM (\nWITH b AS (FROM a) FROM b\n)"
    )


def test_constants_of_a_computed_column_are_given_by_name():
    found = one("ALTER TABLE t ADD COLUMN c AS (f(x, model := 'a', k := -1.5, on := TRUE, z := y))")
    assert found.columns == ((0, "x"), ("z", "y"))
    assert found.values == (("model", "a"), ("k", -1.5), ("on", True))


def test_explain_holds_the_statement_it_explains():
    found = one("EXPLAIN (ANALYZE, FORMAT json) FROM t")
    assert (found.analyze, found.format, found.statement.text) == (True, "json", "FROM t")


def test_a_schedule_is_read_by_its_parts():
    found = one("ALTER TABLE t ALTER COLUMN c SET SCHEDULE CRON '0 3 * * *' TIME ZONE 'Europe/Paris' JITTER '1 minute'")
    clause = found.schedule
    assert (clause.every, clause.cron, clause.time_zone, clause.jitter) == (
        None,
        "0 3 * * *",
        "Europe/Paris",
        "1 minute",
    )
    assert found.text[clause.position :].startswith("CRON")


@pytest.mark.parametrize(
    "span", ["INTERVAL '10 minutes'", "'10 minutes'", "10 minutes", "INTERVAL 10 minutes", "'10' minutes"]
)
def test_a_span_is_written_as_an_interval_or_without_that_word(span: str):
    assert one(f"ALTER TABLE t ALTER COLUMN c SET SCHEDULE EVERY {span}").schedule.every == "10 minutes"
