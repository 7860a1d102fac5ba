"""INSERT, UPDATE, DELETE, TRUNCATE and MERGE: cut into their parts, whose expressions stay DuckDB's."""

from __future__ import annotations

from collections.abc import Callable

from lancegpu_sql.sql.statements.model import (
    Assignment,
    CopyFrom,
    Delete,
    Insert,
    Merge,
    MergeAction,
    Statement,
    Update,
)
from lancegpu_sql.sql.statements.reader import Reader

_COLUMN = "the name of a column"
_NO_KEYS = "A table has no keys that rows could be in conflict over: write MERGE INTO"
_NO_RETURNING = "A statement that writes returns the number of rows: ask for them afterwards, by a query"


def insert(reader: Reader, with_list: str) -> Statement:
    """Read what follows INSERT."""
    word = reader.peek(1)
    replaces = reader.accept("OR", "REPLACE") or reader.accept("OR", "IGNORE")
    reader.keywords("INTO")
    table = reader.table_name()
    if replaces:
        reader.refuse_word(word, _NO_KEYS, expected="INTO")
    if reader.accept("AS"):
        reader.name("another name for the table")
    columns: tuple[str, ...] = ()
    if reader.sees_sign("(") and reader.peek(1).is_name and _is_comma_or_end(reader, 2):
        columns = _distinct_names(reader)
    by_name = _by_name(reader)
    if by_name and columns:
        reader.refuse("BY NAME takes the columns from the query: leave the list of columns out", expected="a query")
    query: str | None = None
    parts: tuple[str, ...] = ()
    if reader.accept("DEFAULT"):
        reader.keywords("VALUES")
    else:
        first = reader.at
        reader.text_until(lambda: reader.sees("RETURNING") or reader.sees("ON", "CONFLICT"), "a query, or VALUES (…)")
        query = with_parts(with_list, reader.text_with_defaults(first, reader.at))
        parts = (with_list, reader.text_between(first, reader.at)) if with_list else (query,)
    if reader.sees("ON", "CONFLICT"):
        reader.refuse(_NO_KEYS)
    _end(reader)
    return Insert(
        text=reader.text,
        place=reader.start,
        table=table,
        columns=columns,
        by_name=by_name,
        query=query,
        query_parts=parts,
    )


def copy_from(reader: Reader) -> Statement | None:
    """Read what follows COPY, where it puts rows into a table; None where it does something else."""
    if reader.sees("FROM") or not reader.peek().is_name:
        return None
    table = reader.table_name()
    columns = _distinct_names(reader) if reader.sees_sign("(") and reader.peek(1).is_name else ()
    if not reader.sees("FROM"):
        return None
    first = reader.at
    reader.rest_words()
    source = reader.text_between(first, reader.at)
    return CopyFrom(text=reader.text, place=reader.start, table=table, columns=columns, source=source)


def update(reader: Reader, with_list: str) -> Statement:
    """Read what follows UPDATE."""
    table, alias = _target(reader, "SET")
    reader.keywords("SET")
    assignments = _assignments(reader, lambda: _sees_from(reader) or reader.peek().folded in ("WHERE", "RETURNING"))
    sources, where = _sources_and_condition(reader, "FROM")
    _end(reader)
    return Update(
        text=reader.text,
        place=reader.start,
        table=table,
        alias=alias,
        with_list=with_list,
        assignments=assignments,
        sources=sources,
        where=where,
    )


def delete(reader: Reader, with_list: str) -> Statement:
    """Read what follows DELETE."""
    reader.keywords("FROM")
    table, alias = _target(reader, "USING", "WHERE", "RETURNING")
    sources, where = _sources_and_condition(reader, "USING")
    _end(reader)
    return Delete(
        text=reader.text,
        place=reader.start,
        table=table,
        alias=alias,
        with_list=with_list,
        sources=sources,
        where=where,
    )


def truncate(reader: Reader) -> Statement:
    """Read what follows TRUNCATE."""
    reader.accept("TABLE")
    table = reader.table_name()
    reader.end()
    return Delete(text=reader.text, place=reader.start, table=table, alias=None, with_list="", sources=None, where=None)


