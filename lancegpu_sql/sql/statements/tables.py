"""CREATE TABLE, DROP TABLE and ALTER TABLE."""

from __future__ import annotations

from lancegpu_sql.sql.statements import schedules
from lancegpu_sql.sql.statements.functions import version_of
from lancegpu_sql.sql.statements.model import (
    AddColumn,
    AddComputedColumn,
    ColumnDefinition,
    CreateTable,
    CreateTableAs,
    DropColumn,
    DropTable,
    Name,
    RenameColumn,
    SetColumnFunction,
    SetColumnType,
    Statement,
    Value,
)
from lancegpu_sql.sql.statements.options import options, value
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind

_CONSTRAINTS = (
    "DEFAULT",
    "PRIMARY",
    "UNIQUE",
    "CHECK",
    "REFERENCES",
    "COLLATE",
    "GENERATED",
    "CONSTRAINT",
    "FOREIGN",
    "AS",
)
_AFTER_TYPE = frozenset({"NOT", "NULL", "USING", *_CONSTRAINTS})
_COLUMN = "the name of a column"


def create_table(reader: Reader, *, replace: bool) -> Statement:
    """Read what follows CREATE [OR REPLACE] TABLE."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    table = reader.table_name()
    names: tuple[str, ...] = ()
    if not reader.sees("AS"):
        if not reader.sees_sign("("):
            reader.refuse(expected=("(column type, …)", "AS"))
        first = reader.at
        if _lists_names(reader):
            names = tuple(reader.list_of(lambda: reader.name(_COLUMN)))
            if not reader.sees("AS"):
                reader.go_to(first)
                names = ()
        if not names:
            columns = _column_list(reader)
            reader.end()
            return CreateTable(
                text=reader.text,
                place=reader.start,
                table=table,
                columns=columns,
                replace=replace,
                if_not_exists=if_not_exists,
            )
    reader.keywords("AS")
    query, with_data = query_with_data(reader)
    reader.end()
    return CreateTableAs(
        text=reader.text,
        place=reader.start,
        table=table,
        columns=names,
        query=query,
        with_data=with_data,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def query_with_data(reader: Reader) -> tuple[str, bool]:
    """Read a query, and whether its rows are wanted: WITH DATA, which goes without saying, or WITH NO DATA."""
    query = reader.text_until(lambda: reader.sees("WITH", "NO", "DATA") or reader.sees("WITH", "DATA"), "a query")
    if not reader.accept("WITH"):
        return query, True
    with_data = not reader.accept("NO")
    reader.keywords("DATA")
    return query, with_data


def drop_table(reader: Reader) -> Statement:
    """Read what follows DROP TABLE."""
    if_exists = reader.accept("IF", "EXISTS")
    table = reader.table_name()
    reader.accept("RESTRICT")
    if reader.sees("CASCADE"):
        reader.refuse("Nothing depends on a table that CASCADE could drop", expected="the end of the statement")
    reader.end()
    return DropTable(text=reader.text, place=reader.start, table=table, if_exists=if_exists)


def alter_table(reader: Reader) -> Statement:
    """Read what follows ALTER TABLE."""
    word = reader.peek()
    if_exists = reader.accept("IF", "EXISTS")
    table = reader.table_name()
    if if_exists:
        reader.refuse_word(word, "ALTER TABLE needs a table that exists", expected="the name of a table")
    what = reader.one_of("ADD", "ALTER", "DROP", "RENAME")
    if what == "RENAME" and reader.sees("TO"):
        reader.refuse(
            "A table keeps its name: its jobs and proofs are known by it. Make another one, CREATE TABLE new AS FROM old",
            expected="COLUMN",
        )
    if what != "RENAME" or not _is_renamed_bare(reader):
        reader.accept("COLUMN")
    statement = {"ADD": _add, "ALTER": _alter, "DROP": _drop, "RENAME": _rename}[what](reader, table)
    reader.end()
    return statement


def data_type(reader: Reader, what: str = "a type") -> str:
    """Read one of DuckDB's types."""
    return reader.text_until(lambda: reader.sees_sign(",") or reader.peek().folded in _AFTER_TYPE, what)


def _lists_names(reader: Reader) -> bool:
    """Whether a bracket with nothing but names comes next."""
    return reader.peek(1).is_name and (reader.sees_sign(",", ahead=2) or reader.sees_sign(")", ahead=2))


def _column_list(reader: Reader) -> tuple[ColumnDefinition, ...]:
    def column() -> ColumnDefinition:
        if reader.peek().folded in {"PRIMARY", "UNIQUE", "CHECK", "CONSTRAINT", "FOREIGN"}:
            _refuse_constraint(reader)
        name = reader.name(_COLUMN)
        kind = data_type(reader, f"the type of column {name!r}")
        nullable = True
        while not (reader.sees_sign(",") or reader.sees_sign(")") or reader.ended):
            if reader.accept("NOT"):
                reader.keywords("NULL")
                nullable = False
            elif not reader.accept("NULL"):
                _refuse_constraint(reader)
        return ColumnDefinition(name, kind, nullable)

    return tuple(reader.list_of(column))


def _refuse_constraint(reader: Reader) -> None:
    if reader.peek().folded in ("GENERATED", "AS"):
        reader.refuse("A computed column is added to a table that is there: ALTER TABLE … ADD COLUMN … AS (f(x))")
    if reader.peek().folded in _CONSTRAINTS:
        reader.refuse(f"Tables keep no {reader.peek().folded} constraint", expected=("NOT NULL", ",", ")"))
    reader.refuse(expected=("NOT NULL", ",", ")"))


