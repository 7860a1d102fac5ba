"""OPTIMIZE TABLE, and EXPLAIN of it."""

from __future__ import annotations

from lancegpu_sql.sql.statements.jobs import split_wait
from lancegpu_sql.sql.statements.model import ExplainOptimize, Name, OptimizeTable, Options, Statement
from lancegpu_sql.sql.statements.options import options
from lancegpu_sql.sql.statements.reader import Reader


def optimize(reader: Reader) -> Statement:
    """Read what follows OPTIMIZE."""
    table, given = _subject(reader)
    rest, wait = split_wait(reader, given)
    return OptimizeTable(text=reader.text, place=reader.start, table=table, options=rest, wait=wait)


def explain_optimize(reader: Reader) -> Statement:
    """Read what follows EXPLAIN OPTIMIZE."""
    table, given = _subject(reader)
    rest, _ = split_wait(reader, given)
    return ExplainOptimize(text=reader.text, place=reader.start, table=table, options=rest)


def _subject(reader: Reader) -> tuple[Name, Options]:
    if not (reader.sees("TABLE") and reader.peek(1).is_name and reader.accept("TABLE")):
        reader.accept("MATERIALIZED", "VIEW")
    table = reader.dotted_name("the name of a table")
    if not (reader.ended or reader.sees("WITH")):
        reader.refuse(expected=("WITH", "the end of the statement"))
    given = options(reader)
    reader.end()
    return table, given