def merge(reader: Reader, with_list: str) -> Statement:
    """Read what follows MERGE."""
    reader.keywords("INTO")
    table, alias = _target(reader, "USING")
    reader.keywords("USING")
    source, name, columns = _source(reader)
    condition: str | None = None
    using: tuple[str, ...] = ()
    if reader.accept("ON"):
        condition = reader.text_until(lambda: reader.sees("WHEN"), "a condition")
    elif reader.accept("USING"):
        using = _distinct_names(reader)
    else:
        reader.refuse(expected=("ON", "USING"))
    actions: list[MergeAction] = []
    while reader.sees("WHEN"):
        actions.append(_when(reader))
    if not actions:
        reader.refuse(expected="WHEN")
    if not reader.ended and not reader.sees("RETURNING"):
        reader.refuse(expected=("WHEN", "the end of the statement"))
    _end(reader)
    return Merge(
        text=reader.text,
        place=reader.start,
        table=table,
        alias=alias,
        with_list=with_list,
        source=source,
        source_name=name,
        source_columns=columns,
        condition=condition,
        using=using,
        actions=tuple(actions),
    )


def with_parts(with_list: str, query: str) -> str:
    """Return a query that sees the names of a WITH that stood before the statement it is part of."""
    if not with_list:
        return query
    return f"{with_list}\nFROM (\n{query}\n)" if query[:4].upper() == "WITH" else f"{with_list}\n{query}"


def _target(reader: Reader, *after: str) -> tuple[tuple[str, ...], str | None]:
    table = reader.table_name()
    if reader.accept("AS"):
        return table, reader.name("another name for the table")
    if reader.peek().is_name and reader.peek().folded not in after:
        return table, reader.name("another name for the table")
    return table, None


def _sources_and_condition(reader: Reader, keyword: str) -> tuple[str | None, str | None]:
    sources = where = None
    if reader.accept(keyword):
        sources = reader.text_until(lambda: reader.peek().folded in ("WHERE", "RETURNING"), "a table")
    if reader.accept("WHERE"):
        where = reader.text_until(lambda: reader.sees("RETURNING"), "a condition")
    return sources, where


def _sees_from(reader: Reader) -> bool:
    return reader.sees("FROM") and not reader.follows("DISTINCT")


def _assignments(reader: Reader, ends: Callable[[], bool]) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    while True:
        word = reader.peek()
        for one in _assigned(reader, ends):
            if any(one.column == other.column for other in found):
                reader.refuse_word(word, f"Column {one.column!r} is set twice")
            found.append(one)
        if not reader.accept_sign(","):
            return tuple(found)


def _assigned(reader: Reader, ends: Callable[[], bool]) -> list[Assignment]:
    stops = lambda: ends() or reader.sees_sign(",")  # noqa: E731 - one word for what ends any expression here
    if not reader.sees_sign("("):
        column = reader.dotted_name(_COLUMN)[-1]
        reader.sign("=")
        return [Assignment(column, _expression(reader, stops))]
    columns = _distinct_names(reader)
    reader.sign("=")
    reader.accept("ROW")
    word = reader.peek()
    values = reader.list_of(lambda: _expression(reader, lambda: reader.sees_sign(",")))
    if len(values) != len(columns):
        reader.refuse_word(word, f"{len(columns)} columns are set to {len(values)} values")
    return [Assignment(column, expression) for column, expression in zip(columns, values, strict=True)]


def _expression(reader: Reader, stops: Callable[[], bool]) -> str | None:
    if reader.accept("DEFAULT"):
        return None
    return reader.text_until(stops, "an expression")


def _distinct_names(reader: Reader) -> tuple[str, ...]:
    found: list[str] = []

    def name() -> None:
        word = reader.peek()
        found.append(reader.name(_COLUMN))
        if found[-1] in found[:-1]:
            reader.refuse_word(word, f"Column {found[-1]!r} is named twice")

    reader.list_of(name)
    return tuple(found)


def _by_name(reader: Reader) -> bool:
    if not reader.accept("BY"):
        return False
    return reader.one_of("NAME", "POSITION") == "NAME"


