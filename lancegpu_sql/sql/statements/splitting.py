"""A text as statements, cut at semicolons."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lancegpu_sql.errors import ParseError
from lancegpu_sql.sql.names import fold
from lancegpu_sql.sql.statements.leading import read
from lancegpu_sql.sql.statements.model import Engine, Name, Statement
from lancegpu_sql.sql.statements.reader import Reader
from lancegpu_sql.sql.statements.scanner import Kind, Word, words_of


def split(text: str, is_foreign: Callable[[Name], bool] = lambda _name: False) -> list[Statement]:
    """Read a text as statements.

    Parameters
    ----------
    is_foreign
        Whether a table belongs to DuckDB, which may do more with it than is done with the database's. So does one that
        this text makes.

    Raises
    ------
    ParseError
        One of them is not understood; it says where, and what was expected.
    """
    found = []
    current: list[Word] = []
    made: set[str] = set()
    for word in words_of(text):
        ends = word.kind is Kind.END or (word.kind is Kind.SIGN and word.value == ";")
        if not ends:
            current.append(word)
        elif current:
            reader = Reader(text, [*current, Word(Kind.END, "", current[-1].end, current[-1].end)])
            found.append(_read_for(reader, made, is_foreign))
            made |= _temporary(reader)
            current = []
    return found


def _read_for(reader: Reader, made: Collection[str], is_foreign: Callable[[Name], bool]) -> Statement:
    """Read one statement; what is not understood, and is about a table of DuckDB's, is for DuckDB to understand."""
    try:
        return read(reader)
    except ParseError:
        table = reader.table
        if table is None or not (fold(table[-1]) in made or is_foreign(table)):
            raise
        reader.go_to(0)
        return Engine(text=reader.text, place=reader.start)


def _temporary(reader: Reader) -> set[str]:
    """The folded name of the table that a statement makes for the session, or gives another name."""
    reader.go_to(0)
    if reader.accept("ALTER", "TABLE"):
        while not (reader.ended or reader.accept("RENAME", "TO")):
            reader.take()
    elif reader.accept("CREATE"):
        reader.accept("OR", "REPLACE")
        if reader.take().folded not in ("TEMP", "TEMPORARY") or not reader.accept("TABLE"):
            return set()
        reader.accept("IF", "NOT", "EXISTS")
    return {fold(reader.peek().value)} if reader.at and reader.peek().is_name else set()
