"""CREATE, SHOW, DESCRIBE and DROP FUNCTION."""

from __future__ import annotations

import re

import pyarrow as pa

from lancegpu_sql.errors import InvalidFunction
from lancegpu_sql.functions.arrow_types import format_type, parse_type
from lancegpu_sql.sql.statements.model import (
    CreateFunction,
    CreateFunctionFromFile,
    DescribeFunction,
    DropFunction,
    FunctionParameter,
    Options,
    Statement,
)
from lancegpu_sql.sql.statements.options import options
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind

_AFTER_TYPE = frozenset({"NOT", "NULL", "LANGUAGE", "AS", "WITH", "RETURNS", "DEFAULT"})
# What stands between square brackets, a field's name, or (the group) a word of a type.
_WORDS = re.compile(r'\[[^\]]*\]|"[^"]*"|\w+(?=\s*:)|([A-Za-z_]\w*)')
_CLAUSES = ("RETURNS", "LANGUAGE", "AS", "WITH")


def create_function(reader: Reader, *, replace: bool) -> Statement:
    """Read what follows CREATE [OR REPLACE] FUNCTION."""
    start, text = reader.start, reader.text
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the name of the Function")
    if reader.accept("FROM"):
        return _from_file(reader, name, replace=replace, if_not_exists=if_not_exists)
    parameters = _parameters(reader)
    output_type, output_nullable, source = "", True, ""
    given: Options = ()
    done: set[str] = set()
    while not reader.ended:
        clause = reader.one_of(*(one for one in _CLAUSES if one not in done))
        done.add(clause)
        if clause == "RETURNS":
            output_type, output_nullable = _typed(reader)
        elif clause == "LANGUAGE":
            _language(reader)
        elif clause == "AS":
            source = reader.string("the source, between $$ and $$ or in quotes")
        else:
            reader.go_to(reader.at - 1)
            given = options(reader)
    for clause in _CLAUSES[:3]:
        if clause not in done:
            reader.refuse(expected=f"{clause} …")
    return CreateFunction(
        text=text,
        place=start,
        name=name,
        parameters=parameters,
        output_type=output_type,
        output_nullable=output_nullable,
        source=source,
        options=given,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def describe_function(reader: Reader) -> Statement:
    """Read what follows DESCRIBE FUNCTION."""
    name = reader.name("the name of the Function")
    version = version_of(reader)
    reader.end()
    return DescribeFunction(text=reader.text, place=reader.start, name=name, version=version)


def drop_function(reader: Reader) -> Statement:
    """Read what follows DROP FUNCTION."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.dotted_name("the name of the Function")
    version = version_of(reader)
    reader.end()
    return DropFunction(text=reader.text, place=reader.start, name=name, version=version, if_exists=if_exists)


def version_of(reader: Reader) -> int | None:
    """Read VERSION n, if it comes next."""
    return reader.count("the number of a version") if reader.accept("VERSION") else None


def _from_file(reader: Reader, name: str, *, replace: bool, if_not_exists: bool) -> Statement:
    word = reader.peek()
    written = reader.string("the path of a Python file in quotes, such as 'functions.py' or 'functions.py:name'")
    path, colon, defined_as = written.rpartition(":")
    if not colon or "/" in defined_as or defined_as.endswith(".py"):
        path, defined_as = written, name
    if not path.strip() or not defined_as.strip():
        reader.refuse_word(word, "This names no Function of a file", expected="'file.py' or 'file.py:name'")
    given = options(reader)
    reader.end()
    return CreateFunctionFromFile(
        text=reader.text,
        place=reader.start,
        name=name,
        path=path,
        defined_as=defined_as.strip(),
        options=given,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def _parameters(reader: Reader) -> tuple[FunctionParameter, ...]:
    opening = reader.peek()
    if reader.sees_sign("(") and reader.sees_sign(")", ahead=1):
        reader.refuse_word(opening, "A Function takes at least one column", expected="(name type, …)")
    found: list[FunctionParameter] = []

    def parameter() -> FunctionParameter:
        word = reader.peek()
        name = reader.name("the name of a parameter")
        if any(name == other.name for other in found):
            reader.refuse_word(word, f"There are two parameters {name!r}")
        found.append(FunctionParameter(name, *_typed(reader)))
        return found[-1]

    return tuple(reader.list_of(parameter))


def _typed(reader: Reader) -> tuple[str, bool]:
    """Read an Arrow type, and whether it may be null."""
    kind = arrow_type(reader)
    if reader.accept("NOT"):
        reader.keywords("NULL")
        return kind, False
    reader.accept("NULL")
    return kind, True


def arrow_type(reader: Reader) -> str:
    """Read an Arrow type; return it as the catalog writes it."""
    first, depth = reader.at, 0
    word = reader.peek()
    while not reader.ended:
        sign = reader.peek().value if reader.peek().kind is Kind.SIGN else ""
        if depth == 0 and (sign in {",", ")"} or reader.peek().folded in _AFTER_TYPE):
            break
        depth += sum(sign.count(one) for one in "<([") - (0 if sign == "->" else sum(sign.count(one) for one in ">)]"))
        reader.take()
    written = reader.text_between(first, reader.at)
    if not written:
        reader.refuse(expected="an Arrow type, such as utf8, int64 or list<float32>")
    try:
        return format_type(_type_of(written))
    except InvalidFunction as exc:
        reader.refuse_word(word, exc.message.rstrip("."))
    except RecursionError:
        reader.refuse_word(word, "This type is nested too deeply")


def _type_of(written: str) -> pa.DataType:
    """The type of a text; SQL does not tell words apart by their case, as long as they name no field and no time zone."""
    try:
        return parse_type(written)
    except InvalidFunction:
        return parse_type(_WORDS.sub(lambda found: found[0] if found[1] is None else found[0].lower(), written))


def _language(reader: Reader) -> None:
    word = reader.peek()
    language = reader.name("python")
    if language.lower() != "python":
        reader.refuse_word(word, f"Functions are written in Python, not in {language!r}", expected="python")