def _is_comma_or_end(reader: Reader, ahead: int) -> bool:
    return reader.sees_sign(",", ahead) or reader.sees_sign(")", ahead)


def _source(reader: Reader) -> tuple[str, str, tuple[str, ...]]:
    """Read a table, a table function or a query in brackets, with the name it has in the statement."""
    first = reader.at
    name = "source"
    if reader.sees_sign("("):
        reader.text_in_brackets("a query")
    else:
        name = reader.dotted_name("a table or a query in brackets")[-1]
        if reader.sees_sign("("):
            reader.sign("(")
            if not reader.sees_sign(")"):
                reader.text_until(lambda: False, "arguments")
            reader.sign(")")
    text = reader.text_between(first, reader.at)
    if reader.accept("AS") or (reader.peek().is_name and reader.peek().folded not in ("ON", "USING")):
        name = reader.name("another name for the source")
    columns = _distinct_names(reader) if reader.sees_sign("(") else ()
    return text, name, columns


def _when(reader: Reader) -> MergeAction:
    reader.keywords("WHEN")
    when = _kind_of_rows(reader)
    condition = None
    if reader.accept("AND"):
        condition = reader.text_until(lambda: reader.sees("THEN"), "a condition")
    reader.keywords("THEN")
    possible = ("INSERT",) if when == "new" else ("UPDATE", "DELETE")
    action = reader.one_of(*possible, "DO", "ERROR")
    if action == "UPDATE":
        return _merge_update(reader, when, condition)
    if action == "INSERT":
        return _merge_insert(reader, condition)
    if action == "DO":
        reader.keywords("NOTHING")
        return MergeAction(when, condition, "nothing")
    if action == "ERROR":
        told = None
        if not (reader.ended or reader.peek().folded in ("WHEN", "RETURNING")):
            told = reader.text_until(lambda: reader.peek().folded in ("WHEN", "RETURNING"), "a message")
        return MergeAction(when, condition, "error", error=told)
    return MergeAction(when, condition, "delete")


def _kind_of_rows(reader: Reader) -> str:
    if reader.one_of("MATCHED", "NOT") == "MATCHED":
        return "matched"
    reader.keywords("MATCHED")
    if not reader.accept("BY"):
        return "new"
    return "new" if reader.one_of("TARGET", "SOURCE") == "TARGET" else "missing"


def _merge_update(reader: Reader, when: str, condition: str | None) -> MergeAction:
    if reader.accept("SET"):
        if not reader.accept_sign("*"):
            ends = lambda: reader.peek().folded in ("WHEN", "RETURNING")  # noqa: E731
            return MergeAction(when, condition, "update", assignments=_assignments(reader, ends))
        by = "position"
    else:
        by = "name" if _by_name(reader) else "position"
    if when == "missing":
        reader.refuse("There is no row of the source to take all columns from", expected="SET column = expression")
    return MergeAction(when, condition, "update", all_columns=by)


def _merge_insert(reader: Reader, condition: str | None) -> MergeAction:
    if reader.accept_sign("*"):
        return MergeAction("new", condition, "insert", all_columns="position")
    columns = _distinct_names(reader) if reader.sees_sign("(") else ()
    if reader.accept("DEFAULT"):
        reader.keywords("VALUES")
        return MergeAction("new", condition, "insert", values=())
    if columns or reader.sees("VALUES"):
        reader.keywords("VALUES")
        word = reader.peek()
        values = tuple(reader.list_of(lambda: _expression(reader, lambda: reader.sees_sign(","))))
        if not columns:
            return MergeAction("new", condition, "insert", values=values)
        if len(columns) != len(values):
            reader.refuse_word(word, f"{len(values)} values are inserted into {len(columns)} columns")
        return MergeAction("new", condition, "insert", assignments=tuple(map(Assignment, columns, values)))
    return MergeAction("new", condition, "insert", all_columns="name" if _by_name(reader) else "position")


def _end(reader: Reader) -> None:
    if reader.sees("RETURNING"):
        reader.refuse(_NO_RETURNING, expected="the end of the statement")
    reader.end()