def _add(reader: Reader, table: Name) -> Statement:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    column = reader.name(_COLUMN)
    kind: str | None = None
    if not reader.sees("AS") and not reader.sees("GENERATED"):
        kind = data_type(reader, f"the type of column {column!r}, or AS (f(x))")
    if reader.accept("GENERATED"):
        reader.keywords("ALWAYS")
        if not reader.sees("AS"):
            reader.refuse(expected="AS (f(x))")
    if reader.accept("AS"):
        function, columns, values = _call(reader)
        clause = schedules.schedule(reader) if reader.accept("SCHEDULE") else None
        return AddComputedColumn(
            text=reader.text,
            place=reader.start,
            table=table,
            column=column,
            type=kind,
            function=function,
            columns=columns,
            values=values,
            if_not_exists=if_not_exists,
            schedule=clause,
            options=() if clause is None else options(reader),
        )
    reader.accept("NULL")
    if reader.sees("NOT", "NULL") or reader.peek().folded in _CONSTRAINTS:
        reader.refuse("A column that is added is empty at first, and keeps no constraint", expected="AS (f(x))")
    assert kind is not None
    return AddColumn(
        text=reader.text, place=reader.start, table=table, column=column, type=kind, if_not_exists=if_not_exists
    )


_CALCULATES = "A computed column is one Function applied to columns as they are: calculate inside the Function"
_Arguments = tuple[tuple[int | str, str], ...]


def _call(reader: Reader) -> tuple[str, _Arguments, tuple[tuple[str, Value], ...]]:
    """Read (f(x, y := z, model := 'constant'))."""
    reader.sign("(")
    function = reader.name("a Function applied to columns, such as f(x)")
    columns: list[tuple[int | str, str]] = []
    values: list[tuple[str, Value]] = []
    taken: set[str] = set()

    def argument() -> None:
        word = reader.peek()
        name: str | None = None
        if word.is_name and (reader.sees_sign(":=", ahead=1) or reader.sees_sign("=>", ahead=1)):
            name = reader.name("the name of a parameter")
            reader.take()
            if name in taken:
                reader.refuse_word(word, f"The parameter {name!r} is given twice")
            taken.add(name)
        given = reader.peek()
        is_constant = given.folded in ("TRUE", "FALSE", "NULL") or not given.is_name
        if is_constant and given.kind is not Kind.SIGN and name is None:
            reader.refuse(
                "A constant is given by the name of its parameter, which belongs to the __init__ of a class",
                expected=(_COLUMN, "parameter := constant"),
            )
        if is_constant and (given.kind is not Kind.SIGN or given.value == "-"):
            assert name is not None or given.value == "-"
            if name is None:
                reader.refuse(expected=_COLUMN)
            values.append((name, value(reader)))
        else:
            columns.append((len(columns) if name is None else name, reader.dotted_name(_COLUMN)[-1]))
        if not (reader.sees_sign(",") or reader.sees_sign(")")):
            reader.refuse(_CALCULATES, expected=(",", ")"))

    reader.list_of(argument)
    if not (reader.ended or reader.sees_sign(")")):
        reader.refuse(_CALCULATES, expected=")")
    reader.sign(")")
    if reader.peek().folded in ("STORED", "VIRTUAL"):
        reader.refuse("A computed column is stored when it is refreshed", expected="the end of the statement")
    return function, tuple(columns), tuple(values)


def _alter(reader: Reader, table: Name) -> Statement:
    column = reader.name(_COLUMN)
    scheduled = schedules.alter_column(reader, table, column)
    if scheduled is not None:
        return scheduled
    if reader.accept("SET", "FUNCTION"):
        function = reader.name("the name of a Function")
        return SetColumnFunction(
            text=reader.text,
            place=reader.start,
            table=table,
            column=column,
            function=function,
            version=version_of(reader),
        )
    if reader.accept("SET", "DATA", "TYPE") or reader.accept("TYPE") or reader.accept("SET", "TYPE"):
        kind = data_type(reader)
        if reader.sees("USING"):
            reader.refuse("Values are cast as they are; write UPDATE for another expression")
        return SetColumnType(text=reader.text, place=reader.start, table=table, column=column, type=kind)
    if reader.accept("SET") or reader.peek().folded == "DROP":
        reader.refuse(
            "Columns keep no default, and stay nullable or not as they were made",
            expected=("FUNCTION", "TYPE", "SCHEDULE"),
        )
    return reader.refuse(expected=("SET FUNCTION", "SET SCHEDULE", "TYPE"))


def _drop(reader: Reader, table: Name) -> Statement:
    if_exists = reader.accept("IF", "EXISTS")
    column = reader.name(_COLUMN)
    reader.accept("RESTRICT")
    return DropColumn(text=reader.text, place=reader.start, table=table, column=column, if_exists=if_exists)


def _is_renamed_bare(reader: Reader) -> bool:
    """Whether RENAME is followed by a column that is called "column" itself."""
    return reader.sees("COLUMN", "TO") and reader.peek(2).is_name and reader.peek(3).kind is Kind.END


def _rename(reader: Reader, table: Name) -> Statement:
    column = reader.name(_COLUMN)
    reader.keywords("TO")
    new_name = reader.name("its new name")
    return RenameColumn(text=reader.text, place=reader.start, table=table, column=column, new_name=new_name)
