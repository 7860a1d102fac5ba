"""What a statement writes to."""

from __future__ import annotations

import pytest

from lancegpu_sql.errors import InvalidQuery
from lancegpu_sql.sql.statement import replace_tables, write_in


@pytest.mark.parametrize(
    ("text", "title", "target"),
    [
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE", ("t",)),
        ("/* note */ create or replace view if not exists main.v as from t", "CREATE VIEW", ("main", "v")),
        ('INSERT OR REPLACE INTO "we\'ird" BY NAME SELECT 1', "INSERT", ("we'ird",)),
        ("WITH a AS (SELECT 1) INSERT INTO t FROM a", "INSERT", ("t",)),
        ("update t set a = 1", "UPDATE", ("t",)),
        ("DELETE FROM a.b.t WHERE x", "DELETE", ("a", "b", "t")),
        ("merge into t using s on (a = b) when matched then delete", "MERGE", ("t",)),
        ("TRUNCATE TABLE t", "TRUNCATE", ("t",)),
        ("ALTER TABLE IF EXISTS t ADD COLUMN x INT", "ALTER TABLE", ("t",)),
        ("DROP VIEW IF EXISTS v", "DROP VIEW", ("v",)),
        ("COPY t(a, b) FROM 'x.csv'", "COPY", ("t",)),
        ("CREATE UNIQUE INDEX i ON t(a)", "CREATE INDEX", ("t",)),
        ("CREATE SECRET (TYPE s3)", "CREATE SECRET", ()),
        ('INSERT INTO "table" SELECT 1', "INSERT", ("table",)),
    ],
)
def test_the_target_of_a_statement_is_found(text: str, title: str, target: tuple[str, ...]):
    write = write_in(text)
    assert write is not None
    assert (write.title, write.target) == (title, target)


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", "WITH q AS (SELECT 1) FROM q", "COPY t TO 'x.csv'", "COPY (SELECT 1) TO 'x'", "PIVOT t ON a", ""],
)
def test_what_writes_to_nothing_with_a_name_is_none(text: str):
    assert write_in(text) is None


@pytest.mark.parametrize("word", ["TEMP", "temporary"])
def test_a_temporary_thing_is_told_and_the_word_taken_out(word: str):
    write = write_in(f"CREATE OR REPLACE {word} TABLE t AS SELECT 'TEMP x'")
    assert write is not None
    assert write.temporary
    assert write.text == "CREATE OR REPLACE TABLE t AS SELECT 'TEMP x'"


def test_a_quoted_temp_is_a_name():
    write = write_in('CREATE TABLE "temp" (a INT)')
    assert write is not None
    assert (write.temporary, write.target) == (False, ("temp",))


def test_tables_spelled_exactly_so_are_replaced_and_keep_their_name():
    text = "SELECT Foo.a, 'Foo é' FROM Foo JOIN foo AS f ON true, (FROM \"Foo\" AS g)"
    assert replace_tables(text, {"Foo": "_1"}) == (
        'SELECT Foo.a, \'Foo é\' FROM "_1" AS "Foo" JOIN foo AS f ON true, (FROM "_1" AS g)'
    )


def test_a_query_that_cannot_be_read_is_refused_rather_than_guessed_at():
    with pytest.raises(InvalidQuery, match="differ in case only"):
        replace_tables("SELECT FROM FROM Foo (", {"Foo": "_1"})
